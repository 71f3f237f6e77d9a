-- effect_relation: a table of an effect's description, from the catalog.
-- $1 text its name in SQL
-- -> relation json, as `effect::facts::Relation`; no row if the table does not exist
SELECT json_build_object(
    'name', quote_ident(n.nspname::text) || '.' || quote_ident(c.relname::text),
    'kind', c.relkind,
    'columns', (SELECT coalesce(pg_catalog.json_agg(json_build_object(
                    'name', a.attname, 'kind', format_type(a.atttypid, -1), 'is_not_null', a.attnotnull) ORDER BY a.attnum), '[]')
                FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped),
    'unique', (SELECT coalesce(pg_catalog.json_agg(index.columns ORDER BY index.indisprimary DESC, index.indexrelid), '[]')
               FROM (SELECT i.indisprimary, i.indexrelid,
                            (SELECT pg_catalog.json_agg(a.attname ORDER BY k.n)
                             FROM pg_catalog.unnest(i.indkey::int2[]) WITH ORDINALITY AS k (attnum, n)
                             JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.attnum
                             WHERE k.n <= i.indnkeyatts) AS columns
                     FROM pg_index i
                     WHERE i.indrelid = c.oid AND i.indisunique AND i.indisvalid AND i.indimmediate
                       AND i.indpred IS NULL AND i.indexprs IS NULL) AS index),
    'partitions', (SELECT coalesce(pg_catalog.json_agg(format('%I.%I', pn.nspname, p.relname) ORDER BY pn.nspname, p.relname), '[]')
                   FROM pg_inherits h JOIN pg_class p ON p.oid = h.inhrelid JOIN pg_namespace pn ON pn.oid = p.relnamespace
                   WHERE h.inhparent = c.oid)) AS relation
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid = to_regclass($1)::oid
