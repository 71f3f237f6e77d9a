//! Repairs frames of the broker that the AMQP client cannot read.
//!
//! The broker delivers whatever a publisher wrote: text that is not UTF-8, deeply nested tables, or headers that no longer
//! fit into a frame with the broker's own `x-death`. lapin closes the connection on the first and the last, and parses tables
//! recursively until its stack overflows. Such a message would end every session, or the process, and each time count as a
//! delivery of all prefetched messages. So it is repaired before lapin sees it. Bytes that are not UTF-8 become `?`; one
//! header with the reason replaces properties that cannot be repaired. Body and routing key stay, so the order is closed
//! anyway.
//!
//! [`LargeBodies`] drops bodies that are too large for a due notice from deliveries to a worker.

mod cursor;
mod properties;

use super::large_bodies::{LargeBodies, Passage};
use crate::wire::{BODY_LEFT_OUT, MAX_BODY_BYTES, PROPERTIES_DROPPED};
use cursor::{Cursor, read_u16, read_u32};
use properties::Headers;

/// Bytes kept free in a header frame, for the headers that a copy of the message has in addition to its own.
const RESERVE_BYTES: usize = 8 * 1024;
/// Frames are not larger than negotiated; a larger size means that the peer does not use AMQP.
const MAX_FRAME_BYTES: usize = 64 * 1024 * 1024;
/// The reason for dropping the headers of a due notice that take more memory than its body may.
const TOO_MUCH: &str = "their headers take too much memory";

/// Type, channel and size before the payload.
const PREFIX_BYTES: usize = 7;
const FRAME_END: u8 = 0xCE;
const METHOD: u8 = 1;
/// Class and method in the payload.
const BASIC_DELIVER: [u8; 4] = [0, 60, 0, 60];
const HEADER: u8 = 2;

/// Converts the broker's bytes, piece by piece, into whole frames.
#[derive(Debug)]
pub struct FrameRepair {
    input: Vec<u8>,
    frame_max: usize,
    /// Whether the bytes are not AMQP; they are passed on unchanged, and the client reports the error.
    foreign: bool,
    large: LargeBodies,
    /// Whether the broker has sent a method other than a delivery since the last [`take_answers`](Self::take_answers).
    answers: bool,
}

/// The headers that are passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kept {
    All,
    /// The publisher's headers, without the history of dead-lettering: it is much larger than the other headers, and the client
    /// makes dozens of small allocations for it.
    Publishers,
    /// All headers of a returned message, without reserved bytes, because no copy of it is published.
    Own,
}

impl FrameRepair {
    /// `frame_max`: the largest frame that the client requests, in bytes (0: no limit). A smaller limit of the broker wins.
    pub fn new(frame_max: u32) -> Self {
        let frame_max = match usize::try_from(frame_max) {
            Ok(frame_max @ 1..) => frame_max,
            _ => usize::MAX,
        };
        Self {
            input: Vec::new(),
            frame_max,
            foreign: false,
            large: LargeBodies::default(),
            answers: false,
        }
    }

    /// Whether there was a method other than a delivery since the last call.
    pub(super) fn take_answers(&mut self) -> bool {
        std::mem::take(&mut self.answers)
    }

    /// Takes the next bytes, and appends the completed frames to `output`.
    pub fn feed(&mut self, bytes: &[u8], output: &mut Vec<u8>) {
        self.input.extend_from_slice(bytes);
        let mut done = 0;
        while let Some(size) = self.frame_at(done) {
            let mut frame = self.input[done..done + size].to_vec();
            done += size;
            self.answers |= is_answer(&frame);
            let end = frame.len() - 1;
            let headers = match frame[0] {
                HEADER => properties::repair(&mut frame[PREFIX_BYTES..end]),
                _ => Ok(Headers::default()),
            };
            let memory = headers.as_ref().map_or(0, |headers| headers.memory(true));
            match self.large.pass(&frame, memory) {
                Passage::Whole => self.repair(&mut frame, &headers, Kept::All),
                Passage::Notice => self.repair(&mut frame, &headers, Kept::Publishers),
                Passage::Returned => self.repair(&mut frame, &headers, Kept::Own),
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

    /// The size of the frame that begins at `start`, if it is complete.
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

    fn repair(
        &mut self,
        frame: &mut Vec<u8>,
        repaired: &Result<Headers, &'static str>,
        kept: Kept,
    ) {
        let end = frame.len() - 1;
        match frame[0] {
            METHOD => self.method(&mut frame[PREFIX_BYTES..end]),
            HEADER => {
                let mut reason = repaired.as_ref().err().copied();
                if let (Ok(headers), Kept::Publishers) = (repaired, kept) {
                    leave_out_history(frame, headers);
                    reason = (headers.memory(false) > MAX_BODY_BYTES as u64).then_some(TOO_MUCH);
                }
                // Some brokers are configured with frames of 8 KiB.
                let reserve = RESERVE_BYTES.min(self.frame_max / 4);
                let reserve = if kept == Kept::Own { 0 } else { reserve };
                let too_long = frame.len() + reserve > self.frame_max;
                if let Some(reason) = reason.or(too_long.then_some("they fill a frame")) {
                    replace_properties(frame, PROPERTIES_DROPPED, &format!("dropped: {reason}"));
                }
            }
            _ => {}
        }
    }

    /// Repairs the methods that contain text of other clients.
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

/// Removes the headers of dead-lettering from a content header.
fn leave_out_history(frame: &mut Vec<u8>, headers: &Headers) {
    let Some(table) = &headers.table else { return };
    for entries in headers.history.iter().rev() {
        frame.drain(PREFIX_BYTES + entries.start..PREFIX_BYTES + entries.end);
    }
    let left_out: usize = headers.history.iter().map(ExactSizeIterator::len).sum();
    let start = PREFIX_BYTES + table.start;
    frame[start - 4..start].copy_from_slice(&as_length(table.len() - left_out));
    let payload = frame.len() - PREFIX_BYTES - 1;
    frame[3..PREFIX_BYTES].copy_from_slice(&as_length(payload));
}

/// Sets the body size to 0; the only property is the original size.
fn leave_out_body(frame: &mut Vec<u8>, size: u64) {
    replace_properties(frame, BODY_LEFT_OUT, &size.to_string());
    frame[PREFIX_BYTES + 4..PREFIX_BYTES + 12].fill(0);
}

/// Keeps class, weight and body size, and replaces all properties by one header.
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
    as_length(bytes.len())
}

fn as_length(bytes: usize) -> [u8; 4] {
    u32::try_from(bytes).unwrap_or_default().to_be_bytes()
}

/// Whether a caller may wait for the frame: a method that is not a delivery.
fn is_answer(frame: &[u8]) -> bool {
    frame.first() == Some(&METHOD) && !frame[PREFIX_BYTES..].starts_with(&BASIC_DELIVER)
}
