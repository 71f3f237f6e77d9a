-- schedule_done: forgets notices that the broker has confirmed. $1 bigint[] ids -> id bigint (what is still there: a trigger or row security keeps it)
WITH done AS (DELETE FROM {own}.scheduled_notices WHERE id = ANY ($1) RETURNING id)
SELECT id FROM {own}.scheduled_notices WHERE id = ANY ($1) AND id NOT IN (SELECT id FROM done)
