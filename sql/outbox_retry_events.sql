-- outbox_retry_events: the oldest events that wait for an event name.
-- $1 text event name, $2 bigint events at the most
-- -> refused_id bigint, id bigint, event text, order_id text, created_at timestamptz
SELECT refused_id, id, event, order_id, created_at FROM outbox_refused
WHERE waits_for = $1 AND octet_length(event) BETWEEN 1 AND 255 AND octet_length(order_id) BETWEEN 1 AND 255
  AND created_at BETWEEN '0001-01-01 00:00Z' AND '9999-12-30 00:00Z'
ORDER BY id LIMIT $2
