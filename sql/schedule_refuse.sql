-- schedule_refuse: moves notices that cannot be published out of the way of the others.
-- $1 bigint[] ids; for each of them $2 text[] the reason, $3 boolean[] whether it is that nobody knows the timeout
WITH moved AS (
    DELETE FROM scheduled_notices USING unnest($1::bigint[], $2::text[], $3::boolean[]) AS refused (id, reason, unknown_timeout)
    WHERE scheduled_notices.id = refused.id
    RETURNING scheduled_notices.*, refused.reason, refused.unknown_timeout
)
INSERT INTO scheduled_notices_refused (id, order_id, timeout, due_at, scheduled_at, reason, unknown_timeout)
SELECT id, order_id, timeout, due_at, scheduled_at, reason, unknown_timeout FROM moved
