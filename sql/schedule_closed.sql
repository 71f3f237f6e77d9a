-- schedule_closed: forgets notices whose orders are final. After a failover the id of one that was read can be that of another order.
-- $1 bigint[] ids; $2 bigint[] ids and $3 text[] order ids, as they were read
DELETE FROM {own}.scheduled_notices
WHERE id = ANY ($1) AND (id, order_id) IN (SELECT read.id, read.order_id FROM unnest($2::bigint[], $3::text[]) AS read (id, order_id))
