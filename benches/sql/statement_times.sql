-- bench_statement_times: calls and time of this database's statements since the counters were reset, by a pattern of their
-- text; of all
-- users. $1 text[] patterns -> place bigint (of the pattern, from 1), calls bigint, total_ms double precision, rows bigint
SELECT place, coalesce(sum(calls), 0)::bigint AS calls, coalesce(sum(total_exec_time), 0) AS total_ms, coalesce(sum(rows), 0)::bigint AS rows
FROM pg_catalog.unnest($1::text[]) WITH ORDINALITY AS asked (pattern, place)
LEFT JOIN public.pg_stat_statements AS it ON query LIKE pattern AND query NOT LIKE '%pg_stat_statements%'
     AND dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
GROUP BY place ORDER BY place
