-- outbox_claim: takes the oldest events for 30 s; a relay that dies gives them back by the passing of time.
-- An event is taken only together with every earlier one of its order, or after they are gone: relays that claim at the same
-- moment publish the events of an order one after the other.
-- What can never be published is set aside at once: the update of a row that breaks a CHECK would fail, with all the others.
-- $1 bigint events at the most
-- -> id bigint, event text, order_id text, created_at timestamptz,
--    waits_for text (an event name that is refused: this one waits behind it, so that the events of an order stay in order),
--    fault text (set aside for this reason)
WITH front AS MATERIALIZED (
    -- As the statement found them. Whatever is earlier than one of them is among them, so no index by order is needed; four
    -- times as many as can be taken, so that an order whose first event somebody else has seldom hides all others.
    SELECT id, order_id, claimed_until FROM outbox
    WHERE id <= coalesce((SELECT id FROM outbox WHERE claimed_until <= now() ORDER BY id OFFSET 4 * $1::bigint LIMIT 1), 9223372036854775807)
), taken AS (
    SELECT order_id, min(id) AS id FROM front WHERE claimed_until > now() GROUP BY order_id
), oldest AS MATERIALIZED (
    SELECT id, order_id,
           CASE WHEN event IS NULL THEN 'it has no event name'
                WHEN octet_length(event) NOT BETWEEN 1 AND 255
                    THEN 'its event name has ' || octet_length(event) || ' bytes; a routing key has 1 to 255'
                WHEN order_id IS NULL THEN 'it has no order id'
                WHEN octet_length(order_id) NOT BETWEEN 1 AND 255
                    THEN 'its order id has ' || octet_length(order_id) || ' bytes; it may have 1 to 255'
                WHEN created_at IS NULL OR created_at NOT BETWEEN '0001-01-01 00:00Z' AND '9999-12-30 00:00Z'
                    THEN 'its created_at is not a time between the years 1 and 9999' END AS fault
    FROM outbox
    -- By index, whatever the planner thinks of the number of rows: the table may be long.
    WHERE id = ANY (ARRAY(SELECT front.id FROM front LEFT JOIN taken USING (order_id)
                          WHERE front.claimed_until <= now() AND (taken.id IS NULL OR taken.id > front.id)))
      AND claimed_until <= now()
    ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED
), blocked AS (
    -- Among them those that another relay has locked, claimed or published since the statement began.
    SELECT order_id, min(id) AS id FROM front WHERE id NOT IN (SELECT id FROM oldest) GROUP BY order_id
), bad AS (
    DELETE FROM outbox WHERE id = ANY (ARRAY(SELECT id FROM oldest WHERE fault IS NOT NULL))
    RETURNING id, event, order_id, created_at, (SELECT fault FROM oldest WHERE oldest.id = outbox.id) AS fault
), set_aside AS (
    INSERT INTO outbox_refused (id, event, order_id, created_at, reason) SELECT * FROM bad
), claimed AS (
    UPDATE outbox SET claimed_until = now() + interval '30 seconds'
    WHERE id = ANY (ARRAY(SELECT oldest.id FROM oldest LEFT JOIN blocked USING (order_id)
                          WHERE fault IS NULL AND (blocked.id IS NULL OR blocked.id > oldest.id)))
    RETURNING id, event, order_id, created_at
)
SELECT id, event, order_id, created_at,
       coalesce((SELECT earlier.waits_for FROM outbox_refused AS earlier
                 WHERE earlier.order_id = claimed.order_id AND earlier.waits_for IS NOT NULL ORDER BY earlier.id LIMIT 1),
                (SELECT retries.event FROM outbox_retries AS retries
                 WHERE retries.event = claimed.event AND retries.forbidden)) AS waits_for,
       NULL::text AS fault
FROM claimed
UNION ALL
SELECT id, NULL, NULL, NULL, NULL, fault FROM bad
