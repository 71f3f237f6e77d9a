//! The keys of an `[[alert]]`.

use super::document::keys::{Choice, Key, Kind, Presence, Section};
use super::texts::{ANY_TEXT, DURATION, INTERVAL, URL, key};

pub(super) static ALERT: Section = Section {
    about: "Messages about what is wrong, to a webhook or by mail.",
    keys: &[
        Key {
            name: "name",
            about: "What messages and metrics call it.",
            kind: Kind::Text(&ANY_TEXT),
            presence: Presence::Required,
            example: "\"on-call\"",
        },
        Key {
            name: "format",
            about: "What the other side takes.",
            kind: Kind::Choice(&FORMAT),
            presence: Presence::Required,
            example: "\"slack\"",
        },
        key(
            "url",
            "URL of the webhook, or of the mail server.",
            Kind::Text(&URL),
            "\"https://example.com/hook\"",
        ),
        key("url_file", "A file with that URL.", Kind::Text(&ANY_TEXT), "\"webhook.url\""),
        key("secret", "What messages are signed with.", Kind::Text(&URL), "\"a long random text\""),
        key("secret_file", "A file with it.", Kind::Text(&ANY_TEXT), "\"webhook.secret\""),
        key(
            "ca_file",
            "The CAs that are trusted, PEM; otherwise those of the machine.",
            Kind::Text(&ANY_TEXT),
            "\"ca.pem\"",
        ),
        key("from", "The sender of mails.", Kind::Text(&ANY_TEXT), "\"overdue@example.com\""),
        key(
            "to",
            "Who gets mails.",
            Kind::List { of: &Kind::Text(&ANY_TEXT), min_items: 1, unique: true },
            "[\"on-call@example.com\"]",
        ),
        key(
            "on",
            "What it is about.",
            Kind::List { of: &Kind::Choice(&KINDS), min_items: 1, unique: true },
            "[\"not-ready\", \"late\"]",
        ),
        key("late_after", "How late an order may be closed.", Kind::Text(&DURATION), "\"10s\""),
        key(
            "not_ready_for",
            "How long a worker may be not ready.",
            Kind::Text(&DURATION),
            "\"1m\"",
        ),
        key(
            "over_after",
            "What was not seen for so long is over.",
            Kind::Text(&DURATION),
            "\"5m\"",
        ),
        key(
            "at_most_every",
            "The shortest time between two messages.",
            Kind::Text(&DURATION),
            "\"1m\"",
        ),
        key(
            "again_after",
            "What is still wrong after so long is said again.",
            Kind::Text(&INTERVAL),
            "\"4h\"",
        ),
        key(
            "runbooks",
            "Where the runbooks are, for links in messages.",
            Kind::Text(&ANY_TEXT),
            "\"https://example.com/runbooks\"",
        ),
    ],
};

static FORMAT: Choice = Choice {
    about: "What the other side takes.",
    words: &[
        ("json", "JSON with every detail."),
        ("slack", "An incoming webhook of Slack, or of what takes the same."),
        ("dingtalk", "A custom robot of DingTalk."),
        ("feishu", "A custom bot of Feishu, or of Lark."),
        ("mail", "Mail through SMTP."),
    ],
    refused: &[],
};

static KINDS: Choice = Choice {
    about: "What an alert can be about.",
    words: &[
        ("not-ready", "A condition of /readyz does not hold."),
        ("late", "Orders are closed late, or are overdue and not closed."),
        ("parked", "Messages were put into the parking lot."),
        ("sweep", "The sweep closed orders that no message came for."),
        ("drift", "The broker differs from the topology file."),
    ],
    refused: &[],
};
