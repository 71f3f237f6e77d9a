-- outbox_claim: takes the oldest events for 30 s; a relay that dies gives them back by the passing of time.
-- $1 bigint events at the most -> id bigint, event text, order_id text, created_at timestamptz
WITH oldest AS MATERIALIZED (
    SELECT id FROM outbox WHERE claimed_until <= now() ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED
)
UPDATE outbox SET claimed_until = now() + interval '30 seconds'
FROM oldest WHERE outbox.id = oldest.id
RETURNING outbox.id, outbox.event, outbox.order_id, outbox.created_at
