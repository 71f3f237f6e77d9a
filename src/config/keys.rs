//! The keys of `overdue.toml`; a variable of the environment is such a key too.

use super::millis::Millis;
use crate::document::keys::{ANY, Choice, Key, Kind, Presence, Section, Text};

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
            "effects",
            "SQL of effects other than the built-in `close`, by name.",
            Kind::Names(&Kind::Section(&EFFECT)),
            "{ cancel = { sql = \"cancel.sql\" } }",
        ),
        key(
            "log",
            "What is logged, to standard error.",
            Kind::Section(&LOG),
            "{ filter = \"info\" }",
        ),
    ],
};

const fn key(name: &'static str, about: &'static str, kind: Kind, example: &'static str) -> Key {
    Key { name, about, kind, presence: Presence::Optional, example }
}

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
            "\"20ms\"",
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
    ],
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

static ANY_TEXT: Text = ANY;

/// It may hold a password.
static URL: Text = Text { secret: true, ..ANY };

static DURATION: Text = Text { check: Some(duration), ..ANY };

/// A duration that is not zero.
static INTERVAL: Text = Text { check: Some(interval), ..ANY };

/// The broker takes a message back that is unacked for long (`consumer_timeout`, 30 minutes by default).
static HOLD: Text = Text { check: Some(hold), ..ANY };

fn hold(text: &str) -> Result<(), String> {
    match Millis::try_from(text.to_owned())? {
        Millis(..=300_000) => Ok(()),
        Millis(_) => Err(format!("`{text}` is too long: it has to be 5m or less")),
    }
}

fn duration(text: &str) -> Result<(), String> {
    Millis::try_from(text.to_owned()).map(|_| ())
}

fn interval(text: &str) -> Result<(), String> {
    match Millis::try_from(text.to_owned())? {
        Millis(0) => Err(format!("`{text}` is too short: it has to be 1ms or more")),
        Millis(_) => Ok(()),
    }
}
