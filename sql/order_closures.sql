-- order_closures: closures of an order, newest first, from the primary key. $1 text[] the order id in its spellings, $2 bigint most rows
-- -> effect text, path text, outcome text, due_at timestamptz, closed_at timestamptz
SELECT effect, path, outcome, due_at, closed_at FROM {own}.closures WHERE order_id = ANY ($1) ORDER BY closed_at DESC, id DESC LIMIT $2
