-- tables_version: fails if a newer overdue created the tables, and records their version. Run with our schema alone in the search path;
-- {version} stands for our version. All scripts together upgrade each older version.
DO $$
DECLARE
    there int;
BEGIN
    IF to_regprocedure('overdue_tables_version()') IS NOT NULL THEN
        EXECUTE 'SELECT overdue_tables_version()' INTO there;
        IF there > {version} THEN
            RAISE EXCEPTION 'the tables in schema % have version %, and this overdue makes version {version}: use one as new as that which made them',
                current_schema(), there USING ERRCODE = 'object_not_in_prerequisite_state';
        END IF;
    END IF;
END $$;
CREATE OR REPLACE FUNCTION overdue_tables_version() RETURNS int LANGUAGE sql IMMUTABLE RETURN {version};
COMMENT ON FUNCTION overdue_tables_version() IS 'The version of the tables and functions of overdue in this schema.';
