-- outbox_retry_claim: takes for 30 s event names that were refused and are to be tried again: also those that the clock, set back
-- since, has put further off than any of our pauses.
-- $1 bigint names at the most -> event text, events bigint (all that were refused so far)
WITH due AS MATERIALIZED (
    SELECT event FROM outbox_retries WHERE next_try <= now() OR next_try > now() + interval '6 minutes'
    ORDER BY next_try LIMIT $1 FOR UPDATE SKIP LOCKED
)
UPDATE outbox_retries SET next_try = now() + interval '30 seconds'
FROM due WHERE outbox_retries.event = due.event
RETURNING outbox_retries.event, outbox_retries.events
