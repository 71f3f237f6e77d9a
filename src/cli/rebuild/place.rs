//! Where a rebuild has got to.

use std::{fmt, str::FromStr};

use crate::store::overdue::OverdueKey;

/// The last order whose notice is confirmed, with all before it: `unpaid/2026-11-22T10:00:00Z/4711`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) timeout: String,
    pub(super) key: OverdueKey,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.timeout, self.key)
    }
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wanted = |why: &str| {
            format!("{why}: write it as it was printed, like unpaid/2026-11-22T10:00:00Z/4711")
        };
        let (timeout, key) = text.split_once('/').ok_or_else(|| wanted("it has no `/`"))?;
        let key = key.parse().map_err(|error: String| wanted(&error))?;
        Ok(Self { timeout: timeout.to_owned(), key })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_read_again() {
        for text in
            ["unpaid/2026-11-22T10:00:00.123456Z/a/b:c", "t/-infinity/o", "t/2026-11-22T10:00:00Z/"]
        {
            assert_eq!(text.parse::<Place>().unwrap().to_string(), text);
        }
        for text in ["", "unpaid", "unpaid/soon/o", "unpaid/2026-11-22T10:00:00Z"] {
            let error = text.parse::<Place>().unwrap_err();
            assert!(error.contains("as it was printed"), "{text}: {error}");
        }
    }
}
