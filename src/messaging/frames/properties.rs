//! The properties in a content header.

use std::ops::Range;

use super::cursor::{Cursor, read_u16};
use crate::wire::{self, VALUE_BYTES};

/// The deepest nesting of tables that is passed on; `x-death` has three levels.
const MAX_DEPTH: usize = 32;

/// The positions of the headers in a payload.
#[derive(Debug, Default)]
pub(super) struct Headers {
    /// The header table, without its length.
    pub(super) table: Option<Range<usize>>,
    /// The entries of dead-lettering, in order.
    pub(super) history: Vec<Range<usize>>,
    /// The number of values in all tables and arrays, and the number of values in the history.
    values: usize,
    history_values: usize,
}

impl Headers {
    /// An estimate of the memory, in bytes, that the parsed headers take, with or without the history: a value of one byte
    /// takes dozens.
    pub(super) fn memory(&self, history: bool) -> u64 {
        let mut bytes = self.table.as_ref().map_or(0, ExactSizeIterator::len);
        let mut values = self.values;
        if !history {
            bytes -= self.history.iter().map(ExactSizeIterator::len).sum::<usize>();
            values -= self.history_values;
        }
        u64::try_from(bytes + values * VALUE_BYTES).unwrap_or(u64::MAX)
    }
}

/// Repairs the texts in the payload of a content header. An error is the reason why the header cannot be repaired.
pub(super) fn repair(payload: &mut [u8]) -> Result<Headers, &'static str> {
    /// The properties of class basic, from the highest bit of the flags down.
    const KINDS: [Property; 14] = {
        use Property::{Byte, Table, Text, Timestamp};
        [Text, Text, Table, Byte, Byte, Text, Text, Text, Text, Timestamp, Text, Text, Text, Text]
    };
    const CUT_SHORT: &str = "they are cut short";
    // Class, weight and body size precede the flags.
    let flags = read_u16(payload, 12).ok_or(CUT_SHORT)?;
    if flags & 0b11 != 0 {
        return Err("they have flags that nobody knows");
    }
    let mut at = Cursor::after(payload, 14);
    let mut headers = Headers::default();
    for (bit, kind) in KINDS.iter().enumerate() {
        if flags & (0x8000 >> bit) == 0 {
            continue;
        }
        match kind {
            Property::Text => at.short_text(payload).ok_or(CUT_SHORT)?,
            Property::Byte => at.skip(1).ok_or(CUT_SHORT)?,
            Property::Timestamp => at.skip(8).ok_or(CUT_SHORT)?,
            Property::Table => headers = table(&mut at, payload)?,
        }
    }
    if at.position == at.end { Ok(headers) } else { Err("something follows them") }
}

fn is_of_dead_lettering(name: &[u8]) -> bool {
    std::str::from_utf8(name).is_ok_and(wire::is_of_dead_lettering)
}

enum Property {
    Text,
    Byte,
    Timestamp,
    Table,
}

/// Reads a table and all nested values, without recursion.
fn table(at: &mut Cursor, payload: &mut [u8]) -> Result<Headers, &'static str> {
    const MALFORMED: &str = "their headers cannot be read";
    struct Level {
        end: usize,
        /// Whether the values have names: in a table, not in an array.
        named: bool,
    }
    let end = at.length(payload).ok_or(MALFORMED)?;
    let mut headers = Headers { table: Some(at.position..end), ..Headers::default() };
    let mut levels = vec![Level { end, named: true }];
    // The start of the dead-lettering header that is being read.
    let mut begun: Option<usize> = None;
    while let Some(Level { end, named }) = levels.last() {
        let is_header = levels.len() == 1;
        if let Some(start) = begun.take_if(|_| is_header) {
            headers.history.push(start..at.position);
        }
        if at.position == *end {
            levels.pop();
            continue;
        }
        if *named {
            let start = at.position;
            at.short_text(payload).ok_or(MALFORMED)?;
            if is_header && is_of_dead_lettering(&payload[start + 1..at.position]) {
                begun = Some(start);
            }
        }
        let kind = at.byte(payload).ok_or(MALFORMED)?;
        headers.values += 1;
        headers.history_values += usize::from(begun.is_some());
        match kind {
            b'A' | b'F' => {
                let inner = at.length(payload).filter(|inner| inner <= end).ok_or(MALFORMED)?;
                levels.push(Level { end: inner, named: kind == b'F' });
                if levels.len() > MAX_DEPTH {
                    return Err("their headers are nested too deeply");
                }
            }
            b'S' | b'x' => at.position = at.length(payload).ok_or(MALFORMED)?,
            b'V' => {}
            b't' | b'b' | b'B' => at.skip(1).ok_or(MALFORMED)?,
            b's' | b'U' | b'u' => at.skip(2).ok_or(MALFORMED)?,
            b'I' | b'i' | b'f' => at.skip(4).ok_or(MALFORMED)?,
            b'D' => at.skip(5).ok_or(MALFORMED)?,
            b'L' | b'l' | b'd' | b'T' => at.skip(8).ok_or(MALFORMED)?,
            _ => return Err(MALFORMED),
        }
        if levels.last().is_some_and(|level| at.position > level.end) {
            return Err(MALFORMED);
        }
    }
    Ok(headers)
}
