-- outbox_retry_keep: keeps for another 30 s an event name that outbox_retry_claim.sql has taken.
-- $1 text event name
UPDATE outbox_retries SET next_try = now() + interval '30 seconds' WHERE event = $1
