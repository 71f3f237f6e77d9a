-- parked_dropped: records messages that a person drops from the parking lot, before they are.
-- $1 text[] queues, $2 text[] order ids, $3 text[] timeouts, $4 text[] routing keys, $5 text[] message ids, $6 text[] why they
-- were parked, $7 timestamptz[] when, $8 bytea[] bodies, $9 bigint[] bytes of them, $10 text why they are dropped
INSERT INTO {own}.dropped_messages
    (queue, order_id, timeout, routing_key, message_id, parked_because, parked_at, body, body_bytes, because)
SELECT *, $10 FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::timestamptz[], $8::bytea[], $9::bigint[])
