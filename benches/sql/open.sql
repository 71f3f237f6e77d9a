-- bench_open: whether an order is unpaid, found by index. -> boolean
SELECT EXISTS (SELECT FROM orders WHERE status = 'unpaid')
