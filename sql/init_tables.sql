-- init_tables: a table and its neighbours, for the description that `overdue init` proposes.
-- $1 text the name of the table, as it is written in SQL, $2 text the schema of our own tables
-- -> found json, as `effect::proposal::Found`: the table, those that refer to it, and those that it and they refer to, by foreign keys
--    or by a column that is called as the primary key of a table of the same schema; NULL where there is no such table
WITH own AS (
    SELECT c.oid AS id, c.relnamespace AS schema FROM pg_class c WHERE c.oid = to_regclass($1)::oid
), children AS (
    SELECT DISTINCT k.conrelid AS id
    FROM pg_constraint k JOIN own ON k.confrelid = own.id
    WHERE k.contype = 'f' AND k.conparentid = 0::oid AND k.conrelid <> own.id
), sources AS (
    SELECT id FROM own UNION SELECT id FROM children
), declared AS (
    SELECT k.conrelid AS source, k.confrelid AS target, k.conkey AS columns, k.confkey AS referred, true AS is_declared
    FROM pg_constraint k
    WHERE k.contype = 'f' AND k.conparentid = 0::oid AND k.conrelid IN (SELECT id FROM sources)
), named AS (
    SELECT a.attrelid AS source, t.oid AS target, ARRAY[a.attnum] AS columns, ARRAY[p.attnum] AS referred, false AS is_declared
    FROM pg_attribute a
    JOIN pg_class t ON t.relnamespace = (SELECT schema FROM own) AND t.relkind IN ('r', 'p') AND NOT t.relispartition
    JOIN pg_index i ON i.indrelid = t.oid AND i.indisprimary AND i.indnkeyatts = 1::int2
    JOIN pg_attribute p ON p.attrelid = t.oid AND p.attnum = i.indkey[0] AND p.atttypid = a.atttypid
    WHERE a.attrelid IN (SELECT id FROM sources) AND t.oid NOT IN (SELECT id FROM sources)
      AND a.attnum > 0::int2 AND NOT a.attisdropped AND a.attname <> 'id'::name
      AND (a.attname = p.attname
           OR a.attname::text IN (concat(t.relname, '_id'), concat(rtrim(t.relname::text, 's'::text), '_id')))
      AND NOT EXISTS (SELECT FROM declared d WHERE d.source = a.attrelid AND a.attnum = ANY (d.columns))
), links AS (
    SELECT * FROM declared UNION ALL SELECT * FROM named
), tables AS (
    SELECT id FROM sources UNION SELECT target FROM links
)
SELECT json_build_object(
    'tables', (SELECT pg_catalog.json_agg(json_build_object(
            'id', c.oid::bigint,
            'schema', CASE WHEN NOT pg_table_is_visible(c.oid) THEN n.nspname END,
            'name', c.relname,
            'kind', c.relkind,
            'rows', CASE WHEN c.relkind = 'p' THEN (
                        SELECT coalesce(sum(greatest(part.reltuples::float8, pg_catalog.pg_relation_size(part.oid::regclass)::float8 / 200::float8)), 0::float8)
                        FROM pg_inherits h JOIN pg_class part ON part.oid = h.inhrelid WHERE h.inhparent = c.oid)
                    WHEN c.relkind = 'r' AND c.reltuples < 0::float4 THEN pg_catalog.pg_relation_size(c.oid::regclass)::float8 / 200::float8
                    ELSE c.reltuples::float8 END,
            'columns', (SELECT coalesce(pg_catalog.json_agg(json_build_object(
                            'name', a.attname, 'kind', format_type(a.atttypid, -1), 'is_not_null', a.attnotnull,
                            'labels', (SELECT coalesce(pg_catalog.json_agg(e.enumlabel ORDER BY e.enumsortorder), '[]'::json)
                                       FROM pg_enum e WHERE e.enumtypid = a.atttypid),
                            'default', (SELECT pg_get_expr(d.adbin, d.adrelid) FROM pg_attrdef d
                                        WHERE d.adrelid = a.attrelid AND d.adnum = a.attnum AND a.attgenerated = ''::"char"),
                            'check', (SELECT pg_catalog.string_agg(pg_get_constraintdef(k.oid), ' '::text) FROM pg_constraint k
                                      WHERE k.conrelid = a.attrelid AND k.contype = 'c' AND pg_catalog.cardinality(k.conkey) = 1 AND k.conkey[1] = a.attnum))
                            ORDER BY a.attnum), '[]'::json)
                        FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0::int2 AND NOT a.attisdropped),
            'unique', (SELECT coalesce(pg_catalog.json_agg(u.columns ORDER BY u.indisprimary DESC, u.indexrelid), '[]'::json)
                       FROM (SELECT i.indisprimary, i.indexrelid,
                                    (SELECT pg_catalog.json_agg(a.attname ORDER BY k.n)
                                     FROM pg_catalog.unnest(i.indkey::int2[]) WITH ORDINALITY AS k (attnum, n)
                                     JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.attnum
                                     WHERE k.n <= i.indnkeyatts::bigint) AS columns
                             FROM pg_index i
                             WHERE i.indrelid = c.oid AND i.indisunique AND i.indisvalid AND i.indimmediate
                               AND i.indpred IS NULL AND i.indexprs IS NULL) AS u))
            ORDER BY (c.oid = (SELECT id FROM own)) DESC, c.relname)
        FROM tables JOIN pg_class c ON c.oid = tables.id JOIN pg_namespace n ON n.oid = c.relnamespace),
    'links', (SELECT coalesce(pg_catalog.json_agg(json_build_object(
            'from', l.source::bigint, 'to', l.target::bigint, 'is_declared', l.is_declared,
            'columns', (SELECT pg_catalog.json_agg(a.attname ORDER BY k.n) FROM pg_catalog.unnest(l.columns) WITH ORDINALITY AS k (attnum, n)
                        JOIN pg_attribute a ON a.attrelid = l.source AND a.attnum = k.attnum),
            'referred', (SELECT pg_catalog.json_agg(a.attname ORDER BY k.n) FROM pg_catalog.unnest(l.referred) WITH ORDINALITY AS k (attnum, n)
                         JOIN pg_attribute a ON a.attrelid = l.target AND a.attnum = k.attnum))
            ORDER BY l.is_declared DESC, l.source, l.columns), '[]'::json)
        FROM links l),
    'triggers', (SELECT coalesce(pg_catalog.json_agg(t.tgname ORDER BY t.tgname), '[]'::json)
                 FROM pg_trigger t WHERE t.tgrelid = (SELECT id FROM own) AND NOT t.tgisinternal),
    'has_row_security', (SELECT c.relrowsecurity FROM pg_class c WHERE c.oid = (SELECT id FROM own)),
    'namesakes', (SELECT coalesce(pg_catalog.json_agg(format('%I.%I', n.nspname, c.relname) ORDER BY n.nspname, c.relname), '[]'::json)
                  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                  WHERE c.relkind IN ('r', 'p', 'v') AND n.nspname = ANY (current_schemas(false)) AND n.nspname <> $2::text::name
                    AND c.relname IN ('outbox', 'closures', 'actions', 'pauses'))) AS found
FROM own
