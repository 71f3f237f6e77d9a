-- bench_purchases_overdue: what is closed: purchases that are overdue and open, of two articles each. {first}, {count}
INSERT INTO article SELECT n, 0 FROM generate_series(1, 10000) AS n;
INSERT INTO purchase (purchase_no, state, pay_until)
SELECT {first} + n, 10, now() - interval '11 hours' + n * interval '10 hours' / {count} FROM generate_series(0, {count} - 1) AS n;
INSERT INTO purchase_line
SELECT {first} + n, 1 + (n * 7919 + k * 4999) % 10000, 1 FROM generate_series(0::bigint, {count} - 1) AS n, generate_series(0, 1) AS k;
