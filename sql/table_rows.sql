-- table_rows: rows of a table on the search path, from the latest statistics; -1 if it was never analysed.
-- $1 text table -> rows bigint
SELECT reltuples::bigint AS rows FROM pg_class WHERE relname = $1 AND pg_table_is_visible(oid) AND relkind IN ('r', 'p')
