-- schedule_claim: notices to publish, the oldest first. Only the session of schedule_lead.sql asks, so nothing is locked or
-- written.
-- $1 bigint after this id, $2 bigint notices at the most
-- -> id bigint; order_id text, timeout text, due_at timestamptz (NULL where there is a fault), rest_ms bigint (to due_at, below
--    zero where it is over), fault text (why it can never be published), xmin bigint, xmax bigint (of the snapshot that saw it)
WITH front AS MATERIALIZED (
    SELECT id, order_id, timeout, due_at,
           CASE WHEN order_id IS NULL THEN 'it has no order id'
                WHEN octet_length(order_id) > 200 THEN 'its order id has ' || octet_length(order_id)::text || ' bytes, more than 200'
                WHEN timeout IS NULL THEN 'it has no timeout'
                WHEN octet_length(timeout) > 200 THEN 'its timeout has ' || octet_length(timeout)::text || ' bytes, more than 200'
                WHEN due_at IS NULL OR due_at NOT BETWEEN '0001-01-01 00:00Z' AND now() + interval '11 years'
                    THEN 'its due_at is not a time of at most 10 years from now' END AS fault
    FROM scheduled_notices WHERE id > $1 ORDER BY id LIMIT $2
)
SELECT id,
       CASE WHEN fault IS NULL THEN order_id END AS order_id,
       CASE WHEN fault IS NULL THEN timeout END AS timeout,
       CASE WHEN fault IS NULL THEN due_at END AS due_at,
       CASE WHEN fault IS NULL THEN (extract(epoch FROM due_at - clock_timestamp()) * 1000.0)::bigint END AS rest_ms,
       fault,
       txid_snapshot_xmin(txid_current_snapshot()) AS xmin,
       txid_snapshot_xmax(txid_current_snapshot()) AS xmax
FROM front ORDER BY id
