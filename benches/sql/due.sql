-- bench_due: orders become due one after the other.
-- $1 text[] order ids, $2 bigint ms from now to the first deadline, $3 bigint µs from each to the next
UPDATE orders SET due_at = now() + $2::bigint * interval '1 ms' + (place - 1) * $3::bigint * interval '1 microsecond'
FROM unnest($1::text[]) WITH ORDINALITY AS asked (id, place) WHERE orders.id = asked.id
