-- outbox_retry_regroup: what is set aside of these orders waits for another event name from now on.
-- $1 text[] order ids; for each of them $2 text[] the event name, $3 text[] the reason
UPDATE outbox_refused SET waits_for = refused.event, reason = refused.reason
FROM unnest($1::text[], $2::text[], $3::text[]) AS refused (order_id, event, reason)
WHERE outbox_refused.order_id = refused.order_id AND outbox_refused.waits_for IS NOT NULL
