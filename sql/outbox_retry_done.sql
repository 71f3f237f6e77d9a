-- outbox_retry_done: forgets refused events that the broker has confirmed now. $1 bigint[] refused_ids -> refused_id bigint (what is still there: a trigger or row security keeps it)
WITH done AS (DELETE FROM {own}.outbox_refused WHERE refused_id = ANY ($1) RETURNING refused_id)
SELECT refused_id FROM {own}.outbox_refused WHERE refused_id = ANY ($1) AND refused_id NOT IN (SELECT refused_id FROM done)
