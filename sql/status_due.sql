-- status_due: open orders by the minute in which they come due, -1 for overdue ones; around the overdue_sql of an effect.
-- $1 to $4 as for overdue_sql -> minute int, orders bigint, distance_s bigint, last_minute bigint
SELECT CASE WHEN due_at <= now() THEN -1 ELSE floor(extract(epoch FROM due_at - now()) / 60.0)::int END AS minute,
       count(*) AS orders, abs(extract(epoch FROM now() - min(due_at)))::bigint AS distance_s,
       count(*) FILTER (WHERE due_at > now() - interval '1 minute') AS last_minute
FROM (
{sql}
) AS due (order_id, due_at) WHERE isfinite(due_at) GROUP BY 1
