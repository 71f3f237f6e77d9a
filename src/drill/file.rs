//! A file of real orders.

use std::{collections::HashSet, io, time::Duration};

use csv::{ReaderBuilder, StringRecord, Trim};
use jiff::Timestamp;

use crate::{order::OrderIdError, order_service::run_id::RunId};

/// The first line of an orders file.
const HEADER: [&str; 3] = ["order_id", "purchased_at", "approved_at"];

/// An order as it really was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RealOrder {
    /// Its id in the file.
    pub id: String,
    /// From purchase to payment; `None` where it was never paid.
    pub lag: Option<Duration>,
}

/// Reads a file of `order_id,purchased_at,approved_at`, times as RFC 3339, `approved_at` empty where never paid.
///
/// # Errors
/// Everything that is wrong with it, a line each, with the number of the line in the file.
pub(crate) fn read(input: impl io::Read) -> Result<Vec<RealOrder>, Vec<String>> {
    let mut reader = ReaderBuilder::new().trim(Trim::All).from_reader(input);
    let header = reader.headers().map_err(|error| vec![unreadable(&error)])?;
    if header != HEADER.as_slice() {
        let found = header.iter().collect::<Vec<_>>().join(",");
        return Err(vec![format!("line 1: the header is `{found}`, not `{}`", HEADER.join(","))]);
    }
    let mut seen = HashSet::new();
    let mut orders = Vec::new();
    let mut findings = Vec::new();
    for record in reader.records() {
        let record = match record {
            Ok(record) => record,
            Err(error) => {
                findings.push(unreadable(&error));
                continue;
            }
        };
        let line = record.position().map_or(0, csv::Position::line);
        match order(&record) {
            Ok(order) if !seen.insert(order.id.clone()) => {
                findings.push(format!("line {line}: order `{}` comes a second time", order.id));
            }
            Ok(order) => orders.push(order),
            Err(reason) => findings.push(format!("line {line}: {reason}")),
        }
    }
    if orders.is_empty() && findings.is_empty() {
        findings.push("line 2: there is no order".to_owned());
    }
    if findings.is_empty() { Ok(orders) } else { Err(findings) }
}

fn order(record: &StringRecord) -> Result<RealOrder, String> {
    // The reader has made sure that there are three fields.
    let field = |index| record.get(index).unwrap_or_default();
    let id = field(0);
    // As it will be in the database: with a run in front it is longer.
    RunId::new("drill", 0).order_id(id).map_err(|error| error.to_string())?;
    if id.is_empty() {
        return Err(OrderIdError::Empty.to_string());
    }
    let purchased = time(HEADER[1], field(1))?;
    if field(2).is_empty() {
        return Ok(RealOrder { id: id.to_owned(), lag: None });
    }
    let approved = time(HEADER[2], field(2))?;
    let lag = Duration::try_from(approved.duration_since(purchased))
        .map_err(|_| format!("approved_at `{}` is before purchased_at `{}`", field(2), field(1)))?;
    Ok(RealOrder { id: id.to_owned(), lag: Some(lag) })
}

fn time(column: &str, text: &str) -> Result<Timestamp, String> {
    text.parse().map_err(|_| {
        format!("{column} `{text}` is not a time; write it like 2017-10-02T10:56:00Z (RFC 3339)")
    })
}

fn unreadable(error: &csv::Error) -> String {
    match error.kind() {
        csv::ErrorKind::UnequalLengths { pos: Some(pos), len, .. } => {
            format!("line {}: it has {len} fields, not 3", pos.line())
        }
        csv::ErrorKind::Utf8 { pos: Some(pos), .. } => {
            format!("line {}: it is not UTF-8", pos.line())
        }
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_or_every_bad_line_is_named() {
        let good = "order_id,purchased_at,approved_at\na,2017-01-01T00:00:00Z,2017-01-01T00:30:00Z\nb,2017-01-01T00:00:00Z,\n";
        let orders = read(good.as_bytes()).unwrap();
        assert_eq!(orders[0].lag, Some(Duration::from_mins(30)));
        assert_eq!(orders[1].lag, None);
        let bad = "order_id,purchased_at,approved_at\n,2017-01-01T00:00:00Z,\na,yesterday,\nb,2017-01-02T00:00:00Z,2017-01-01T00:00:00Z\nc,1\nd,2017-01-01T00:00:00Z,\nd,2017-01-01T00:00:00Z,\n";
        let findings = read(bad.as_bytes()).unwrap_err();
        let lines: Vec<&str> = findings.iter().filter_map(|text| text.split(':').next()).collect();
        assert_eq!(lines, ["line 2", "line 3", "line 4", "line 5", "line 7"]);
        assert!(read("id,when\n".as_bytes()).unwrap_err()[0].starts_with("line 1: the header is"));
        assert_eq!(read("order_id,purchased_at,approved_at\n".as_bytes()).unwrap_err().len(), 1);
    }
}
