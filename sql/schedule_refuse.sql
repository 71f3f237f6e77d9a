-- schedule_refuse: moves notices that cannot be published out of the way of the others. $1 bigint[] ids, $2 text[] the reason for each
WITH moved AS (
    DELETE FROM {own}.scheduled_notices USING unnest($1::bigint[], $2::text[]) AS refused (id, reason)
    WHERE scheduled_notices.id = refused.id
    RETURNING scheduled_notices.*, refused.reason
)
INSERT INTO {own}.scheduled_notices_refused (id, order_id, timeout, due_at, scheduled_at, traceparent, tracestate, reason)
SELECT id, order_id, timeout, due_at, scheduled_at, traceparent, tracestate, reason FROM moved
