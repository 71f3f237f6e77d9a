-- pauses: the table of paused timeouts, and the function by which closing transactions refuse to close. Run with our schema alone in the
-- search path; can be repeated.
CREATE TABLE IF NOT EXISTS pauses (
    topology   text NOT NULL,
    timeout    text NOT NULL,
    effect     text NOT NULL,
    why        text NOT NULL,
    paused_by  text NOT NULL DEFAULT session_user,
    paused_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    ends_at    timestamptz NOT NULL,
    -- After `overdue resume --rate`: the orders per second, and the time until which the closed orders have used the rate up.
    per_second integer,
    used_until timestamptz,
    PRIMARY KEY (topology, timeout)
);
COMMENT ON TABLE pauses IS 'Timeouts whose orders no worker closes until ends_at. Written by overdue pause and overdue resume.';

-- The first statement of each transaction that closes orders. The timeout is NULL for orders that were found by their effect: they can
-- belong to any timeout with that effect, in any topology file. The function shares a lock until the transaction ends. `overdue pause`
-- commits its row, and then takes the exclusive locks of timeout and effect. It therefore waits for the transactions that have not seen
-- the row. All later ones see it, because each query in here has a newer snapshot than the lock. A transaction that begins while `overdue
-- pause` waits is refused at once.
CREATE OR REPLACE FUNCTION refuse_paused(topology text, timeout text, effect text, orders integer) RETURNS void LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    pause {own}.pauses;
    at timestamptz;
    used interval;
BEGIN
    IF NOT pg_try_advisory_xact_lock_shared(hashtextextended(
        CASE WHEN timeout IS NULL THEN effect ELSE topology || ' ' || timeout END, '{own}.pauses'::regclass::oid::bigint))
    THEN
        RAISE EXCEPTION '% is being paused', coalesce(timeout, effect) USING ERRCODE = 'OV001', DETAIL = '50';
    END IF;
    FOR pause IN
        SELECT * FROM {own}.pauses AS it
        WHERE (it.topology = topology AND it.timeout = timeout) OR (timeout IS NULL AND it.effect = effect)
        ORDER BY it.topology, it.timeout
    LOOP
        at := clock_timestamp();
        CONTINUE WHEN pause.ends_at <= at;
        IF pause.per_second IS NULL THEN
            RAISE EXCEPTION '% is paused until % by %: %', pause.timeout, pause.ends_at, pause.paused_by, pause.why
                USING ERRCODE = 'OV001', DETAIL = ceil(1000.0 * extract(epoch FROM least(pause.ends_at, at + interval '10 years') - at));
        END IF;
        -- A transaction without orders uses nothing of the rate.
        CONTINUE WHEN orders = 0;
        IF orders > pause.per_second THEN
            RAISE EXCEPTION '% is resumed with % orders per second', pause.timeout, pause.per_second
                USING ERRCODE = 'OV001', DETAIL = '0', HINT = pause.per_second;
        END IF;
        -- No row is found if another transaction has used the rate up, or is about to commit. Its use ends within a second, unless
        -- the clock was set back.
        PERFORM FROM {own}.pauses AS it
        WHERE it.topology = pause.topology AND it.timeout = pause.timeout
          AND (it.used_until <= at OR it.used_until > at + interval '2 s') FOR UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            RAISE EXCEPTION '% is resumed with % orders per second', pause.timeout, pause.per_second
                USING ERRCODE = 'OV001', DETAIL = ceil(least(1000.0, greatest(50.0, 1000.0 * extract(epoch FROM pause.used_until - at)))), HINT = pause.per_second;
        END IF;
        -- Each use extends the rate by twice its time: the rate stays while at least half of it is used, and ends below that. A full
        -- batch means that more orders wait, however slowly they are closed.
        used := orders::float8 * interval '1 s' / pause.per_second::float8;
        UPDATE {own}.pauses AS it SET used_until = at + used, ends_at = CASE WHEN orders >= least(pause.per_second, 500)
            THEN at + used + interval '2 minutes' ELSE least(at + used + interval '2 minutes', it.ends_at + 2 * used) END
        WHERE it.topology = pause.topology AND it.timeout = pause.timeout;
    END LOOP;
END
$$;
COMMENT ON FUNCTION refuse_paused(text, text, text, integer) IS 'Fails with SQLSTATE OV001 if the timeout is paused, or one with the effect where it is NULL; the detail is the rest in milliseconds, the hint a rate. Of a transaction that closes so many orders.';
