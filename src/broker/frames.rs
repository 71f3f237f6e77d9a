//! Frames of the broker, made readable for the AMQP client.
//!
//! The broker hands out what a publisher wrote: text that is not UTF-8, tables in tables in tables, headers that with
//! its own `x-death` no longer fit into a frame. lapin ends the connection over the first and the last, and reads
//! tables recursively until its stack ends. One such message would end every session, or the process, and each time
//! count as a delivery of everything prefetched with it. So it is repaired before lapin sees it: bytes that are not
//! UTF-8 become `?`, and properties that cannot be repaired give way to one header that says so. Body and routing key
//! stay, so the order is closed all the same.
//!
//! Bodies that are too large for a due notice are left out of what is delivered to a worker: [`LargeBodies`].

use super::large_bodies::{LargeBodies, Passage};
use crate::wire::BODY_LEFT_OUT;

/// Tables within tables that are passed on; `x-death` has three.
const MAX_DEPTH: usize = 32;
/// Left free in a header frame, for what a copy of the message has to carry beside its own headers.
const RESERVE_BYTES: usize = 8 * 1024;
/// Frames are not larger than what was negotiated, 128 KiB; more than this is not AMQP.
const MAX_FRAME_BYTES: usize = 64 * 1024 * 1024;
/// Stands in the place of properties that could not be repaired; its value says why.
pub const DROPPED: &str = "x-dropped-properties";

/// Type, channel and size before the payload.
const PREFIX_BYTES: usize = 7;
const FRAME_END: u8 = 0xCE;
const METHOD: u8 = 1;
const HEADER: u8 = 2;

/// Takes what the broker sends, piece by piece, and gives it on in whole frames.
#[derive(Debug)]
pub struct FrameRepair {
    input: Vec<u8>,
    frame_max: usize,
    /// What comes is not AMQP; it is passed on as it is, the client says what is wrong.
    foreign: bool,
    large: LargeBodies,
}

impl FrameRepair {
    /// For a connection that asks for frames of at most `frame_max` bytes (0: no limit). The broker may ask for
    /// less, and that is followed.
    #[must_use]
    pub fn new(frame_max: u32) -> Self {
        let frame_max = match usize::try_from(frame_max) {
            Ok(frame_max @ 1..) => frame_max,
            _ => usize::MAX,
        };
        Self { input: Vec::new(), frame_max, foreign: false, large: LargeBodies::default() }
    }

    /// Takes the next bytes and appends to `output` the frames that they complete.
    pub fn feed(&mut self, bytes: &[u8], output: &mut Vec<u8>) {
        self.input.extend_from_slice(bytes);
        let mut done = 0;
        while let Some(size) = self.frame_at(done) {
            let mut frame = self.input[done..done + size].to_vec();
            done += size;
            match self.large.pass(&frame) {
                Passage::Whole => self.repair(&mut frame),
                Passage::WithoutBody(size) => leave_out_body(&mut frame, size),
                Passage::Nothing => continue,
            }
            output.append(&mut frame);
        }
        if self.foreign {
            output.extend_from_slice(&self.input[done..]);
            done = self.input.len();
        }
        self.input.drain(..done);
    }

    /// The size of the frame that begins at `start`, where it is complete.
    fn frame_at(&mut self, start: usize) -> Option<usize> {
        let rest = &self.input[start..];
        let kind = *rest.first()?;
        if self.foreign || !matches!(kind, METHOD | HEADER | 3 | 8) {
            self.foreign = true;
            return None;
        }
        let size = read_u32(rest, 3)? + PREFIX_BYTES + 1;
        if size > MAX_FRAME_BYTES || rest.get(size - 1).is_some_and(|end| *end != FRAME_END) {
            self.foreign = true;
            return None;
        }
        (rest.len() >= size).then_some(size)
    }

    fn repair(&mut self, frame: &mut Vec<u8>) {
        let end = frame.len() - 1;
        match frame[0] {
            METHOD => self.method(&mut frame[PREFIX_BYTES..end]),
            HEADER => {
                let too_long = frame.len() + RESERVE_BYTES > self.frame_max;
                let repaired = properties(&mut frame[PREFIX_BYTES..end]);
                let reason = if too_long { Some("they fill a frame") } else { repaired.err() };
                if let Some(reason) = reason {
                    replace_properties(frame, DROPPED, &format!("dropped: {reason}"));
                }
            }
            _ => {}
        }
    }

    /// Only the methods in which the broker passes on a text of somebody else.
    fn method(&mut self, payload: &mut [u8]) {
        let mut at = Cursor::after(payload, 4);
        let _malformed = match (read_u16(payload, 0), read_u16(payload, 2)) {
            // connection.tune: channel-max, frame-max
            (Some(10), Some(30)) => {
                if let Some(offered @ 1..) = read_u32(payload, 6) {
                    self.frame_max = self.frame_max.min(offered);
                }
                None
            }
            // connection.close and channel.close: code, text
            (Some(10), Some(50)) | (Some(20), Some(40)) => {
                at.skip(2).and_then(|()| at.short_text(payload))
            }
            // basic.return: code, text, exchange, routing key
            (Some(60), Some(50)) => at.skip(2).and_then(|()| at.short_texts(payload, 3)),
            // basic.deliver: consumer tag, delivery tag, redelivered, exchange, routing key
            (Some(60), Some(60)) => at
                .short_text(payload)
                .and_then(|()| at.skip(9))
                .and_then(|()| at.short_texts(payload, 2)),
            // basic.get-ok: delivery tag, redelivered, exchange, routing key
            (Some(60), Some(71)) => at.skip(9).and_then(|()| at.short_texts(payload, 2)),
            _ => None,
        };
    }
}

/// Repairs the texts in the payload of a content header; the error says why that is not enough.
fn properties(payload: &mut [u8]) -> Result<(), &'static str> {
    /// The properties of class basic, from the highest bit of the flags down.
    const KINDS: [Property; 14] = {
        use Property::{Byte, Table, Text, Timestamp};
        [Text, Text, Table, Byte, Byte, Text, Text, Text, Text, Timestamp, Text, Text, Text, Text]
    };
    const CUT_SHORT: &str = "they are cut short";
    // Class, weight and body size come first.
    let flags = read_u16(payload, 12).ok_or(CUT_SHORT)?;
    if flags & 0b11 != 0 {
        return Err("they have flags that nobody knows");
    }
    let mut at = Cursor::after(payload, 14);
    for (bit, kind) in KINDS.iter().enumerate() {
        if flags & (0x8000 >> bit) == 0 {
            continue;
        }
        match kind {
            Property::Text => at.short_text(payload).ok_or(CUT_SHORT)?,
            Property::Byte => at.skip(1).ok_or(CUT_SHORT)?,
            Property::Timestamp => at.skip(8).ok_or(CUT_SHORT)?,
            Property::Table => table(&mut at, payload)?,
        }
    }
    if at.position == at.end { Ok(()) } else { Err("something follows them") }
}

enum Property {
    Text,
    Byte,
    Timestamp,
    Table,
}

/// Walks a table and everything in it, without recursion.
fn table(at: &mut Cursor, payload: &mut [u8]) -> Result<(), &'static str> {
    const MALFORMED: &str = "their headers cannot be read";
    struct Level {
        end: usize,
        /// A table has names, an array has none.
        named: bool,
    }
    let mut levels = vec![Level { end: at.length(payload).ok_or(MALFORMED)?, named: true }];
    while let Some(Level { end, named }) = levels.last() {
        if at.position == *end {
            levels.pop();
            continue;
        }
        if *named {
            at.short_text(payload).ok_or(MALFORMED)?;
        }
        let kind = at.byte(payload).ok_or(MALFORMED)?;
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
    Ok(())
}

/// A content header without a body, and with its size as the only property.
fn leave_out_body(frame: &mut Vec<u8>, size: u64) {
    replace_properties(frame, BODY_LEFT_OUT, &size.to_string());
    frame[PREFIX_BYTES + 4..PREFIX_BYTES + 12].fill(0);
}

/// Class, weight and body size stay; of the properties only one header is left.
fn replace_properties(frame: &mut Vec<u8>, header: &str, value: &str) {
    const HEADERS_ONLY: u16 = 0x2000;
    let fixed = (PREFIX_BYTES + 12).min(frame.len() - 1);
    frame.truncate(fixed);
    frame.resize(PREFIX_BYTES + 12, 0);
    let mut entry = short(header);
    entry.push(b'S');
    entry.extend(length_of(value.as_bytes()));
    entry.extend_from_slice(value.as_bytes());
    frame.extend(HEADERS_ONLY.to_be_bytes());
    frame.extend(length_of(&entry));
    frame.extend(entry);
    let size = length_of(&frame[PREFIX_BYTES..]);
    frame[3..PREFIX_BYTES].copy_from_slice(&size);
    frame.push(FRAME_END);
}

fn short(text: &str) -> Vec<u8> {
    let length = u8::try_from(text.len()).unwrap_or_default();
    std::iter::once(length).chain(text.bytes()).collect()
}

fn length_of(bytes: &[u8]) -> [u8; 4] {
    u32::try_from(bytes.len()).unwrap_or_default().to_be_bytes()
}

fn read_u16(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2)?.try_into().ok().map(u16::from_be_bytes)
}

fn read_u32(bytes: &[u8], at: usize) -> Option<usize> {
    let number = bytes.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes)?;
    usize::try_from(number).ok()
}

/// A place in a payload; every step says whether it was possible.
struct Cursor {
    position: usize,
    end: usize,
}

impl Cursor {
    const fn after(payload: &[u8], position: usize) -> Self {
        Self { position, end: payload.len() }
    }

    fn skip(&mut self, bytes: usize) -> Option<()> {
        self.position = self.position.checked_add(bytes).filter(|next| *next <= self.end)?;
        Some(())
    }

    fn byte(&mut self, payload: &[u8]) -> Option<u8> {
        let byte = *payload.get(self.position)?;
        self.skip(1)?;
        Some(byte)
    }

    /// Reads a length of four bytes; the place where what it counts ends.
    fn length(&mut self, payload: &[u8]) -> Option<usize> {
        let length = read_u32(payload, self.position)?;
        self.skip(4)?;
        self.position.checked_add(length).filter(|end| *end <= self.end)
    }

    /// A short string; each byte of it that is not UTF-8 becomes `?`.
    fn short_text(&mut self, payload: &mut [u8]) -> Option<()> {
        let length = usize::from(self.byte(payload)?);
        let start = self.position;
        self.skip(length)?;
        let text = payload.get_mut(start..start + length)?;
        let mut checked = 0;
        while let Err(error) = std::str::from_utf8(&text[checked..]) {
            checked += error.valid_up_to();
            text[checked] = b'?';
        }
        Some(())
    }

    fn short_texts(&mut self, payload: &mut [u8], count: usize) -> Option<()> {
        (0..count).try_for_each(|_| self.short_text(payload))
    }
}
