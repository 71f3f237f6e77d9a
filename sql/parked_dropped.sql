-- parked_dropped: records messages before a person drops them from the parking lot.
-- $1 text[] queues, $2 text[] order ids, $3 text[] timeouts, $4 text[] routing keys, $5 text[] message ids, $6 text[] reasons to park,
-- $7 timestamptz[] times of parking, $8 bytea[] bodies, $9 bigint[] their bytes, $10 text reason to drop
INSERT INTO {own}.dropped_messages
    (queue, order_id, timeout, routing_key, message_id, parked_because, parked_at, body, body_bytes, because)
SELECT *, $10 FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::timestamptz[], $8::bytea[], $9::bigint[])
