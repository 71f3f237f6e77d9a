-- outbox_claim: the oldest events. Only the session that has the outbox by outgoing_lead.sql asks; nothing is locked or written.
-- $1 bigint events at the most, $2 bigint[] ids that are passed over, $3 bigint the id after which to read,
-- $4 bigint the id from which on, up to $3, events may be left: the later ones of their orders wait for them
-- -> id bigint; event text, order_id text, created_at timestamptz (NULL if there is a fault),
--    waits_for text (the event name for which an earlier event of the order waits: this one stays behind it),
--    traceparent text, tracestate text (NULL if they are too long),
--    fault text (why it can never be published)
WITH earlier AS MATERIALIZED (
    SELECT DISTINCT order_id FROM {own}.outbox WHERE id >= $4 AND id <= $3 AND id <> ALL ($2) AND order_id IS NOT NULL
), front AS MATERIALIZED (
    SELECT id, event, order_id, created_at, traceparent, tracestate,
           CASE WHEN event IS NULL THEN 'it has no event name'
                WHEN octet_length(event) NOT BETWEEN 1 AND 255
                    THEN 'its event name has ' || octet_length(event)::text || ' bytes; a routing key has 1 to 255'
                WHEN order_id IS NULL THEN 'it has no order id'
                WHEN octet_length(order_id) NOT BETWEEN 1 AND 255
                    THEN 'its order id has ' || octet_length(order_id)::text || ' bytes; it may have 1 to 255'
                WHEN created_at IS NULL OR created_at NOT BETWEEN '0001-01-01 00:00Z' AND '9999-12-30 00:00Z'
                    THEN 'its created_at is not a time between the years 1 and 9999' END AS fault
    FROM {own}.outbox
    WHERE id > $3 AND id <> ALL ($2) AND (order_id IS NULL OR order_id NOT IN (SELECT order_id FROM earlier))
    ORDER BY id LIMIT $1
)
SELECT front.id,
       CASE WHEN fault IS NULL THEN event END AS event,
       CASE WHEN fault IS NULL THEN order_id END AS order_id,
       CASE WHEN fault IS NULL THEN created_at END AS created_at,
       CASE WHEN fault IS NULL AND EXISTS (SELECT FROM {own}.outbox_refused WHERE waits_for IS NOT NULL)
            THEN (SELECT earlier.waits_for FROM {own}.outbox_refused AS earlier
                  WHERE earlier.order_id = front.order_id AND earlier.id < front.id AND earlier.waits_for IS NOT NULL
                  ORDER BY earlier.id LIMIT 1) END AS waits_for,
       CASE WHEN octet_length(traceparent) = 55 THEN traceparent END AS traceparent,
       CASE WHEN octet_length(tracestate) <= 512 THEN tracestate END AS tracestate,
       fault
FROM front
ORDER BY front.id
