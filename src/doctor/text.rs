//! A diagnosis as a person reads it: the colour is a word, so it needs none.

use std::fmt;

use super::{Checked, Colour, Diagnosis};

/// `1 level`, `2 levels`.
pub(super) fn count<N: Copy + fmt::Display + PartialEq + From<u8>>(
    number: N,
    noun: &str,
) -> String {
    let ending = if number == N::from(1) { "" } else { "s" };
    format!("{number} {noun}{ending}")
}

impl fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.checks.iter().map(|check| check.name.len()).max().unwrap_or_default();
        let mut area = "";
        for Checked { area: of, name, verdict } in &self.checks {
            if area != *of {
                writeln!(f, "{of}")?;
                area = of;
            }
            writeln!(f, "  {}  {name:width$}  {}", verdict.colour, verdict.finding)?;
            if let Some(fix) = &verdict.fix {
                writeln!(f, "  {:5}  {:width$}  fix: {fix}", "", "")?;
            }
        }
        f.write_str(&self.summary)
    }
}

impl fmt::Display for Colour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Green => "green",
            Self::Amber => "amber",
            Self::Red => "RED  ",
        })
    }
}
