-- due_soon: open orders by the second in which they come due, -1 for overdue orders; around the overdue_sql of an effect, with a
-- negative grace. $1 to $4 as for overdue_sql -> second bigint, orders bigint
SELECT greatest(floor(extract(epoch FROM due_at - now()))::bigint, -1::bigint) AS second, count(*) AS orders
FROM (
{sql}
) AS due (order_id, due_at) WHERE isfinite(due_at) GROUP BY 1 ORDER BY 1
