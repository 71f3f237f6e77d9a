-- Modelled on: auction houses whose winner has to pay (types of their own, a table per year, a trigger that keeps updated_at); own DDL.
-- key is a DOMAIN over text with a year in it; state a DOMAIN over smallint; deadline pay_until date, over at the END of that day in Zurich;
-- the winner is removed from the row, and the lot's other table gets its count of failed sales UP.
CREATE DOMAIN lot_no AS text CHECK (VALUE ~ '^[0-9]{4}-[0-9]+$');
CREATE DOMAIN lot_state AS smallint CHECK (VALUE BETWEEN 0 AND 3);
CREATE TABLE consignors (id int PRIMARY KEY, failed_sales int);
CREATE TABLE lots (no lot_no NOT NULL, year int NOT NULL, consignor int NOT NULL REFERENCES consignors, state lot_state NOT NULL, winner text, pay_until date, updated_at timestamptz, PRIMARY KEY (no, year)) PARTITION BY LIST (year);
CREATE TABLE lots_2025 PARTITION OF lots FOR VALUES IN (2025);
CREATE TABLE lots_2026 PARTITION OF lots FOR VALUES IN (2026);
CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.updated_at = now(); RETURN NEW; END $$;
CREATE TRIGGER touch BEFORE UPDATE ON lots FOR EACH ROW EXECUTE FUNCTION touch();
INSERT INTO consignors VALUES (1, 0), (2, 3);
-- must close 1..5 (yesterday); not 6,7 (today) 8 (paid) 9 (without an end) 10 (closed before)
INSERT INTO lots SELECT (CASE WHEN n IN (1,6) THEN 2025 ELSE 2026 END) || '-' || n, CASE WHEN n IN (1,6) THEN 2025 ELSE 2026 END, 1 + n % 2, CASE n WHEN 8 THEN 2 WHEN 10 THEN 3 ELSE 1 END, 'w'||n,
  CASE WHEN n <> 9 THEN (now() AT TIME ZONE 'Europe/Zurich')::date - CASE WHEN n IN (6,7) THEN 0 ELSE 1 END END FROM generate_series(1,10) n;
