-- outbox_retry_done: forgets refused events that the broker has confirmed now.
-- $1 bigint[] refused_ids
DELETE FROM outbox_refused WHERE refused_id = ANY ($1)
