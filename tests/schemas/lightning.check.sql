-- h01 h02 h03 h04 h05 h10
SELECT string_agg(hash, ' ' ORDER BY hash) FROM invoices WHERE state = 2;
