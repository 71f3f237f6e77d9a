-- overdue: what the worker itself keeps. Can be run again and again.
CREATE TABLE IF NOT EXISTS closures (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    order_id  text NOT NULL,
    effect    text NOT NULL,
    path      text NOT NULL,
    due_at    timestamptz NOT NULL,
    closed_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX IF NOT EXISTS closures_order_id ON closures (order_id);
COMMENT ON TABLE closures IS 'One row per effect that overdue carried out; path says what made it: message or sweep.';

CREATE TABLE IF NOT EXISTS outbox (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event         text NOT NULL,
    order_id      text NOT NULL,
    created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    claimed_until timestamptz NOT NULL DEFAULT '-infinity'
);
COMMENT ON TABLE outbox IS 'Events to publish; a row goes when the broker has confirmed it.';
