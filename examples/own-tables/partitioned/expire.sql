-- expire: $1 text[] keys, $2 text what made them due, $3 jsonb traces of their notices
SELECT order_id, outcome, due_at, decided_at FROM expire_purchases($1::text[], $2::text, $3::jsonb)
