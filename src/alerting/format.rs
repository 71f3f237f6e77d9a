//! Where messages go, as far as it decides what they look like.

use serde::{Deserialize, Serialize};

/// What the other side takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// JSON with every detail, for a program of one's own.
    Json,
    /// An incoming webhook of Slack, or of what takes the same.
    Slack,
    /// A custom robot of `DingTalk`.
    DingTalk,
    /// A custom bot of Feishu, or of Lark.
    Feishu,
    /// Mail through SMTP.
    Mail,
}

impl Format {
    /// As the settings have it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Slack => "slack",
            Self::DingTalk => "dingtalk",
            Self::Feishu => "feishu",
            Self::Mail => "mail",
        }
    }

    /// The schemes that its URL may have.
    #[must_use]
    pub const fn schemes(self) -> [&'static str; 2] {
        match self {
            Self::Mail => ["smtps", "smtp"],
            _ => ["https", "http"],
        }
    }

    /// Whether messages can be signed with a shared secret.
    #[must_use]
    pub const fn is_signed(self) -> bool {
        matches!(self, Self::Json | Self::DingTalk | Self::Feishu)
    }
}
