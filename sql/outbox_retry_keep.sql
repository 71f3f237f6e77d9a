-- outbox_retry_keep: keeps for another 30 s an event name that outbox_retry_claim.sql has taken.
-- $1 text event name -> events bigint (all that were refused so far)
UPDATE outbox_retries SET next_try = now() + interval '30 seconds' WHERE event = $1 RETURNING events
