-- actions_of_order: the latest actions of people on an order, from the index on `orders`.
-- $1 text[] the order id in its spellings, $2 bigint most rows
-- -> at timestamptz, by text, via text, action text, what text, count bigint, why text
WITH found AS MATERIALIZED (
    -- No limit here: with a limit, PostgreSQL would read the table backwards instead of the index.
    SELECT id, at, by, via, action, what, count, why FROM {own}.actions WHERE orders OPERATOR(pg_catalog.&&) $1::text[]
)
SELECT at, by, via, action, what, count, why FROM found ORDER BY id DESC LIMIT $2
