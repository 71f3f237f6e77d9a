-- bench_clock: the database's clock. -> microseconds since 1970, bigint
SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
