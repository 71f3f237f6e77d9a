-- outbox_retry_end: forgets an event name of which nothing waits any more; not where events have joined meanwhile.
-- $1 text event name, $2 bigint `events` as it was just before nothing was found -> lasted_ms bigint
DELETE FROM outbox_retries WHERE event = $1 AND events = $2
RETURNING (extract(epoch FROM now() - since) * 1000.0)::bigint AS lasted_ms
