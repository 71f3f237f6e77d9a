-- bench_clear: empties the tables of the benchmark.
TRUNCATE orders, order_items, stock, closures, outbox, outbox_refused
