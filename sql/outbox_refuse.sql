-- outbox_refuse: moves events that were not published out of the way of the others.
-- $1 bigint[] ids; for each of them $2 text[] the event name it waits for (NULL: it can never be published), $3 text[] the reason
-- -> id bigint, refused_id bigint (NULL: somebody else has deleted it)
WITH moved AS (
    DELETE FROM {own}.outbox USING unnest($1::bigint[], $2::text[], $3::text[]) AS refused (id, waits_for, reason)
    WHERE outbox.id = refused.id
    RETURNING outbox.id, outbox.event, outbox.order_id, outbox.created_at, outbox.traceparent, outbox.tracestate,
              refused.waits_for, refused.reason
), written AS (
    INSERT INTO {own}.outbox_refused (id, event, order_id, created_at, traceparent, tracestate, waits_for, reason)
    SELECT id, event, order_id, created_at, traceparent, tracestate, waits_for, reason FROM moved ORDER BY id
    RETURNING id, refused_id
)
SELECT id, refused_id FROM written
UNION ALL
SELECT id, NULL FROM pg_catalog.unnest($1::bigint[]) AS refused (id) WHERE NOT EXISTS (SELECT FROM {own}.outbox WHERE outbox.id = refused.id)
