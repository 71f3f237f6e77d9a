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

-- A routing key has at most 255 bytes. Rows that are there already are not looked at: the relay sets bad ones aside.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_constraint WHERE conrelid = 'outbox'::regclass AND conname = 'outbox_event_fits') THEN
        ALTER TABLE outbox
            ADD CONSTRAINT outbox_event_fits CHECK (octet_length(event) BETWEEN 1 AND 255) NOT VALID,
            ADD CONSTRAINT outbox_order_id_fits CHECK (octet_length(order_id) BETWEEN 1 AND 255) NOT VALID;
    END IF;
END
$$;

CREATE TABLE IF NOT EXISTS outbox_refused (
    refused_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id         bigint NOT NULL,
    event      text,
    order_id   text,
    created_at timestamptz,
    waits_for  text,
    reason     text NOT NULL
);
CREATE INDEX IF NOT EXISTS outbox_refused_waits_for ON outbox_refused (waits_for, id) WHERE waits_for IS NOT NULL;
CREATE INDEX IF NOT EXISTS outbox_refused_order_id ON outbox_refused (order_id) WHERE waits_for IS NOT NULL;
COMMENT ON TABLE outbox_refused IS 'Events that could not be published. waits_for is the event name that the broker refuses; NULL: it can never be published.';

CREATE TABLE IF NOT EXISTS outbox_retries (
    event     text PRIMARY KEY,
    since     timestamptz NOT NULL DEFAULT now(),
    events    bigint NOT NULL,
    refusals  int NOT NULL DEFAULT 1,
    forbidden boolean NOT NULL DEFAULT false,
    next_try  timestamptz NOT NULL
);
CREATE INDEX IF NOT EXISTS outbox_retries_next_try ON outbox_retries (next_try);
COMMENT ON TABLE outbox_retries IS 'Event names that the broker refuses, and when they are tried again; events counts all that were refused since.';
