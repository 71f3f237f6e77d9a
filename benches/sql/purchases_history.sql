-- bench_purchases_history: closures of the last fifty days. {count}
INSERT INTO closures (order_id, effect, path, due_at, closed_at, outcome)
SELECT n::text, 'expire', 'message', at, at, 'expired'
FROM generate_series(1, {count}) AS n, LATERAL (SELECT now() - interval '50 days' + n * interval '50 days' / {count} AS at) AS it;
