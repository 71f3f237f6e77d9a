-- worker_tables: the tables of the worker. The script can be repeated.
CREATE TABLE IF NOT EXISTS closures (
    id        bigint GENERATED ALWAYS AS IDENTITY,
    order_id  text NOT NULL,
    effect    text NOT NULL,
    path      text NOT NULL,
    due_at    timestamptz NOT NULL,
    closed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    outcome   text NOT NULL DEFAULT 'closed',
    -- Serves queries for the rows of an order.
    PRIMARY KEY (order_id, id)
);
-- Serves `overdue status` and the deletion of the oldest rows. 0.1.0 had a BRIN index, which becomes useless where the space of deleted
-- rows is used again.
DROP INDEX IF EXISTS closures_closed_at;
CREATE INDEX IF NOT EXISTS closures_by_time ON closures (closed_at);
COMMENT ON COLUMN closures.outcome IS 'What the effect calls the state that it brought the order to.';
COMMENT ON TABLE closures IS 'One row per effect that overdue carried out; path says what made it: message, burst (ahead of its message) or sweep.';

CREATE TABLE IF NOT EXISTS outbox (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event         text NOT NULL,
    order_id      text NOT NULL,
    created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- A routing key has at most 255 bytes.
    CONSTRAINT outbox_event_fits CHECK (octet_length(event) BETWEEN 1 AND 255),
    CONSTRAINT outbox_order_id_fits CHECK (octet_length(order_id) BETWEEN 1 AND 255)
);
COMMENT ON TABLE outbox IS 'Events to publish; a row goes when the broker has confirmed it.';

CREATE TABLE IF NOT EXISTS outbox_refused (
    refused_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id         bigint NOT NULL,
    event      text,
    order_id   text,
    created_at timestamptz,
    waits_for  text,
    reason     text NOT NULL,
    refused_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
-- Checked first: ADD COLUMN locks the table even if the columns exist.
DO $$
BEGIN
    IF (SELECT count(*) FROM pg_attribute WHERE attrelid IN ('outbox'::regclass::oid, 'outbox_refused'::regclass::oid)
        AND attname IN ('traceparent', 'tracestate')) < 4 THEN
ALTER TABLE outbox
    ADD COLUMN IF NOT EXISTS traceparent text,
    ADD COLUMN IF NOT EXISTS tracestate text;
ALTER TABLE outbox_refused
    ADD COLUMN IF NOT EXISTS traceparent text,
    ADD COLUMN IF NOT EXISTS tracestate text;
    END IF;
END
$$;
COMMENT ON COLUMN outbox.traceparent IS 'Header of the event, if it is a traceparent of W3C Trace Context; tracestate likewise.';
CREATE INDEX IF NOT EXISTS outbox_refused_waits_for ON outbox_refused (waits_for, id) WHERE waits_for IS NOT NULL;
CREATE INDEX IF NOT EXISTS outbox_refused_order_id ON outbox_refused (order_id) WHERE waits_for IS NOT NULL;
COMMENT ON TABLE outbox_refused IS 'Events that could not be published. waits_for is the event name that the broker refuses or does not confirm: it is tried again; NULL: it can never be published.';

CREATE TABLE IF NOT EXISTS dropped_messages (
    id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    dropped_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    dropped_by     text NOT NULL DEFAULT session_user,
    because        text NOT NULL,
    queue          text NOT NULL,
    order_id       text,
    timeout        text,
    routing_key    text NOT NULL,
    message_id     text,
    parked_because text NOT NULL,
    parked_at      timestamptz,
    body           bytea,
    body_bytes     bigint NOT NULL
);
COMMENT ON TABLE dropped_messages IS 'What a person has dropped from the parking lot with overdue parked drop, and why. body is NULL where it was over 64 KiB.';

CREATE TABLE IF NOT EXISTS effects (
    name        text PRIMARY KEY,
    terms       text NOT NULL,
    accepted_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE effects IS 'Which rows each described effect may close: terms are the keys of its description that decide it. An effect with other terms waits while more than ten rows are overdue, until overdue effect accept.';

CREATE TABLE IF NOT EXISTS actions (
    id     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    by     text NOT NULL DEFAULT session_user,
    via    text NOT NULL,
    action text NOT NULL,
    what   text NOT NULL,
    count  bigint,
    why    text,
    orders text[] NOT NULL DEFAULT '{}'
);
CREATE INDEX IF NOT EXISTS actions_orders ON actions USING gin (orders);
COMMENT ON TABLE actions IS 'What people have done with overdue: by whom, by the command line (cli) or the page (page: NAME), to what, to how many, why, and to which orders.';
