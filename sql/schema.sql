-- schema: the reference order tables. A team with other tables writes its own effect.
-- unpaid -> paid -> shipped -> completed; unpaid -> closed; paid -> cancelled
-- Each state that can become overdue has its deadline: unpaid due_at, paid ship_by, shipped confirm_by.
CREATE TABLE IF NOT EXISTS orders (
    id           text PRIMARY KEY,
    category     text NOT NULL DEFAULT 'physical',
    status       text NOT NULL DEFAULT 'unpaid'
                 CHECK (status IN ('unpaid', 'paid', 'shipped', 'completed', 'closed', 'cancelled')),
    created_at   timestamptz NOT NULL DEFAULT now(),
    due_at       timestamptz NOT NULL,
    paid_at      timestamptz,
    closed_at    timestamptz,
    ship_by      timestamptz,
    confirm_by   timestamptz,
    shipped_at   timestamptz,
    completed_at timestamptz,
    cancelled_at timestamptz,
    CONSTRAINT orders_paid_has_ship_by CHECK (status <> 'paid' OR ship_by IS NOT NULL),
    CONSTRAINT orders_shipped_has_confirm_by CHECK (status <> 'shipped' OR confirm_by IS NOT NULL)
);

-- Allowed changes of the status; every other change is refused. Only a forbidden change calls the function, so that closing costs no
-- call.
CREATE OR REPLACE FUNCTION orders_refuse_transition() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'order % cannot go from % to %', NEW.id, OLD.status, NEW.status
        USING ERRCODE = 'check_violation', TABLE = TG_TABLE_NAME, CONSTRAINT = TG_NAME;
END
$$;
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_trigger WHERE tgrelid = 'orders'::regclass::oid AND tgname = 'orders_transition') THEN
        CREATE TRIGGER orders_transition AFTER UPDATE OF status ON orders FOR EACH ROW
        WHEN (OLD.status IS DISTINCT FROM NEW.status AND NOT (
                 OLD.status = 'unpaid' AND NEW.status IN ('closed', 'paid')
              OR OLD.status = 'paid' AND NEW.status IN ('shipped', 'cancelled')
              OR OLD.status = 'shipped' AND NEW.status = 'completed'))
        EXECUTE FUNCTION orders_refuse_transition();
    END IF;
END
$$;
-- The sweep finds overdue orders from this index alone.
CREATE INDEX IF NOT EXISTS orders_unpaid_due ON orders (due_at, id) WHERE status = 'unpaid';
CREATE INDEX IF NOT EXISTS orders_paid_ship_by ON orders (ship_by, id) WHERE status = 'paid';
CREATE INDEX IF NOT EXISTS orders_shipped_confirm_by ON orders (confirm_by, id) WHERE status = 'shipped';

CREATE TABLE IF NOT EXISTS stock (
    sku       text PRIMARY KEY,
    available bigint NOT NULL CHECK (available >= 0),
    reserved  bigint NOT NULL DEFAULT 0 CHECK (reserved >= 0),
    sold      bigint NOT NULL DEFAULT 0 CHECK (sold >= 0)
);

CREATE TABLE IF NOT EXISTS order_items (
    order_id text NOT NULL REFERENCES orders (id) ON DELETE CASCADE,
    sku      text NOT NULL REFERENCES stock (sku),
    qty      bigint NOT NULL CHECK (qty > 0),
    PRIMARY KEY (order_id, sku)
);
