//! Bodies that are too large for a due notice, or for a message that is passed on, left out of what the broker delivers to a worker.
//!
//! RabbitMQ has no prefetch by bytes: a thousand bodies of 15 MiB would all be delivered at once, and kept in memory
//! until their turn comes. So they are left out frame by frame as they arrive; a header says how large the body was. Headers
//! may take no more than a body: 120 KiB of small values are megabytes once they are read.

use std::collections::BTreeMap;

use crate::wire::MAX_BODY_BYTES;

/// The tag of our consumers of due notices; it is unique only in its channel. They get no larger bodies than a due
/// notice may have, and no history of dead-lettering.
pub const CONSUMER_TAG: &str = "overdue";
/// The tag of our consumers that show how messages came to where they are: with the history, without larger bodies.
pub const HISTORY_TAG: &str = "overdue-history";
/// The tag of our consumers that pass messages on which may be large: with the history, up to [`MAX_PASSED_BYTES`].
pub const LARGE_TAG: &str = "overdue-large";
/// The largest body of somebody else's message that is passed on.
pub const MAX_PASSED_BYTES: usize = 1024 * 1024;
/// By which a plan knows our consumers from those of somebody else.
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

/// What a channel's next frames belong to; nothing about channels where no delivery is on its way.
#[derive(Debug, Default)]
pub(super) struct LargeBodies {
    channels: BTreeMap<[u8; 2], Content>,
}

#[derive(Debug)]
enum Content {
    /// Its header comes next, with the history of the message or without it, and then a body up to a size.
    Delivered { history: bool, most: usize },
    /// The header of what could not be routed comes next.
    Returned,
    /// So many bytes of a body that is left out are still to come.
    LeftOut(u64),
}

/// What becomes of a frame.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Passage {
    /// It is passed on.
    Whole,
    /// A content header for a consumer of notices, which does not look at how the message came.
    Notice,
    /// The content header of a message of our own, which comes back.
    Returned,
    /// A content header whose body is left out, because that or the headers have so many bytes.
    WithoutBody(u64),
    /// A part of a body that is left out.
    Nothing,
}

impl LargeBodies {
    /// Takes the frames of a connection one after the other, with how many bytes of memory the headers in one take.
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

/// Of the consumer that a message is delivered to.
fn tag(method: &[u8]) -> Option<&[u8]> {
    let (length, rest) = method.strip_prefix(&DELIVER)?.split_first()?;
    rest.get(..usize::from(*length))
}

/// Of a content header: class and weight come first.
fn body_size(header: &[u8]) -> Option<u64> {
    header.get(4..12)?.try_into().ok().map(u64::from_be_bytes)
}
