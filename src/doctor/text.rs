//! A diagnosis as a person reads it: the colour is a word, so it needs none.

use std::fmt;

use super::{Checked, Colour, Diagnosis};

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
