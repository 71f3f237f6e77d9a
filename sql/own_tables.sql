-- own_tables: which tables of overdue are in a schema.
-- $1 text schema, $2 text[] their names -> name text
SELECT relname::text AS name FROM pg_catalog.pg_class
WHERE relnamespace = to_regnamespace($1::text) AND relkind IN ('r', 'p') AND relname::text = ANY ($2::text[])
ORDER BY relname
