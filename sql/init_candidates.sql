-- init_candidates: tables that this user may read, with their columns, the largest first.
-- $1 text the schema of our own tables
-- -> name text in SQL, columns text[], kinds text[]
SELECT c.oid::regclass::text AS name, pg_catalog.array_agg(a.attname::text ORDER BY a.attnum) AS columns,
       pg_catalog.array_agg(format_type(a.atttypid, -1) ORDER BY a.attnum) AS kinds
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0::int2 AND NOT a.attisdropped
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition
  AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND pg_catalog.left(n.nspname::text, 3) <> 'pg_'::text AND n.nspname <> $1::text::name
  AND has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT')
GROUP BY c.oid, c.reltuples
ORDER BY c.reltuples DESC, name LIMIT 5000
