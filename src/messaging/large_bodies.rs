//! Drops bodies that are too large for a due notice, or for a message to pass on, from the deliveries to a worker.
//!
//! RabbitMQ has no prefetch by bytes: it would deliver a thousand bodies of 15 MiB at once, and the worker would keep them in
//! memory. So bodies are dropped frame by frame as they arrive; a header has the size of the body. Headers may not be larger than a
//! body: 120 KiB of small values take megabytes after parsing.

use std::collections::BTreeMap;

use crate::wire::MAX_BODY_BYTES;

/// The tag of consumers of due notices; it is unique only in its channel. These consumers get no history of dead-lettering, and
/// no bodies that are too large for a due notice.
pub const CONSUMER_TAG: &str = "overdue";
/// The tag of consumers that show the history of messages; they get no bodies that are too large for a due notice.
pub const HISTORY_TAG: &str = "overdue-history";
/// The tag of consumers that pass on large messages: with the history, and with bodies up to [`MAX_PASSED_BYTES`].
pub const LARGE_TAG: &str = "overdue-large";
/// The largest body of a foreign message that is passed on.
pub const MAX_PASSED_BYTES: usize = 1024 * 1024;
/// The tags by which a plan recognises consumers of `overdue`.
pub(crate) const OUR_TAGS: [&str; 3] = [CONSUMER_TAG, HISTORY_TAG, LARGE_TAG];

const METHOD: u8 = 1;
const HEADER: u8 = 2;
const BODY: u8 = 3;
/// Type, channel and size before the payload.
const PREFIX_BYTES: usize = 7;
/// Class basic, method deliver.
const DELIVER: [u8; 4] = [0, 60, 0, 60];
/// Class basic, method return.
const RETURN: [u8; 4] = [0, 60, 0, 50];

/// The expected content per channel; empty for channels without a delivery in progress.
#[derive(Debug, Default)]
pub(super) struct LargeBodies {
    channels: BTreeMap<[u8; 2], Content>,
}

#[derive(Debug)]
enum Content {
    /// The header of a delivery is next, with or without the history, then a body of at most `most` bytes.
    Delivered { history: bool, most: usize },
    /// The header of an unroutable message is next.
    Returned,
    /// The number of bytes of a dropped body that are still expected.
    LeftOut(u64),
}

/// How a frame is handled.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Passage {
    /// The frame is passed on.
    Whole,
    /// A content header for a consumer of notices, which does not read the history.
    Notice,
    /// The content header of a returned message.
    Returned,
    /// A content header whose body is dropped; the size in bytes of body or headers is the reason.
    WithoutBody(u64),
    /// A part of a dropped body.
    Nothing,
}

impl LargeBodies {
    /// Handles the next frame of a connection; `headers`: the memory of the headers in it, in bytes.
    pub(super) fn pass(&mut self, frame: &[u8], headers: u64) -> Passage {
        let (kind, channel) = (frame[0], [frame[1], frame[2]]);
        let payload = &frame[PREFIX_BYTES..frame.len() - 1];
        match (kind, self.channels.remove(&channel)) {
            (METHOD, _) if payload.starts_with(&RETURN) => {
                self.channels.insert(channel, Content::Returned);
                Passage::Whole
            }
            (HEADER, Some(Content::Returned)) => Passage::Returned,
            (METHOD, _) => {
                let (history, most) = match tag(payload) {
                    Some(tag) if tag == CONSUMER_TAG.as_bytes() => (false, MAX_BODY_BYTES),
                    Some(tag) if tag == HISTORY_TAG.as_bytes() => (true, MAX_BODY_BYTES),
                    Some(tag) if tag == LARGE_TAG.as_bytes() => (true, MAX_PASSED_BYTES),
                    _ => return Passage::Whole,
                };
                self.channels.insert(channel, Content::Delivered { history, most });
                Passage::Whole
            }
            (HEADER, Some(Content::Delivered { history, most })) => {
                let Some(size) = body_size(payload) else { return Passage::Whole };
                let most = u64::try_from(most).unwrap_or(u64::MAX);
                let larger = if history { size.max(headers) } else { size };
                if larger <= most {
                    return if history { Passage::Whole } else { Passage::Notice };
                }
                if size > 0 {
                    self.channels.insert(channel, Content::LeftOut(size));
                }
                Passage::WithoutBody(larger)
            }
            (BODY, Some(Content::LeftOut(left))) => {
                let part = u64::try_from(payload.len()).unwrap_or(u64::MAX);
                if let Some(left @ 1..) = left.checked_sub(part) {
                    self.channels.insert(channel, Content::LeftOut(left));
                }
                Passage::Nothing
            }
            _ => Passage::Whole,
        }
    }
}

/// The tag of the consumer that a message is delivered to.
fn tag(method: &[u8]) -> Option<&[u8]> {
    let (length, rest) = method.strip_prefix(&DELIVER)?.split_first()?;
    rest.get(..usize::from(*length))
}

/// The body size of a content header, after class and weight.
fn body_size(header: &[u8]) -> Option<u64> {
    header.get(4..12)?.try_into().ok().map(u64::from_be_bytes)
}
