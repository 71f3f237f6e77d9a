//! The keys of `topology.toml`: what the parser takes, what it suggests, and what the JSON Schema says.

use super::file::{DEFAULT_DELIVERY_LIMIT, DEFAULT_EFFECT};
use crate::document::keys::{ANY, Choice, Key, Kind, Not, Presence, Section, Text};

/// The whole file.
pub(super) static FILE: Section = Section {
    about: "The delay topology of one team: `overdue apply` brings a broker there.",
    keys: &[
        Key {
            name: "name",
            about: "Prefix of every exchange and queue; nothing outside it is ever touched, but for the exchange that `compat.x-delay` names.",
            kind: Kind::Text(&TOPOLOGY_NAME),
            presence: Presence::Required,
            example: "\"orders\"",
        },
        Key {
            name: "delay",
            about: "How messages are delayed.",
            kind: Kind::Section(&DELAY),
            presence: Presence::Required,
            example: "levels = [\"5s\", \"30m\"]",
        },
        Key {
            name: "queues",
            about: "Type and limits of the queues.",
            kind: Kind::Section(&QUEUES),
            presence: Presence::Optional,
            example: "{ type = \"quorum\" }",
        },
        Key {
            name: "timeout",
            about: "The business rules: what happens to an order whose time is up. Each has a queue.",
            kind: Kind::Sections(&TIMEOUT),
            presence: Presence::Required,
            example: "[{ name = \"unpaid\", after = \"30m\" }]",
        },
        Key {
            name: "retry",
            about: "What is tried again, and when.",
            kind: Kind::Section(&RETRY),
            presence: Presence::Optional,
            example: "{ after = [\"5s\", \"30s\"] }",
        },
        Key {
            name: "compat",
            about: "What takes the place of something that is gone.",
            kind: Kind::Section(&COMPAT),
            presence: Presence::Optional,
            example: "{ x-delay = { exchange = \"delayed\" } }",
        },
    ],
};

static COMPAT: Section = Section {
    about: "What takes the place of something that is gone.",
    keys: &[Key {
        name: "x-delay",
        about: "An exchange of the delayed message plugin, whose publishers and consumers go on as they are.",
        kind: Kind::Section(&X_DELAY),
        presence: Presence::Optional,
        example: "{ exchange = \"delayed\", type = \"direct\" }",
    }],
};

static X_DELAY: Section = Section {
    about: "An exchange of the delayed message plugin, whose publishers and consumers go on as they are.",
    keys: &[
        Key {
            name: "exchange",
            about: "The name that its publishers use.",
            kind: Kind::Text(&EXCHANGE_NAME),
            presence: Presence::Required,
            example: "\"delayed\"",
        },
        Key {
            name: "type",
            about: "How it routes what is due: its argument `x-delayed-type`.",
            kind: Kind::Choice(&ROUTING_TYPE),
            presence: Presence::DefaultText("direct"),
            example: "\"direct\"",
        },
    ],
};

static ROUTING_TYPE: Choice = Choice {
    about: "How an exchange routes.",
    words: &[
        ("direct", "By the same routing key."),
        ("topic", "By a pattern of the routing key."),
        ("fanout", "To every queue."),
        ("headers", "By headers."),
    ],
    refused: &[],
};

static EXCHANGE_NAME: Text = Text { min: 1, max: Some(255), ..ANY };

static DELAY: Section = Section {
    about: "How messages are delayed.",
    keys: &[
        Key {
            name: "strategy",
            about: "How the broker delays a message.",
            kind: Kind::Choice(&STRATEGY),
            presence: Presence::DefaultText("levels"),
            example: "\"levels\"",
        },
        Key {
            name: "levels",
            about: "The delays, shortest first; each is a queue. The strategy `levels` needs at least one.",
            kind: Kind::List { of: &Kind::Text(&LEVEL), min_items: 1, unique: true },
            presence: Presence::Optional,
            example: "[\"5s\", \"30m\"]",
        },
        Key {
            name: "lead",
            about: "How much earlier than its name says a level lets a message go; the worker holds it until then. Less than half of each level, at most 1m; `0s` is none. Without it 500ms, or a quarter of a level that is shorter than 2s.",
            kind: Kind::Text(&LEAD),
            presence: Presence::Optional,
            example: "\"500ms\"",
        },
        Key {
            name: "ladder",
            about: "With the strategy `ladder`: any delay, by queues that add up to it.",
            kind: Kind::Section(&LADDER),
            presence: Presence::Optional,
            example: "{ max = \"30d\" }",
        },
    ],
};

static LADDER: Section = Section {
    about: "Any delay, by queues that add up to it.",
    keys: &[
        Key {
            name: "max",
            about: "The longest delay, whole seconds.",
            kind: Kind::Text(&LEVEL),
            presence: Presence::Required,
            example: "\"30d\"",
        },
        Key {
            name: "queues",
            about: "At most so many queues, for the fewest hops; without it as many as the round delays take, e.g. 81 for 30 days.",
            kind: Kind::Number { min: 1, max: 200 },
            presence: Presence::Optional,
            example: "40",
        },
    ],
};

static STRATEGY: Choice = Choice {
    about: "How the broker delays a message.",
    words: &[
        (
            "levels",
            "One queue per level: message TTL, then the dead letter exchange. Every broker has it.",
        ),
        (
            "ladder",
            "Queues whose message TTLs add up to any delay to the second. Every broker has it.",
        ),
        (
            "delayed-exchange",
            "An exchange of the plugin `rabbitmq_delayed_message_exchange`: any delay. Not on RabbitMQ 4.3 and later.",
        ),
    ],
    refused: &[],
};

static QUEUES: Section = Section {
    about: "Type and limits of the queues.",
    keys: &[
        Key {
            name: "type",
            about: "Type of every queue.",
            kind: Kind::Choice(&QUEUE_TYPE),
            presence: Presence::DefaultText("quorum"),
            example: "\"quorum\"",
        },
        Key {
            name: "delivery_limit",
            about: "Deliveries of one message before it is parked (quorum queues only).",
            kind: Kind::Number { min: 1, max: 1_000_000 },
            presence: Presence::DefaultNumber(DEFAULT_DELIVERY_LIMIT),
            example: "20",
        },
    ],
};

static QUEUE_TYPE: Choice = Choice {
    about: "The queue types a delay can be built on.",
    words: &[
        ("quorum", "Replicated, at-least-once dead-lettering."),
        (
            "classic",
            "Not replicated, at-most-once dead-lettering; for development and comparisons.",
        ),
    ],
    refused: &[],
};

static TIMEOUT: Section = Section {
    about: "A business rule: what happens to an order whose time is up.",
    keys: &[
        Key {
            name: "name",
            about: "Business name: queue `<topology>.<name>`, routing key `<level>.<name>`.",
            kind: Kind::Text(&TIMEOUT_NAME),
            presence: Presence::Required,
            example: "\"unpaid\"",
        },
        Key {
            name: "after",
            about: "The level a publisher uses when it names no other.",
            kind: Kind::Text(&LEVEL),
            presence: Presence::Required,
            example: "\"30m\"",
        },
        Key {
            name: "effect",
            about: "Which SQL runs when it is due; `close`, `cancel` and `complete` are built in, others are in the settings.",
            kind: Kind::Text(&EFFECT),
            presence: Presence::DefaultText(DEFAULT_EFFECT),
            example: "\"close\"",
        },
        Key {
            name: "after_by_category",
            about: "Levels by order category, e.g. `virtual`.",
            kind: Kind::Names(&Kind::Text(&LEVEL)),
            presence: Presence::DefaultEmpty,
            example: "{ virtual = \"5m\" }",
        },
    ],
};

static RETRY: Section = Section {
    about: "What is tried again, and when.",
    keys: &[Key {
        name: "after",
        about: "Levels of the first, second, … retry; after the last one the message is parked.",
        kind: Kind::List { of: &Kind::Text(&LEVEL), min_items: 0, unique: false },
        presence: Presence::DefaultEmpty,
        example: "[\"5s\", \"30s\"]",
    }],
};

/// For each unit the number has as many digits as ten years take, and the first digit of the longest is at most
/// theirs; the rest of the limit is for `overdue check`.
const LEVEL_PATTERN: &str = concat!(
    "^(([1-9][0-9]{0,10}|[1-3][0-9]{11})ms",
    "|([1-9][0-9]{0,7}|[1-3][0-9]{8})s",
    "|([1-9][0-9]{0,5}|[1-5][0-9]{6})m",
    "|([1-9][0-9]{0,3}|[1-8][0-9]{4})h",
    "|([1-9][0-9]{0,2}|[1-3][0-9]{3})d)$",
);

static LEVEL: Text = Text {
    about: "A delay level: whole number and one unit (ms, s, m, h, d), up to ten years.",
    examples: &["5s", "30m", "1d"],
    min: 1,
    pattern: Some(LEVEL_PATTERN),
    ..ANY
};

/// It may be nothing, too.
static LEAD: Text = Text {
    about: "Whole number and one unit (ms, s, m), up to 1m; `0s` is none.",
    examples: &["500ms", "0s"],
    min: 1,
    pattern: Some("^(0|[1-9][0-9]{0,4})(ms|s|m|h|d)$"),
    ..ANY
};

static TOPOLOGY_NAME: Text = Text {
    about: "Letters, digits, `-`, `_` and inner `.`; not `amq`, which belongs to the broker.",
    min: 1,
    max: Some(191),
    pattern: Some(r"^[A-Za-z0-9_-]+(\.+[A-Za-z0-9_-]+)*$"),
    not: Some(Not::Pattern(r"^amq(\.|$)")),
    ..ANY
};

static TIMEOUT_NAME: Text = Text {
    about: "One word of a routing key: letters, digits, `-` and `_`; not `parked`.",
    min: 1,
    max: Some(63),
    pattern: Some("^[A-Za-z0-9_-]+$"),
    not: Some(Not::Text("parked")),
    ..ANY
};

static EFFECT: Text = Text { min: 1, ..ANY };
