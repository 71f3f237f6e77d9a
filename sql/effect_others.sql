-- effect_others: tables that this transaction changed, except the effect's tables and their partitions.
-- $1 text[] tables of the effect, by their names in SQL
-- -> relation text, inserted bigint, updated bigint, deleted bigint
SELECT quote_ident(schemaname::text) || '.' || quote_ident(relname::text) AS relation, n_tup_ins AS inserted, n_tup_upd AS updated, n_tup_del AS deleted
FROM pg_stat_xact_user_tables
WHERE n_tup_ins + n_tup_upd + n_tup_del > 0
  AND relid NOT IN (SELECT to_regclass(name)::oid FROM pg_catalog.unnest($1::text[]) AS own (name))
  AND relid NOT IN (SELECT part.relid::oid FROM pg_catalog.unnest($1::text[]) AS own (name), pg_partition_tree(to_regclass(name)) AS part)
ORDER BY 1
