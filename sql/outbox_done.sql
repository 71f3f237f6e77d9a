-- outbox_done: forgets events that the broker has confirmed. $1 bigint[] ids -> id bigint (what is still there: a trigger or row security keeps it)
WITH done AS (DELETE FROM {own}.outbox WHERE id = ANY ($1) RETURNING id)
SELECT id FROM {own}.outbox WHERE id = ANY ($1) AND id NOT IN (SELECT id FROM done)
