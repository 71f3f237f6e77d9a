-- service_create: a chunk of orders with their items and reserved stock, in one statement.
-- $1 text[] order ids, $2 bigint ms to the deadline, and per item $3 text[] order id, $4 text[] SKU, $5 bigint[] quantity
-- -> due_at timestamptz, the same for the whole chunk
WITH items AS MATERIALIZED (
    SELECT * FROM unnest($3::text[], $4::text[], $5::bigint[]) AS item (order_id, sku, qty)
), wanted AS MATERIALIZED (
    SELECT sku, sum(qty)::bigint AS qty FROM items GROUP BY sku
), locked_stock AS MATERIALIZED (
    -- In SKU order, as close and pay take them.
    SELECT stock.sku, wanted.qty FROM stock JOIN wanted USING (sku) ORDER BY stock.sku FOR NO KEY UPDATE OF stock
), deadline AS MATERIALIZED (
    -- Read once the locks are held: waiting for them must not shorten the time to pay.
    SELECT clock_timestamp() AS created_at FROM (SELECT count(*) FROM locked_stock) AS locked
), reserved AS (
    UPDATE stock SET available = stock.available - locked_stock.qty, reserved = stock.reserved + locked_stock.qty
    FROM locked_stock WHERE stock.sku = locked_stock.sku
), made AS (
    INSERT INTO orders (id, created_at, due_at)
    SELECT id, created_at, created_at + $2::bigint * interval '1 millisecond' FROM unnest($1::text[]) AS id, deadline
), listed AS (
    INSERT INTO order_items (order_id, sku, qty) SELECT order_id, sku, qty FROM items
)
SELECT created_at + $2::bigint * interval '1 millisecond' AS due_at FROM deadline
