-- outbox_release: gives back events that were claimed and not published.
-- $1 bigint[] ids
UPDATE outbox SET claimed_until = '-infinity' WHERE id = ANY ($1)
