-- outbox_done: forgets events that the broker has confirmed.
-- $1 bigint[] ids
DELETE FROM outbox WHERE id = ANY ($1)
