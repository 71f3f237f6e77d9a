//! Settings of the web page.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The web page for operators on call.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct UiSettings {
    /// Name of this environment, on every page.
    #[schemars(example = &"production")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Colour of the header of every page.
    pub color: Color,
    /// Names by which proxies reach the page, comma-separated, in addition to `localhost` and the address of the page.
    #[schemars(example = &"overdue.example.com")]
    pub hosts: String,
}

/// Colours that contrast with white text.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, Serialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Color {
    /// Production, by custom.
    Red,
    /// Amber.
    Orange,
    /// Tests, by custom.
    Green,
    /// Blue.
    Blue,
    /// Violet.
    Purple,
    /// No colour.
    #[default]
    Gray,
}

impl UiSettings {
    /// Whether a proxy reaches the page by this name, with or without a port.
    pub(crate) fn is_listed(&self, name: &str) -> bool {
        let mut listed = self.hosts.split(',').map(str::trim);
        !name.is_empty() && listed.any(|listed| listed.eq_ignore_ascii_case(name))
    }
}

impl Color {
    /// Suffix of the class in the style sheet.
    pub(crate) const fn class(self) -> &'static str {
        match self {
            Self::Red => "red",
            Self::Orange => "orange",
            Self::Green => "green",
            Self::Blue => "blue",
            Self::Purple => "purple",
            Self::Gray => "gray",
        }
    }
}
