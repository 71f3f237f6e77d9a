-- order_closures: what was done with an order, newest first, by the primary key. $1 text[] the order id in its spellings, $2 bigint
-- rows at the most -> effect text, path text, outcome text, due_at timestamptz, closed_at timestamptz
SELECT effect, path, outcome, due_at, closed_at FROM {own}.closures WHERE order_id = ANY ($1) ORDER BY closed_at DESC, id DESC LIMIT $2
