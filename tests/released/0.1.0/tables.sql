-- The tables and functions of overdue 0.1.0, as `overdue database init` made them. Never changed.
CREATE OR REPLACE FUNCTION overdue_tables_version() RETURNS int LANGUAGE sql IMMUTABLE RETURN 1;
COMMENT ON FUNCTION overdue_tables_version() IS 'The version of the tables and functions of overdue in this schema.';
-- worker_tables: what the worker itself keeps. Can be run again and again.
CREATE TABLE IF NOT EXISTS closures (
    id        bigint GENERATED ALWAYS AS IDENTITY,
    order_id  text NOT NULL,
    effect    text NOT NULL,
    path      text NOT NULL,
    due_at    timestamptz NOT NULL,
    closed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    outcome   text NOT NULL DEFAULT 'closed',
    -- One index is enough: it finds the rows of an order.
    PRIMARY KEY (order_id, id)
);
-- By time, for `overdue status`: a row adds nothing to it, and its pages are found by it.
CREATE INDEX IF NOT EXISTS closures_closed_at ON closures USING brin (closed_at) WITH (autosummarize = on);
COMMENT ON COLUMN closures.outcome IS 'What the effect calls the state that it brought the order to.';
COMMENT ON TABLE closures IS 'One row per effect that overdue carried out; path says what made it: message, burst (ahead of its message) or sweep.';

CREATE TABLE IF NOT EXISTS outbox (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event         text NOT NULL,
    order_id      text NOT NULL,
    created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- A routing key has at most 255 bytes.
    CONSTRAINT outbox_event_fits CHECK (octet_length(event) BETWEEN 1 AND 255),
    CONSTRAINT outbox_order_id_fits CHECK (octet_length(order_id) BETWEEN 1 AND 255)
);
COMMENT ON TABLE outbox IS 'Events to publish; a row goes when the broker has confirmed it.';

CREATE TABLE IF NOT EXISTS outbox_refused (
    refused_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id         bigint NOT NULL,
    event      text,
    order_id   text,
    created_at timestamptz,
    waits_for  text,
    reason     text NOT NULL,
    refused_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX IF NOT EXISTS outbox_refused_waits_for ON outbox_refused (waits_for, id) WHERE waits_for IS NOT NULL;
CREATE INDEX IF NOT EXISTS outbox_refused_order_id ON outbox_refused (order_id) WHERE waits_for IS NOT NULL;
COMMENT ON TABLE outbox_refused IS 'Events that could not be published. waits_for is the event name that the broker refuses or does not confirm: it is tried again; NULL: it can never be published.';

CREATE TABLE IF NOT EXISTS dropped_messages (
    id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    dropped_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    dropped_by     text NOT NULL DEFAULT session_user,
    because        text NOT NULL,
    queue          text NOT NULL,
    order_id       text,
    timeout        text,
    routing_key    text NOT NULL,
    message_id     text,
    parked_because text NOT NULL,
    parked_at      timestamptz,
    body           bytea,
    body_bytes     bigint NOT NULL
);
COMMENT ON TABLE dropped_messages IS 'What a person has dropped from the parking lot with overdue parked drop, and why. body is NULL where it was over 64 KiB.';
-- schedule: notices that an order service writes in the transaction of its order, and the functions that it writes them with. Run
-- with our schema alone in the search path; can be run again and again.
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
COMMENT ON TABLE scheduled_notices_refused IS 'Notices that cannot be published, and why.';

CREATE TABLE IF NOT EXISTS schedule_timeouts (
    name       text NOT NULL,
    topology   text NOT NULL DEFAULT '',
    after      interval NOT NULL,
    removed_at timestamptz,
    PRIMARY KEY (name, topology)
);
COMMENT ON TABLE schedule_timeouts IS 'The timeouts that schedule() takes, and after how long they are due if the caller does not say. Workers add those of their topology files; overdue database init sets removed_at of those that its file has no more, and no worker takes it back.';

-- What is said of the functions' callers is theirs to grant: nobody has them by default. Only here, where they are new.
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
    -- As Unicode has them, whatever the locale of the database is.
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
    -- A timeout that is not known is refused there.
    RETURN schedule_at(order_id, timeout, now() + coalesce(delays[1], interval '0'));
END
$$;
COMMENT ON FUNCTION schedule(text, text) IS 'Like schedule(text, text, interval), with the delay that the topology file gives the timeout.';

-- For a trigger on any table: the timeout, the column of the key, the column of the deadline. It runs as whoever changes the
-- row: what makes text of their key may be theirs.
CREATE OR REPLACE FUNCTION schedule_row() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    key text;
    deadline timestamptz;
BEGIN
    EXECUTE format('SELECT ($1).%I::text, ($1).%I::timestamptz', TG_ARGV[1], TG_ARGV[2]) INTO key, deadline USING NEW;
    -- NULL and infinity are no deadlines. A notice that comes before its time waits for the rest.
    IF isfinite(deadline) THEN
        PERFORM schedule_at(key, TG_ARGV[0], least(deadline, now() + interval '10 years'));
    END IF;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION schedule_row() IS 'Trigger: schedules a notice for the row. Arguments: timeout, column of the key, column of the deadline.';

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

-- Nothing of the caller's search path is looked at, their temporary tables least of all.
DO $$
DECLARE
    signature text;
BEGIN
    FOREACH signature IN ARRAY ARRAY['schedule_at(text, text, timestamptz)', 'schedule(text, text, interval)', 'schedule(text, text)', 'schedule_row()'] LOOP
        EXECUTE format('ALTER FUNCTION %s SET search_path = pg_catalog, %I, pg_temp', signature, current_schema());
    END LOOP;
END
$$;
