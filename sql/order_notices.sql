-- order_notices: waiting and refused notices of an order. The tables have no index by order, so only the first rows of one table and the
-- last rows of the other are read.
-- $1 text[] the order id in its spellings, $2 bigint most rows read of each table
-- -> is_cut boolean (there are more rows), and for each notice, or NULL: timeout text, due_at timestamptz, since timestamptz,
--    reason text (NULL: it waits), is_notice boolean
WITH waiting AS MATERIALIZED (
    SELECT order_id, timeout, due_at, scheduled_at FROM {own}.scheduled_notices ORDER BY id LIMIT $2
), refused AS MATERIALIZED (
    SELECT order_id, timeout, due_at, refused_at, reason FROM {own}.scheduled_notices_refused ORDER BY refused_id DESC LIMIT $2
), found AS (
    SELECT timeout, due_at, scheduled_at AS since, NULL::text AS reason FROM waiting WHERE order_id = ANY ($1)
    UNION ALL SELECT timeout, due_at, refused_at, reason FROM refused WHERE order_id = ANY ($1)
)
SELECT is_cut, timeout, due_at, since, reason, found.is_notice IS NOT NULL AS is_notice
FROM (SELECT (SELECT count(*) FROM waiting) >= $2 OR (SELECT count(*) FROM refused) >= $2 AS is_cut) AS looked
LEFT JOIN (SELECT *, true AS is_notice FROM found LIMIT 20) AS found ON true
