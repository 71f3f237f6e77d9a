-- pauses: timeouts whose orders no worker closes, and the function that refuses to. Run with our schema alone in the search path; can be
-- run again and again.
CREATE TABLE IF NOT EXISTS pauses (
    topology   text NOT NULL,
    timeout    text NOT NULL,
    why        text NOT NULL,
    paused_by  text NOT NULL DEFAULT session_user,
    paused_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    ends_at    timestamptz NOT NULL,
    -- Since `overdue resume --rate`: so many orders per second, and until when those that were closed have used that up.
    per_second integer,
    used_until timestamptz,
    PRIMARY KEY (topology, timeout)
);
COMMENT ON TABLE pauses IS 'Timeouts whose orders no worker closes until ends_at. Written by overdue pause and overdue resume.';

-- The first statement of each transaction that closes orders. It shares a lock until that transaction ends. `overdue pause` commits its
-- row, and then takes the lock alone: so it waits for those that have seen no row, and all others see it, since each query in here
-- has a newer snapshot than the lock. Whoever comes while it waits does not wait, and is refused.
CREATE OR REPLACE FUNCTION refuse_paused(topology text, timeouts text[], orders integer) RETURNS void LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    name text;
    pause pauses;
    at timestamptz;
    used interval;
BEGIN
    FOREACH name IN ARRAY timeouts LOOP
        IF NOT pg_try_advisory_xact_lock_shared(hashtextextended(topology || ' ' || name, 'pauses'::regclass::oid::bigint)) THEN
            RAISE EXCEPTION 'the timeout % is being paused', name USING ERRCODE = 'OV001', DETAIL = '50';
        END IF;
    END LOOP;
    FOR pause IN SELECT * FROM pauses AS it WHERE it.topology = topology AND it.timeout = ANY (timeouts) LOOP
        at := clock_timestamp();
        CONTINUE WHEN pause.ends_at <= at;
        IF pause.per_second IS NULL THEN
            RAISE EXCEPTION 'the timeout % is paused until % by %: %', pause.timeout, pause.ends_at, pause.paused_by, pause.why
                USING ERRCODE = 'OV001', DETAIL = ceil(1000.0 * extract(epoch FROM least(pause.ends_at, at + interval '10 years') - at));
        END IF;
        -- Another transaction that has closed some is about to commit.
        PERFORM FROM pauses AS it WHERE it.topology = topology AND it.timeout = pause.timeout AND it.used_until <= at FOR UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'the timeout % is resumed with % orders per second', pause.timeout, pause.per_second
                USING ERRCODE = 'OV001', DETAIL = ceil(greatest(10.0, 1000.0 * extract(epoch FROM pause.used_until - at)));
        END IF;
        used := orders::float8 * interval '1 s' / pause.per_second::float8;
        UPDATE pauses AS it SET used_until = at + used, ends_at = at + used + interval '2 minutes'
        WHERE it.topology = topology AND it.timeout = pause.timeout;
    END LOOP;
END
$$;
COMMENT ON FUNCTION refuse_paused(text, text[], integer) IS 'Fails with SQLSTATE OV001 if one of the timeouts is paused; the detail is the rest in milliseconds. Of a transaction that closes so many orders.';
