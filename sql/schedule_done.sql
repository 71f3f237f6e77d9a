-- schedule_done: forgets notices that the broker has confirmed. $1 bigint[] ids
DELETE FROM scheduled_notices WHERE id = ANY ($1)
