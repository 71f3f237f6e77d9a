-- The tables of a shop with a partition for each day of the deadline, so that an old day goes with DROP TABLE.
CREATE TABLE article (
    article_no bigint PRIMARY KEY,
    on_hand    integer NOT NULL CHECK (on_hand >= 0)
);

CREATE TABLE purchase (
    purchase_no bigint NOT NULL,
    state       smallint NOT NULL DEFAULT 10 CHECK (state IN (10, 20, 90)),  -- 10 waiting for payment, 20 paid, 90 expired
    pay_until   timestamptz NOT NULL,
    -- PostgreSQL wants the day's column in it. The number comes first, since messages name only that.
    PRIMARY KEY (purchase_no, pay_until)
) PARTITION BY RANGE (pay_until);

-- Without REFERENCES purchase: no key of it is the number alone.
CREATE TABLE purchase_line (
    purchase_no bigint NOT NULL,
    article_no  bigint NOT NULL REFERENCES article,
    pieces      integer NOT NULL CHECK (pieces > 0),
    PRIMARY KEY (purchase_no, article_no)
);

-- The sweep finds what is overdue by this index of each partition.
CREATE INDEX purchase_waiting ON purchase (pay_until, purchase_no) WHERE state = 10;

-- A partition for each day, also for days to come (a purchase without one is refused): a cron job, or pg_partman. No DEFAULT partition:
-- with one PostgreSQL no longer knows that the order of the partitions is that of the deadlines, and the sweep looks into all of them.
CREATE FUNCTION purchase_days(first date, last date) RETURNS void LANGUAGE plpgsql
-- A day begins at the same instant whoever calls it: partitions neither overlap nor leave an hour out.
SET timezone = 'UTC' AS $$
DECLARE
    day date;
BEGIN
    FOR day IN SELECT generate_series(first, last, interval '1 day') LOOP
        EXECUTE format('CREATE TABLE IF NOT EXISTS %I PARTITION OF purchase FOR VALUES FROM (%L) TO (%L)',
                       'purchase_' || to_char(day, 'YYYYMMDD'), day, day + 1);
    END LOOP;
END
$$;
