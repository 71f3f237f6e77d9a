-- foreign_tables: fails if the schema has a table with the name of one of ours that lacks one of its columns. Run with that schema alone
-- in the search path; {columns} stands for pairs of table and column.
DO $$
DECLARE
    theirs text;
BEGIN
    SELECT string_agg(DISTINCT made.name, ', ') INTO theirs FROM (VALUES {columns}) AS made (name, attribute)
    WHERE to_regclass(made.name) IS NOT NULL AND NOT EXISTS (
        SELECT FROM pg_catalog.pg_attribute
        WHERE attrelid = to_regclass(made.name) AND attname = made.attribute AND NOT attisdropped
    );
    IF theirs IS NOT NULL THEN
        RAISE EXCEPTION 'schema % has tables of somebody else with names of ours (%): put another schema first in database.search_path',
            current_schema(), theirs USING ERRCODE = 'duplicate_table';
    END IF;
END $$;
