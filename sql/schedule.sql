-- schedule: notices that an order service writes in the transaction of its order, and the functions that write them. Run with our
-- schema alone in the search path; can be repeated.
CREATE TABLE IF NOT EXISTS scheduled_notices (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    order_id     text NOT NULL,
    timeout      text NOT NULL,
    due_at       timestamptz NOT NULL,
    scheduled_at timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000);
COMMENT ON TABLE scheduled_notices IS 'Due notices to publish; a row goes when the broker has confirmed it. Written by schedule() and schedule_at().';

CREATE TABLE IF NOT EXISTS scheduled_notices_refused (
    refused_id   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id           bigint NOT NULL,
    order_id     text,
    timeout      text,
    due_at       timestamptz,
    scheduled_at timestamptz,
    refused_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    reason       text NOT NULL
);
-- Traces are settings of the transaction, because a trigger has no parameter for them. Checked first, as in worker_tables.sql.
DO $$
BEGIN
    IF (SELECT count(*) FROM pg_attribute
        WHERE attrelid IN ('scheduled_notices'::regclass::oid, 'scheduled_notices_refused'::regclass::oid)
        AND attname IN ('traceparent', 'tracestate')) < 4 THEN
ALTER TABLE scheduled_notices
    ADD COLUMN IF NOT EXISTS traceparent text DEFAULT nullif(current_setting('overdue.traceparent', true), ''),
    ADD COLUMN IF NOT EXISTS tracestate text DEFAULT nullif(current_setting('overdue.tracestate', true), '');
ALTER TABLE scheduled_notices_refused
    ADD COLUMN IF NOT EXISTS traceparent text,
    ADD COLUMN IF NOT EXISTS tracestate text;
    END IF;
END
$$;
COMMENT ON TABLE scheduled_notices_refused IS 'Notices that cannot be published, and why.';

CREATE TABLE IF NOT EXISTS schedule_timeouts (
    name       text NOT NULL,
    topology   text NOT NULL DEFAULT '',
    after      interval NOT NULL,
    removed_at timestamptz,
    PRIMARY KEY (name, topology)
);
COMMENT ON TABLE schedule_timeouts IS 'The timeouts that schedule() takes, and after how long they are due if the caller does not say. Workers add those of their topology files; overdue database init sets removed_at of those that its file has no more, and no worker takes it back.';

-- PUBLIC has no EXECUTE on these functions: an administrator grants it. The REVOKE runs for new functions only, and keeps grants.
DO $$
BEGIN
    IF to_regprocedure('schedule_at(text, text, timestamptz)') IS NULL THEN
        CREATE FUNCTION schedule_at(order_id text, timeout text, due_at timestamptz) RETURNS timestamptz
            LANGUAGE plpgsql AS 'BEGIN END';
        CREATE FUNCTION schedule(order_id text, timeout text, after interval) RETURNS timestamptz
            LANGUAGE plpgsql AS 'BEGIN END';
        CREATE FUNCTION schedule(order_id text, timeout text) RETURNS timestamptz
            LANGUAGE plpgsql AS 'BEGIN END';
        CREATE FUNCTION schedule_row() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN END';
        CREATE FUNCTION schedule_at(order_id bigint, timeout text, due_at timestamptz) RETURNS timestamptz
            LANGUAGE sql RETURN due_at;
        CREATE FUNCTION schedule_at(order_id uuid, timeout text, due_at timestamptz) RETURNS timestamptz
            LANGUAGE sql RETURN due_at;
        CREATE FUNCTION schedule(order_id bigint, timeout text, after interval) RETURNS timestamptz
            LANGUAGE sql RETURN now();
        CREATE FUNCTION schedule(order_id uuid, timeout text, after interval) RETURNS timestamptz
            LANGUAGE sql RETURN now();
        CREATE FUNCTION schedule(order_id bigint, timeout text) RETURNS timestamptz
            LANGUAGE sql RETURN now();
        CREATE FUNCTION schedule(order_id uuid, timeout text) RETURNS timestamptz
            LANGUAGE sql RETURN now();
        REVOKE EXECUTE ON FUNCTION schedule_at(text, text, timestamptz), schedule(text, text, interval), schedule_row(),
            schedule_at(bigint, text, timestamptz), schedule_at(uuid, text, timestamptz), schedule(bigint, text, interval),
            schedule(uuid, text, interval), schedule(text, text), schedule(bigint, text), schedule(uuid, text) FROM PUBLIC;
    END IF;
END
$$;

CREATE OR REPLACE FUNCTION schedule_at(order_id text, timeout text, due_at timestamptz) RETURNS timestamptz
LANGUAGE plpgsql SECURITY DEFINER AS $$
#variable_conflict use_variable
DECLARE
    known text;
BEGIN
    IF order_id IS NULL OR order_id = '' THEN
        RAISE EXCEPTION 'schedule: the order id is %', CASE WHEN order_id IS NULL THEN 'NULL' ELSE 'empty' END
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Write the id of the order, as the database has it.';
    ELSIF octet_length(order_id) > 200 THEN
        RAISE EXCEPTION 'schedule: the order id has % bytes, more than 200', octet_length(order_id)
            USING ERRCODE = 'invalid_parameter_value', HINT = 'A message carries an id of 1 to 200 bytes: write a shorter one.';
    -- White space as in Unicode, whatever the locale of the database is.
    ELSIF order_id ~ '[\u0001-\u0020\u007f-\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]' THEN
        RAISE EXCEPTION 'schedule: the order id has white space or control characters'
            USING ERRCODE = 'invalid_parameter_value', HINT = 'A message carries an id without them: write another one.';
    ELSIF due_at IS NULL OR due_at > now() + interval '10 years' OR due_at < timestamptz '0001-01-01 00:00Z' THEN
        RAISE EXCEPTION 'schedule: due_at is %: it has to be a time of at most 10 years from now', coalesce(due_at::text, 'NULL')
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Write the deadline of the order, for example now() + interval ''30 minutes''.';
    ELSIF NOT EXISTS (SELECT FROM schedule_timeouts WHERE name = timeout AND removed_at IS NULL) THEN
        SELECT string_agg(DISTINCT format('`%s`', name), ', ' ORDER BY format('`%s`', name)) INTO known
        FROM schedule_timeouts WHERE removed_at IS NULL;
        IF EXISTS (SELECT FROM schedule_timeouts WHERE name = timeout) THEN
            RAISE EXCEPTION 'schedule: the timeout `%` was removed; there is %', timeout, coalesce(known, 'no other')
                USING ERRCODE = 'invalid_parameter_value',
                      HINT = 'It is known again when `overdue database init` has run where the topology file has it: a worker that starts does not bring it back.';
        ELSIF known IS NULL THEN
            RAISE EXCEPTION 'schedule: no timeout is known yet'
                USING ERRCODE = 'invalid_parameter_value',
                      HINT = 'Run `overdue database init` where the topology file is, or start a worker: both write its timeouts into schedule_timeouts.';
        END IF;
        RAISE EXCEPTION 'schedule: there is no timeout %; there is %', CASE WHEN timeout IS NULL THEN 'NULL' ELSE format('`%s`', left(timeout, 60)) END, known
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = 'Write one of these. A new one is known when `overdue database init` has run where the topology file is, or a worker has started with it.';
    END IF;
    INSERT INTO scheduled_notices (order_id, timeout, due_at) VALUES (order_id, timeout, due_at);
    RETURN due_at;
END
$$;
COMMENT ON FUNCTION schedule_at(text, text, timestamptz) IS 'Publishes a due notice for the order when this transaction has committed: it comes at due_at.';

CREATE OR REPLACE FUNCTION schedule(order_id text, timeout text, after interval) RETURNS timestamptz
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    IF after IS NULL OR after < interval '0' OR after > interval '10 years' THEN
        RAISE EXCEPTION 'schedule: the interval is %: it has to be from 0 to 10 years', coalesce(after::text, 'NULL')
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Write it like interval ''30 minutes''.';
    END IF;
    RETURN schedule_at(order_id, timeout, least(now() + after, now() + interval '10 years'));
END
$$;
COMMENT ON FUNCTION schedule(text, text, interval) IS 'Publishes a due notice for the order when this transaction has committed: it comes so long after now(), which is returned.';

CREATE OR REPLACE FUNCTION schedule(order_id text, timeout text) RETURNS timestamptz
LANGUAGE plpgsql SECURITY DEFINER AS $$
#variable_conflict use_variable
DECLARE
    delays interval[];
BEGIN
    SELECT pg_catalog.array_agg(DISTINCT after) INTO delays FROM schedule_timeouts WHERE name = timeout AND removed_at IS NULL;
    IF pg_catalog.cardinality(delays) > 1 THEN
        RAISE EXCEPTION 'schedule: topologies have the timeout `%` with different delays: %', timeout, array_to_string(delays, ', ')
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Write the interval: schedule(order_id, timeout, interval).';
    END IF;
    -- schedule_at() refuses an unknown timeout.
    RETURN schedule_at(order_id, timeout, now() + coalesce(delays[1], interval '0'));
END
$$;
COMMENT ON FUNCTION schedule(text, text) IS 'Like schedule(text, text, interval), with the delay that the topology file gives the timeout.';

-- For a trigger on any table. Arguments: timeout, column of the key, column of the deadline, and the time zone of a deadline
-- without one; if this argument is missing, the deadline is read in the time zone of the session. The function runs with the rights
-- of the user who changes the row, because a cast of the key to text may run that user's code.
CREATE OR REPLACE FUNCTION schedule_row() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    key text;
    deadline timestamptz;
BEGIN
    IF TG_NARGS > 3 THEN
        EXECUTE format('SELECT ($1).%1$I::text, CASE WHEN pg_typeof(($1).%2$I) IN (''timestamp''::regtype, ''date''::regtype)
                        THEN ($1).%2$I::timestamp AT TIME ZONE $2 ELSE ($1).%2$I::timestamptz END', TG_ARGV[1], TG_ARGV[2])
            INTO key, deadline USING NEW, TG_ARGV[3];
    ELSE
        EXECUTE format('SELECT ($1).%I::text, ($1).%I::timestamptz', TG_ARGV[1], TG_ARGV[2]) INTO key, deadline USING NEW;
    END IF;
    -- NULL and infinity are no deadlines. The worker delays a notice again if it arrives before the deadline.
    IF isfinite(deadline) THEN
        PERFORM schedule_at(key, TG_ARGV[0], least(deadline, now() + interval '10 years'));
    END IF;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION schedule_row() IS 'Trigger: schedules a notice for the row. Arguments: timeout, column of the key, column of the deadline, time zone of a deadline without one.';

CREATE OR REPLACE FUNCTION schedule_at(order_id bigint, timeout text, due_at timestamptz) RETURNS timestamptz
    LANGUAGE sql RETURN schedule_at(order_id::text, timeout, due_at);
CREATE OR REPLACE FUNCTION schedule_at(order_id uuid, timeout text, due_at timestamptz) RETURNS timestamptz
    LANGUAGE sql RETURN schedule_at(order_id::text, timeout, due_at);
CREATE OR REPLACE FUNCTION schedule(order_id bigint, timeout text, after interval) RETURNS timestamptz
    LANGUAGE sql RETURN schedule(order_id::text, timeout, after);
CREATE OR REPLACE FUNCTION schedule(order_id uuid, timeout text, after interval) RETURNS timestamptz
    LANGUAGE sql RETURN schedule(order_id::text, timeout, after);
CREATE OR REPLACE FUNCTION schedule(order_id bigint, timeout text) RETURNS timestamptz
    LANGUAGE sql RETURN schedule(order_id::text, timeout);
CREATE OR REPLACE FUNCTION schedule(order_id uuid, timeout text) RETURNS timestamptz
    LANGUAGE sql RETURN schedule(order_id::text, timeout);

-- The functions look up no name in the caller's search path or temporary tables.
DO $$
DECLARE
    signature text;
BEGIN
    FOREACH signature IN ARRAY ARRAY['schedule_at(text, text, timestamptz)', 'schedule(text, text, interval)', 'schedule(text, text)', 'schedule_row()'] LOOP
        EXECUTE format('ALTER FUNCTION %s SET search_path = pg_catalog, %I, pg_temp', signature, current_schema());
    END LOOP;
END
$$;
