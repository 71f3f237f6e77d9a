-- table_rows: how many rows a table along the search path has by the latest statistics; -1 where it was never analysed.
-- $1 text table -> rows bigint
SELECT reltuples::bigint AS rows FROM pg_class WHERE relname = $1 AND pg_table_is_visible(oid) AND relkind IN ('r', 'p')
