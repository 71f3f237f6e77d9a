-- 01 02 03 04 05
SELECT string_agg(right("Id", 2), ' ' ORDER BY "Id") FROM "Invoices" WHERE "Status" = 'Expired';
-- 1
SELECT count(*)::text FROM "PendingInvoices" WHERE "Id" = 'inv08';
-- 3
SELECT count(*)::text FROM "PendingInvoices";
