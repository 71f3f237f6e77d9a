-- outbox_retry_regroup: orders that waited for one event name wait for another now.
-- $1 text the former, $2 text[] order ids; for each of them $3 text[] the event name, $4 text[] the reason
-- -> event text, begins boolean (it was not refused before)
WITH moved AS (
    UPDATE outbox_refused SET waits_for = refused.event, reason = refused.reason
    FROM unnest($2::text[], $3::text[], $4::text[]) AS refused (order_id, event, reason)
    WHERE outbox_refused.waits_for = $1 AND outbox_refused.order_id = refused.order_id
    RETURNING outbox_refused.waits_for
)
INSERT INTO outbox_retries (event, events, next_try)
SELECT waits_for, count(*), now() + interval '1 second' FROM moved GROUP BY waits_for ORDER BY waits_for
ON CONFLICT (event) DO UPDATE SET events = outbox_retries.events + excluded.events
RETURNING event, (xmax = 0) AS begins
