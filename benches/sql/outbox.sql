-- bench_outbox: whether events wait to be published. -> boolean
SELECT EXISTS (SELECT FROM outbox)
