-- outbox_refuse: moves events that were not published out of the way of the others.
-- $1 bigint[] ids; for each of them $2 text[] the event name it waits for (NULL: it can never be published), $3 text[] the reason
-- -> id bigint, refused_id bigint
WITH moved AS (
    DELETE FROM outbox USING unnest($1::bigint[], $2::text[], $3::text[]) AS refused (id, waits_for, reason)
    WHERE outbox.id = refused.id
    RETURNING outbox.id, outbox.event, outbox.order_id, outbox.created_at, outbox.traceparent, outbox.tracestate,
              refused.waits_for, refused.reason
)
INSERT INTO outbox_refused (id, event, order_id, created_at, traceparent, tracestate, waits_for, reason)
SELECT id, event, order_id, created_at, traceparent, tracestate, waits_for, reason FROM moved ORDER BY id
RETURNING id, refused_id
