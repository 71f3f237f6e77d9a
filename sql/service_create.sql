-- service_create: creates a chunk of orders with their items and reserved stock, in one statement.
-- $1 text[] order ids, $2 bigint ms to the deadline, $3 text run, $4 bigint seed: the items of an order follow from the seed and from
-- the order's id without the run
-- -> due_at timestamptz, the same for the whole chunk
WITH items AS MATERIALIZED (
    -- An order has one to four SKUs, 1 to 3 pieces of each. Half of all items have one of five hot SKUs, as in a shop on a day of
    -- sales.
    SELECT id AS order_id, 1 + (dice >> (32 + 4 * n) & 15::bigint) % 3::bigint AS qty,
           $3 || '-sku-' || (CASE WHEN dice >> (8 + n) & 1::bigint = 0 THEN ((dice >> 16 & 65535::bigint) + n) % 5::bigint
                                 ELSE 5 + ((dice >> 16 & 65535::bigint) + n) % 95::bigint END)::text AS sku
    FROM pg_catalog.unnest($1::text[]) AS id
         CROSS JOIN LATERAL hashtextextended(substr(id, length($3) + 2), $4::bigint) AS dice
         CROSS JOIN LATERAL generate_series(0, (dice & 3::bigint)::int) AS n
), wanted AS MATERIALIZED (
    SELECT sku, sum(qty)::bigint AS qty FROM items GROUP BY sku
), locked_stock AS MATERIALIZED (
    -- Locks in SKU order, as close and pay do.
    SELECT stock.sku, wanted.qty FROM stock JOIN wanted USING (sku) ORDER BY stock.sku FOR NO KEY UPDATE OF stock
), deadline AS MATERIALIZED (
    -- The clock is read after the locks: a wait for them must not shorten the time to pay.
    SELECT clock_timestamp() AS created_at FROM (SELECT count(*) FROM locked_stock) AS locked
), reserved AS (
    UPDATE stock SET available = stock.available - locked_stock.qty, reserved = stock.reserved + locked_stock.qty
    FROM locked_stock WHERE stock.sku = locked_stock.sku
), made AS (
    INSERT INTO orders (id, created_at, due_at)
    SELECT id, created_at, created_at + $2::bigint::float8 * interval '1 millisecond' FROM pg_catalog.unnest($1::text[]) AS id, deadline
), listed AS (
    INSERT INTO order_items (order_id, sku, qty) SELECT order_id, sku, qty FROM items
)
SELECT created_at + $2::bigint::float8 * interval '1 millisecond' AS due_at FROM deadline
