-- own_tables: tables of a schema with the names of ours. A table is ours if its columns are exactly these; columns of later versions may
-- be missing.
-- $1 text schema, $2 text[] tables, $3 text[] columns, $4 text[] types, $5 boolean[] whether the column was added later, one entry per
-- column -> name text, is_own boolean
WITH made AS (
    SELECT name, attribute, type::regtype::oid AS type, later
    FROM unnest($2::text[], $3::text[], $4::text[], $5::boolean[]) AS made (name, attribute, type, later)
)
SELECT relname::text AS name, relkind IN ('r', 'p') AND NOT EXISTS (
    SELECT FROM (SELECT attribute, type, later FROM made WHERE made.name = relname::text) AS expected
    FULL JOIN (
        SELECT attname::text AS attribute, atttypid AS type FROM pg_catalog.pg_attribute
        WHERE attrelid = pg_class.oid AND attnum > 0 AND NOT attisdropped
    ) AS found USING (attribute, type)
    WHERE expected.attribute IS NULL OR found.attribute IS NULL AND NOT expected.later
) AS is_own
FROM pg_catalog.pg_class
WHERE relnamespace = to_regnamespace($1::text) AND relname::text IN (SELECT name FROM made)
ORDER BY relname
