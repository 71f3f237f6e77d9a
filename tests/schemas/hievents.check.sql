-- 1 2 3 4 5
SELECT string_agg(id::text, ' ' ORDER BY id) FROM orders WHERE status = 'ABANDONED';
-- 40
SELECT quantity_sold::text FROM ticket_prices;
