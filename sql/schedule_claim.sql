-- schedule_claim: a page of the table, and what is to be published of it, the oldest first. Only the session that has these timeouts
-- by outgoing_lead.sql asks, so nothing is locked or written.
-- $1 bigint after this id, $2 bigint rows of the page at the most, $3 text[] timeouts, $4 bigint[] ids that are passed over
-- -> last bigint (the id at the end of the page; NULL if the page is empty), found bigint (rows of the page),
--    id bigint (NULL if nothing of the page is to be published), order_id text, timeout text, due_at timestamptz,
--    rest_ms bigint (to due_at, below zero if it is over; these four are NULL if there is a fault),
--    traceparent text, tracestate text (NULL if they are too long),
--    fault text (why it can never be published)
WITH page AS MATERIALIZED (
    SELECT id, order_id, timeout, due_at, traceparent, tracestate,
           CASE WHEN order_id IS NULL THEN 'it has no order id'
                WHEN octet_length(order_id) > 200 THEN 'its order id has ' || octet_length(order_id)::text || ' bytes, more than 200'
                WHEN due_at IS NULL OR due_at NOT BETWEEN '0001-01-01 00:00Z' AND now() + interval '11 years'
                    THEN 'its due_at is not a time of at most 10 years from now' END AS fault
    FROM {own}.scheduled_notices WHERE id > $1 ORDER BY id LIMIT $2
), size AS (
    SELECT max(id) AS last, count(*) AS found FROM page
)
SELECT last, found, id,
       CASE WHEN fault IS NULL THEN order_id END AS order_id,
       CASE WHEN fault IS NULL THEN timeout END AS timeout,
       CASE WHEN fault IS NULL THEN due_at END AS due_at,
       CASE WHEN fault IS NULL THEN (extract(epoch FROM due_at - clock_timestamp()) * 1000.0)::bigint END AS rest_ms,
       CASE WHEN octet_length(traceparent) = 55 THEN traceparent END AS traceparent,
       CASE WHEN octet_length(tracestate) <= 512 THEN tracestate END AS tracestate,
       fault
FROM size LEFT JOIN page ON timeout = ANY ($3) AND id <> ALL ($4)
ORDER BY id
