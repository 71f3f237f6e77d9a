-- bench_load: orders with their items; the stock is reserved already.
-- $1 text[] order ids, $2 bigint[] deadlines in µs since 1970, and per item $3 text[] order id, $4 text[] SKU, $5 bigint[] quantity
WITH made AS (
    INSERT INTO orders (id, due_at)
    SELECT id, timestamptz 'epoch' + due_us * interval '1 microsecond' FROM unnest($1::text[], $2::bigint[]) AS made (id, due_us)
)
INSERT INTO order_items (order_id, sku, qty) SELECT * FROM unnest($3::text[], $4::text[], $5::bigint[])
