-- schema: the reference order tables. An order service has its own; then the effect's SQL is what changes.
-- unpaid -> paid -> shipped -> completed; unpaid -> closed; paid -> cancelled
CREATE TABLE IF NOT EXISTS orders (
    id         text PRIMARY KEY,
    category   text NOT NULL DEFAULT 'physical',
    status     text NOT NULL DEFAULT 'unpaid'
               CHECK (status IN ('unpaid', 'paid', 'shipped', 'completed', 'closed', 'cancelled')),
    created_at timestamptz NOT NULL DEFAULT now(),
    due_at     timestamptz NOT NULL,
    paid_at    timestamptz,
    closed_at  timestamptz
);
-- The sweep finds what is overdue by this index alone.
CREATE INDEX IF NOT EXISTS orders_unpaid_due ON orders (due_at, id) WHERE status = 'unpaid';

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
