-- schedule_done: forgets notices that the broker has confirmed, or that others have closed. $1 bigint[] ids
DELETE FROM scheduled_notices WHERE id = ANY ($1)
