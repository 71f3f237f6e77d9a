-- service_states: the state of these orders, in one snapshot.
-- $1 text[] order ids, $2 boolean whether the server keeps commit times (track_commit_timestamp)
-- -> order_id text, status text, due_at, paid_at, closed_at timestamptz, overdue boolean,
--    closures bigint, path text, final_at timestamptz (when the closure was committed, or else written)
SELECT orders.id AS order_id, orders.status, orders.due_at, orders.paid_at, orders.closed_at,
       orders.due_at <= now() AS overdue, closure.closures, closure.path, closure.final_at
FROM orders CROSS JOIN LATERAL (
    SELECT count(*) AS closures, min(path) AS path,
           min(CASE WHEN $2 THEN coalesce(pg_xact_commit_timestamp(closures.xmin), closures.closed_at)
                    ELSE closures.closed_at END) AS final_at
    FROM closures WHERE closures.order_id = orders.id
) AS closure
WHERE orders.id = ANY ($1)
