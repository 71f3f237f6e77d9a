-- bench_events: how many events were written, and of how many orders. -> events, orders bigint
SELECT count(*) AS events, count(DISTINCT order_id) AS orders FROM outbox
