-- bench_purchases_fill: purchases whose deadlines fill one day, in a partition of their own if the table has any: its indexes are made
-- when they are there.
CREATE FUNCTION purchases_fill(day date, first bigint, count bigint, is_open boolean) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    part text := 'purchase_' || to_char(day, 'YYYYMMDD');
BEGIN
    EXECUTE format('CREATE TABLE %I (LIKE purchase INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', part);
    EXECUTE format(
        'INSERT INTO %I (purchase_no, state, pay_until)
         SELECT $2 + n, CASE WHEN $4 THEN 10 WHEN n %% 7 = 0 THEN 90 ELSE 20 END, $1::timestamptz + n * interval ''1 day'' / $3
         FROM generate_series(0::bigint, $3 - 1) AS n', part) USING day, first, count, is_open;
    IF EXISTS (SELECT FROM pg_partitioned_table WHERE partrelid = 'purchase'::regclass) THEN
        EXECUTE format('ALTER TABLE purchase ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', part, day, day + 1);
    ELSE
        EXECUTE format('INSERT INTO purchase (purchase_no, state, pay_until) SELECT purchase_no, state, pay_until FROM %I', part);
        EXECUTE format('DROP TABLE %I', part);
    END IF;
END
$$;
