-- doctor_outbox: how many events wait, and for how long the oldest has.
-- -> events bigint, oldest_ms bigint
SELECT count(*) AS events,
       coalesce(extract(epoch FROM clock_timestamp() - min(created_at)) * 1000, 0)::bigint AS oldest_ms
FROM outbox
