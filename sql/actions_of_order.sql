-- actions_of_order: what people have done last to an order, found by the index of the orders.
-- $1 text[] the order id in its spellings, $2 bigint rows at the most
-- -> at timestamptz, by text, via text, action text, what text, count bigint, why text
WITH found AS MATERIALIZED (
    -- All of them: with the limit here PostgreSQL would read the table backwards instead.
    SELECT id, at, by, via, action, what, count, why FROM {own}.actions WHERE orders OPERATOR(pg_catalog.&&) $1::text[]
)
SELECT at, by, via, action, what, count, why FROM found ORDER BY id DESC LIMIT $2
