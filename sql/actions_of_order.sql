-- actions_of_order: what people have done last to an order, found by the index of the orders.
-- $1 text order id, $2 bigint rows at the most
-- -> at timestamptz, by text, via text, action text, what text, count bigint, why text
SELECT at, by, via, action, what, count, why FROM actions
WHERE orders OPERATOR(pg_catalog.@>) ARRAY[$1::text] ORDER BY id DESC LIMIT $2
