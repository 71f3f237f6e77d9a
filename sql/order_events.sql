-- order_events: waiting and refused events of an order. The outbox has no index by order, so only its first rows are read, and the last
-- of the refused rows that can never be published.
-- $1 text[] the order id in its spellings, $2 bigint most rows read of each
-- -> is_cut boolean (there are more rows), and for each event, or NULL: event text, since timestamptz, reason text (NULL: it waits),
--    is_event boolean
WITH waiting AS MATERIALIZED (
    SELECT order_id, event, created_at FROM {own}.outbox ORDER BY id LIMIT $2
), given_up AS MATERIALIZED (
    SELECT order_id, event, refused_at, reason FROM {own}.outbox_refused WHERE waits_for IS NULL ORDER BY refused_id DESC LIMIT $2
), found AS (
    SELECT event, created_at AS since, NULL::text AS reason FROM waiting WHERE order_id = ANY ($1)
    UNION ALL
    SELECT event, refused_at, reason FROM {own}.outbox_refused WHERE waits_for IS NOT NULL AND order_id = ANY ($1)
    UNION ALL
    SELECT event, refused_at, reason FROM given_up WHERE order_id = ANY ($1)
)
SELECT is_cut, event, since, reason, found.is_event IS NOT NULL AS is_event
FROM (SELECT (SELECT count(*) FROM waiting) >= $2 OR (SELECT count(*) FROM given_up) >= $2 AS is_cut) AS looked
LEFT JOIN (SELECT *, true AS is_event FROM found LIMIT 20) AS found ON true
