-- init_tables: a table and its neighbours, for the description that `overdue init` proposes.
-- $1 text the table's name in SQL, $2 text the schema of our own tables, $3 text[] words in the names of tables whose rows are
--    reserved for another row
-- -> found json, as `effect::proposal::Found`: the table, the tables that refer to it, the tables with reserved rows that refer to
--    these, and the tables that all of these refer to. NULL if the table does not exist.
--    A reference is a foreign key, or a column of the same schema and type with a matching name: `order_id` for the key of `orders`,
--    the columns of a unique index, `line_item_id` for `item_id`
WITH own AS (
    SELECT c.oid AS id, c.relnamespace AS schema FROM pg_class c WHERE c.oid = to_regclass($1)::oid
), declared AS MATERIALIZED (
    SELECT k.conrelid AS source, k.confrelid AS target, k.conkey AS columns, k.confkey AS referred, true AS is_declared
    FROM pg_constraint k
    WHERE k.contype = 'f' AND k.conparentid = 0::oid AND k.conrelid <> k.confrelid
), columns AS MATERIALIZED (
    SELECT a.attrelid AS id, a.attnum AS number, a.attname::text AS name, a.atttypid AS kind, c.relname::text AS table_name,
           (a.attrelid, a.attnum) IN (SELECT d.source, d.columns[1] FROM declared d WHERE pg_catalog.cardinality(d.columns) = 1) AS refers,
           string_to_array(pg_catalog.lower(pg_catalog.regexp_replace(c.relname::text, '([a-z])([A-Z])'::text, '\1_\2'::text, 'g'::text)), '_'::text)
               && $3::text[] AS is_reserved
    FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
    WHERE c.relnamespace = (SELECT schema FROM own) AND c.relkind IN ('r', 'p') AND NOT c.relispartition
      AND a.attnum > 0::int2 AND NOT a.attisdropped
), keys AS MATERIALIZED (
    SELECT DISTINCT k.id, k.number, k.kind, called.name
    FROM pg_index i JOIN columns k ON k.id = i.indrelid AND k.number = i.indkey[0]
    CROSS JOIN LATERAL pg_catalog.unnest(ARRAY[k.name, concat(k.table_name, '_id'), concat(rtrim(k.table_name, 's'::text), '_id')]) AS called (name)
    WHERE i.indisprimary AND i.indnkeyatts = 1::int2 AND called.name <> 'id'::text
), known AS MATERIALIZED (
    SELECT * FROM declared UNION ALL
    SELECT a.id, k.id, ARRAY[a.number], ARRAY[k.number], false
    FROM columns a JOIN keys k ON k.kind = a.kind AND k.name = a.name AND k.id <> a.id
    WHERE NOT a.refers
), children AS MATERIALIZED (
    SELECT l.* FROM known l JOIN own ON l.target = own.id
), reserved AS MATERIALIZED (
    SELECT l.* FROM (
        SELECT * FROM known UNION ALL
        SELECT h.id, a.id, ARRAY[h.number], ARRAY[a.number], false
        FROM children JOIN columns a ON a.id = children.source AND NOT a.refers AND a.name LIKE '%\_id'::text
        JOIN columns h ON h.is_reserved AND h.kind = a.kind AND NOT h.refers AND (h.name = a.name OR h.name LIKE concat('%\_', a.name))
    ) AS l
    WHERE l.target IN (SELECT source FROM children) AND l.source NOT IN (SELECT source FROM children UNION ALL SELECT id FROM own)
      AND l.source IN (SELECT id FROM columns WHERE is_reserved)
), sources AS MATERIALIZED (
    SELECT id FROM own UNION SELECT source FROM children UNION SELECT source FROM reserved
), to_unique AS (
    SELECT a.id, p.id, pg_catalog.array_agg(a.number ORDER BY k.n), pg_catalog.array_agg(p.number ORDER BY k.n), false
    FROM pg_index i CROSS JOIN LATERAL pg_catalog.unnest(i.indkey::int2[]) WITH ORDINALITY AS k (number, n)
    JOIN columns p ON p.id = i.indrelid AND p.number = k.number
    JOIN columns a ON a.name = p.name AND a.kind = p.kind AND a.name <> 'id'::text
    WHERE i.indisunique AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL AND i.indnkeyatts > 1::int2 AND k.n <= i.indnkeyatts::bigint
      AND p.id NOT IN (SELECT id FROM sources) AND a.id IN (SELECT id FROM sources)
    GROUP BY a.id, p.id, i.indexrelid, i.indnkeyatts
    HAVING count(*) = i.indnkeyatts::bigint
), links AS (
    SELECT * FROM children UNION SELECT * FROM reserved
    UNION SELECT * FROM known
    WHERE source IN (SELECT id FROM sources) AND (is_declared OR target NOT IN (SELECT id FROM sources))
    UNION SELECT * FROM to_unique
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
