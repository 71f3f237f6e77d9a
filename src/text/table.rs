//! Reports as a table: what, how much, and a remark.

use std::fmt::{Display, Formatter, Result};

/// Writes one row.
pub(crate) fn row(f: &mut Formatter<'_>, what: &str, value: impl Display, remark: &str) -> Result {
    // Padding works on text only, whatever `value` is.
    let line = format!("{what:<18} {:>10}   {remark}", value.to_string());
    writeln!(f, "{}", line.trim_end())
}
