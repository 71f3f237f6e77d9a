-- schedule_triggers: triggers on the reference tables, for each state with a deadline: one for new rows, one for changed rows.
-- The statements that call this function follow: pg_temp.schedule_state(timeout, status, column of the deadline).
CREATE OR REPLACE FUNCTION pg_temp.schedule_state(timeout text, state text, deadline text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    run text := format('EXECUTE FUNCTION {own}.schedule_row(%L, %L, %L)', timeout, 'id', deadline);
BEGIN
    -- Checked first, because creating a trigger locks the table, even if the trigger exists.
    IF (SELECT count(*) FROM pg_trigger
        WHERE tgrelid = 'orders'::regclass::oid AND tgname IN ('schedule_new_' || state, 'schedule_changed_' || state)
          AND encode(tgargs, 'escape') = timeout || '\000id\000' || deadline || '\000') = 2 THEN
        RETURN;
    END IF;
    EXECUTE format('CREATE OR REPLACE TRIGGER %I AFTER INSERT ON orders FOR EACH ROW WHEN (NEW.status = %L) ',
                   'schedule_new_' || state, state) || run;
    EXECUTE format('CREATE OR REPLACE TRIGGER %I AFTER UPDATE OF status, %I ON orders FOR EACH ROW
                    WHEN (NEW.status = %L AND (OLD.status <> NEW.status OR OLD.%I IS DISTINCT FROM NEW.%I)) ',
                   'schedule_changed_' || state, deadline, state, deadline, deadline) || run;
END
$$;
