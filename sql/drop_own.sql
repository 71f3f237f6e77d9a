-- drop_own: the functions of sql/schedule.sql, sql/pauses.sql and sql/tables_version.sql, before the tables. Run with our schema alone in
-- the search path. Without CASCADE: nothing is dropped if an object of a user depends on them.
DROP FUNCTION IF EXISTS schedule(bigint, text, interval), schedule(uuid, text, interval), schedule(text, text, interval),
    schedule(bigint, text), schedule(uuid, text), schedule(text, text),
    schedule_at(bigint, text, timestamptz), schedule_at(uuid, text, timestamptz), schedule_at(text, text, timestamptz), schedule_row(),
    refuse_paused(text, text, text, integer), overdue_tables_version();
