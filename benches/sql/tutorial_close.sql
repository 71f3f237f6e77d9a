-- bench_tutorial_close: closes one order. $1 text order id
UPDATE orders SET status = 'closed', closed_at = clock_timestamp() WHERE id = $1
