-- service_final: which of these orders are no longer unpaid; `path` where overdue has closed them.
-- $1 text[] order ids -> order_id text, path text
SELECT orders.id AS order_id, closures.path
FROM orders LEFT JOIN closures ON closures.order_id = orders.id
WHERE orders.id = ANY ($1) AND orders.status <> 'unpaid'
