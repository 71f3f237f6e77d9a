//! A report as a person reads it, without colour.

use std::fmt;

use super::{Report, Severity, report::Finding};

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for finding in &self.findings {
            writeln!(f, "{finding}")?;
        }
        if let Some(probe) = &self.probe {
            writeln!(f, "{probe}")?;
        }
        f.write_str(&self.summary)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let drift = &self.drift;
        writeln!(f, "{}  {}: {}", drift.severity, drift.object, drift.what)?;
        writeln!(f, "        why:  {}", drift.why)?;
        writeln!(f, "        next: {}", self.next)
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Danger => "danger",
            Self::Drift => "drift ",
            Self::Note => "note  ",
        })
    }
}
