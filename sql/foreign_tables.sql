-- foreign_tables: refuses a schema in which something has the name of one of our tables and lacks a column of it. Run with that schema
-- alone in the search path; {columns} stands for table and column of each that we make.
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
