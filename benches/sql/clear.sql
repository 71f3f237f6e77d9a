-- bench_clear: the tables of the benchmark as new.
TRUNCATE orders, order_items, stock, closures, outbox, outbox_refused
