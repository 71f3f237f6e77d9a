-- Modelled on: authorizations of wallets and gift cards (a hold on a balance that is captured or voided); own DDL.
-- key uuid; NO state column: captured_at and voided_at are both NULL while it waits; deadline = created_at + hold_for, an interval in each row (NULL: never);
-- release: the card's balance goes UP by the amount in the row itself, and a row in the ledger of a trigger follows.
CREATE TABLE gift_card (tenant int NOT NULL, number text NOT NULL, balance numeric(12,2) NOT NULL, version int NOT NULL DEFAULT 0, PRIMARY KEY (tenant, number));
CREATE TABLE card_hold (id uuid PRIMARY KEY, tenant int NOT NULL, number text NOT NULL, amount numeric(12,2) NOT NULL, created_at timestamptz NOT NULL, hold_for interval, captured_at timestamptz, voided_at timestamptz, FOREIGN KEY (tenant, number) REFERENCES gift_card);
CREATE TABLE ledger (id bigserial PRIMARY KEY, tenant int, number text, change numeric(12,2));
CREATE FUNCTION write_ledger() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO ledger (tenant, number, change) VALUES (NEW.tenant, NEW.number, NEW.balance - OLD.balance); RETURN NEW; END $$;
CREATE TRIGGER ledger AFTER UPDATE OF balance ON gift_card FOR EACH ROW EXECUTE FUNCTION write_ledger();
INSERT INTO gift_card VALUES (1, 'A', 10, 0), (1, 'B', 0, 0), (2, 'A', 5, 0);
-- must void 1..5; not 6,7 (for a day) 8 (captured) 9 (for ever) 10 (voided)
INSERT INTO card_hold SELECT ('00000000-0000-0000-0000-0000000000'||lpad(n::text,2,'0'))::uuid, CASE WHEN n = 5 THEN 2 ELSE 1 END, CASE WHEN n IN (3,4) THEN 'B' ELSE 'A' END, n + 0.5, now() - interval '1 h',
  CASE WHEN n IN (6,7) THEN interval '1 day' WHEN n <> 9 THEN interval '30m' END, CASE WHEN n = 8 THEN now() END, CASE WHEN n = 10 THEN now() - interval '1m' END FROM generate_series(1,10) n;
