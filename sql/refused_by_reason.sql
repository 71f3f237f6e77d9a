-- refused_by_reason: events and notices that cannot be published, by reason, the most frequent first; among the last rows of each table.
-- $1 bigint rows of each table that are looked at, $2 bigint reasons at the most
-- -> is_event boolean, name text (event or timeout), reason text, is_tried boolean (again and again), number bigint,
--    first timestamptz
WITH refused AS MATERIALIZED (
    (SELECT true AS is_event, coalesce(event, waits_for) AS name, reason, waits_for IS NOT NULL AS is_tried, refused_at
     FROM outbox_refused ORDER BY refused_id DESC LIMIT $1)
    UNION ALL
    (SELECT false, timeout, reason, false, refused_at FROM scheduled_notices_refused ORDER BY refused_id DESC LIMIT $1)
)
SELECT is_event, left(name, 200) AS name, left(reason, 500) AS reason, is_tried, count(*) AS number, min(refused_at) AS first
FROM refused GROUP BY 1, 2, 3, 4 ORDER BY number DESC, 3 LIMIT $2
