//! The keys of `overdue.toml`; a variable of the environment is such a key too.

use super::document::keys::{ANY, Choice, Kind, Section, Text};
use super::{
    alert::ALERT,
    listen::Listen,
    millis::Millis,
    texts::{ANY_TEXT, DURATION, INTERVAL, URL, key},
};

/// The whole file.
pub(super) static SETTINGS: Section = Section {
    about: "Settings of overdue.",
    keys: &[
        key("topology", "The topology file.", Kind::Text(&ANY_TEXT), "\"topology.toml\""),
        key("broker", "Where RabbitMQ is.", Kind::Section(&BROKER), "{ url = \"amqp://host\" }"),
        key(
            "database",
            "Where PostgreSQL is.",
            Kind::Section(&DATABASE),
            "{ url = \"postgres://host/db\" }",
        ),
        key("worker", "How the worker works.", Kind::Section(&WORKER), "{ batch_size = 500 }"),
        key(
            "events",
            "What is published of closed orders.",
            Kind::Section(&EVENTS),
            "{ publish = true }",
        ),
        key(
            "schedule",
            "What becomes of notices that were written with schedule().",
            Kind::Section(&SCHEDULE),
            "{ publish = \"on\" }",
        ),
        key(
            "effects",
            "SQL of effects that are not built in, or of other tables, by name.",
            Kind::Names(&Kind::Section(&EFFECT)),
            "{ cancel = { sql = \"cancel.sql\" } }",
        ),
        key(
            "log",
            "What is logged, to standard error.",
            Kind::Section(&LOG),
            "{ filter = \"info\" }",
        ),
        key(
            "alert",
            "Messages about what is wrong, to a webhook or by mail.",
            Kind::Sections(&ALERT),
            "[{ name = \"on-call\", url_file = \"slack.url\" }]",
        ),
    ],
};

static BROKER: Section = Section {
    about: "Where RabbitMQ is.",
    keys: &[
        key(
            "url",
            "AMQP URI with user, password and virtual host.",
            Kind::Text(&URL),
            "\"amqp://user:password@host:5672/%2f\"",
        ),
        key(
            "management_url",
            "Management API; by default the same host and credentials on port 15672.",
            Kind::Text(&URL),
            "\"http://user:password@host:15672\"",
        ),
        key(
            "statistics_interval",
            "How often the broker takes its statistics.",
            Kind::Text(&DURATION),
            "\"5s\"",
        ),
        key(
            "dead_letter_slots",
            "Dead letters that a queue of the broker hands on at once.",
            Kind::Number { min: 1, max: 65_535 },
            "32",
        ),
    ],
};

static DATABASE: Section = Section {
    about: "Where PostgreSQL is.",
    keys: &[
        key(
            "url",
            "PostgreSQL URL with user, password and database.",
            Kind::Text(&URL),
            "\"postgres://user:password@host:5432/database\"",
        ),
        key(
            "search_path",
            "Schemas, comma-separated: the first holds the objects of overdue.",
            Kind::Text(&ANY_TEXT),
            "\"overdue,public\"",
        ),
        key("connections", "Most connections.", Kind::Number { min: 2, max: 1_000 }, "16"),
    ],
};

static WORKER: Section = Section {
    about: "How the worker works.",
    keys: &[
        key(
            "batch_size",
            "Most orders in one transaction.",
            Kind::Number { min: 1, max: 2_000 },
            "500",
        ),
        key(
            "batch_age",
            "How long the first order of a batch waits for others while earlier batches are being closed.",
            Kind::Text(&DURATION),
            "\"50ms\"",
        ),
        key(
            "in_flight",
            "Batches being closed at the same time, per timeout.",
            Kind::Number { min: 1, max: 64 },
            "4",
        ),
        key(
            "hold",
            "The longest rest of a deadline that is waited for with the message in hand, at most 5m.",
            Kind::Text(&HOLD),
            "\"2s\"",
        ),
        key(
            "drain",
            "Time to finish after SIGTERM what was begun before it.",
            Kind::Text(&DURATION),
            "\"20s\"",
        ),
        key(
            "sweep_every",
            "How often the sweep looks for orders that no message came for.",
            Kind::Text(&INTERVAL),
            "\"1m\"",
        ),
        key(
            "sweep_grace",
            "How long past its deadline the sweep leaves an order to the messages.",
            Kind::Text(&DURATION),
            "\"1m\"",
        ),
        key(
            "keep_history",
            "How long closures and records of dropped messages are kept; 0s: for ever.",
            Kind::Text(&DURATION),
            "\"90d\"",
        ),
        key(
            "listen",
            "Address and port of /metrics, /livez and /readyz; empty: none.",
            Kind::Text(&LISTEN),
            "\"127.0.0.1:9632\"",
        ),
        key(
            "watch_every",
            "How often database and broker are asked for what /metrics and /readyz say of them.",
            Kind::Text(&INTERVAL),
            "\"10s\"",
        ),
        key(
            "stuck_after",
            "How long an order may be overdue while none is closed before the worker is not ready.",
            Kind::Text(&INTERVAL),
            "\"5m\"",
        ),
    ],
};

static EVENTS: Section = Section {
    about: "What is published of closed orders.",
    keys: &[
        key(
            "publish",
            "Whether the built-in effect writes events and the worker publishes the outbox.",
            Kind::Boolean,
            "true",
        ),
        key(
            "linger",
            "How long events are gathered before they are published together.",
            Kind::Text(&LINGER),
            "\"50ms\"",
        ),
    ],
};

static SCHEDULE: Section = Section {
    about: "What becomes of notices that were written with schedule().",
    keys: &[key(
        "publish",
        "Whether the worker publishes the notices that order services write with schedule().",
        Kind::Choice(&PUBLISH),
        "\"on\"",
    )],
};

static PUBLISH: Choice = Choice {
    about: "Whether the worker publishes them.",
    words: &[
        ("auto", "Where the tables are there, and the rights on them."),
        ("on", "The same; a line in the log says what is missing."),
        ("off", "It does not."),
    ],
    refused: &[],
};

static EFFECT: Section = Section {
    about: "SQL of an effect.",
    keys: &[
        key(
            "sql",
            "File with the statement of the effect.",
            Kind::Text(&ANY_TEXT),
            "\"cancel.sql\"",
        ),
        key(
            "overdue_sql",
            "File with the statement that finds overdue orders, for the sweep.",
            Kind::Text(&ANY_TEXT),
            "\"cancel_overdue.sql\"",
        ),
        key(
            "due_sql",
            "File with the statement that says when orders are due, for notices that come early.",
            Kind::Text(&ANY_TEXT),
            "\"cancel_due.sql\"",
        ),
    ],
};

static LOG: Section = Section {
    about: "What is logged, to standard error.",
    keys: &[
        key("filter", "Filter directives.", Kind::Text(&ANY_TEXT), "\"info\""),
        key("format", "How log lines look.", Kind::Choice(&FORMAT), "\"text\""),
    ],
};

static FORMAT: Choice = Choice {
    about: "How log lines look.",
    words: &[("text", "For people."), ("json", "One JSON object per line.")],
    refused: &[],
};

static LISTEN: Text = Text { check: Some(listen), ..ANY };

/// The broker takes a message back that is unacked for long (`consumer_timeout`, 30 minutes by default).
static HOLD: Text = Text { check: Some(hold), ..ANY };

/// Events of one order per second are no reason to keep them for minutes.
static LINGER: Text = Text { check: Some(linger), ..ANY };

fn linger(text: &str) -> Result<(), String> {
    match Millis::try_from(text.to_owned())? {
        Millis(..=10_000) => Ok(()),
        Millis(_) => Err(format!("`{text}` is too long: it has to be 10s or less")),
    }
}

fn listen(text: &str) -> Result<(), String> {
    Listen::try_from(text.to_owned()).map(|_| ())
}

fn hold(text: &str) -> Result<(), String> {
    match Millis::try_from(text.to_owned())? {
        Millis(..=300_000) => Ok(()),
        Millis(_) => Err(format!("`{text}` is too long: it has to be 5m or less")),
    }
}
