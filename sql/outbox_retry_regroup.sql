-- outbox_retry_regroup: what is set aside of these orders waits for another event name from now on.
-- $1 text[] order ids; for each of them $2 text[] the event name, $3 text[] the reason
-- What somebody has locked is regrouped later.
UPDATE {own}.outbox_refused SET waits_for = refused.event, reason = refused.reason
FROM (
    SELECT refused_id, asked.event, asked.reason
    FROM {own}.outbox_refused JOIN unnest($1::text[], $2::text[], $3::text[]) AS asked (order_id, event, reason) USING (order_id)
    WHERE outbox_refused.waits_for IS NOT NULL
    FOR UPDATE OF outbox_refused SKIP LOCKED
) AS refused
WHERE outbox_refused.refused_id = refused.refused_id
