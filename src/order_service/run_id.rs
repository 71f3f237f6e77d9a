//! The id of a run, and the names that it gives to orders and SKUs.

use std::fmt;

use crate::order::{OrderId, OrderIdError};

/// The beginning of every id and SKU of a run, e.g. `demo-3f9a1c2b`: a kind, and eight hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RunId(String);

impl RunId {
    /// The run `number` of a kind: `demo` or `drill`.
    #[must_use]
    pub(crate) fn new(kind: &str, number: u32) -> Self {
        Self(format!("{kind}-{number:08x}"))
    }

    /// Reads the id of a demo or a drill as these print it.
    ///
    /// # Errors
    /// The text is not such an id; the error shows one.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let number = text.strip_prefix("demo-").or_else(|| text.strip_prefix("drill-"));
        let is_digit = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
        match number {
            Some(number) if number.len() == 8 && number.chars().all(is_digit) => {
                Ok(Self(text.to_owned()))
            }
            _ => Err("a run id looks like `demo-3f9a1c2b`".to_owned()),
        }
    }

    /// As text; also the prefix of its order ids and SKUs.
    #[must_use]
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// The SKU with this number: the run, `-sku-` and at least two digits.
    #[must_use]
    pub(crate) fn sku(&self, index: usize) -> String {
        format!("{}-sku-{index:02}", self.0)
    }

    /// The id of an order of this run: the run, `-` and `name`.
    ///
    /// # Errors
    /// It is too long, or `name` has white space or control characters.
    pub(crate) fn order_id(&self, name: &str) -> Result<OrderId, OrderIdError> {
        OrderId::parse(&format!("{}-{name}", self.0))
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_id_is_read_back() {
        let run = RunId::new("drill", 0x3f9a_1c2b);
        assert_eq!(RunId::parse("drill-3f9a1c2b"), Ok(run));
        for wrong in ["demo-", "demo-3f9a1c2", "demo-3F9A1C2B", "x-3f9a1c2b", "demo-3f9a1c2b-1", ""]
        {
            assert!(RunId::parse(wrong).is_err(), "{wrong}");
        }
    }
}
