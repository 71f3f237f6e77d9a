-- outbox_refuse: moves events that were not published out of the way of the others.
-- $1 bigint[] ids; for each of them $2 text[] the event name it waits for (NULL: it can never be published), $3 text[] the reason,
-- $4 boolean[] whether publishing that name closes the channel, or gets no confirm: then others of
-- that name are not published meanwhile
-- -> event text, begins boolean (it was not refused before)
WITH moved AS (
    DELETE FROM outbox USING unnest($1::bigint[], $2::text[], $3::text[], $4::boolean[])
        AS refused (id, waits_for, reason, forbidden)
    WHERE outbox.id = refused.id
    RETURNING outbox.id, outbox.event, outbox.order_id, outbox.created_at, refused.waits_for, refused.reason, refused.forbidden
), kept AS (
    INSERT INTO outbox_refused (id, event, order_id, created_at, waits_for, reason)
    SELECT id, event, order_id, created_at, waits_for, reason FROM moved
)
INSERT INTO outbox_retries (event, events, forbidden, next_try)
SELECT waits_for, count(*), bool_or(forbidden), now() + interval '1 second'
FROM moved WHERE waits_for IS NOT NULL GROUP BY waits_for ORDER BY waits_for
ON CONFLICT (event) DO UPDATE
SET events = outbox_retries.events + excluded.events, forbidden = outbox_retries.forbidden OR excluded.forbidden
RETURNING event, (xmax = 0) AS begins
