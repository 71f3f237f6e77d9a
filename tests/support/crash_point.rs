//! Named moments between a program and its services: a proxy reads the frames of their protocols (PostgreSQL and AMQP 0-9-1, both
//! in plain text), and forwards no frame after the moment. A program that is killed then has died at that moment.

use std::collections::HashMap;

/// The moment after which a proxy forwards no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// The statement of this file in `sql` does not arrive, or the first one of this effect.
    BeforeStatement(&'static str),
    /// The statement has run in a transaction whose COMMIT does not arrive.
    BeforeCommit(&'static str),
    /// The transaction is committed, and the answer does not arrive.
    BeforeCommitted(&'static str),
    /// The first ack of a delivery does not arrive.
    BeforeAck,
    /// The first ack of a delivery is the last frame that arrives.
    AfterAck,
    /// An exchange has routed a message, and its confirm does not arrive; with the names of the connection and the exchange.
    BeforeConfirm(&'static str, &'static str),
    /// The confirm has arrived, and the ack of the delivery does not.
    BeforeAckOfCopy(&'static str, &'static str),
}

impl Point {
    /// Whether the moment is on a connection to the database.
    pub const fn is_of_database(self) -> bool {
        matches!(self, Self::BeforeStatement(_) | Self::BeforeCommit(_) | Self::BeforeCommitted(_))
    }
}

/// A proxy's decision about a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Passes,
    /// The frame passes, and is the confirm for which [`Point::BeforeAckOfCopy`] waits.
    Confirms,
    IsHeld,
    /// The frame passes, and no later one does.
    IsLast,
}

/// The state of one connection.
#[derive(Debug, Default)]
pub struct Conversation {
    protocol: Option<Protocol>,
    /// The file or the effect of each prepared statement.
    statements: HashMap<Vec<u8>, String>,
    /// The statement that ran last.
    running: String,
    commits: bool,
    /// The frame in which the program names its connection.
    opening: String,
    /// The exchange of each channel's last publish.
    exchanges: HashMap<u16, String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    Postgres,
    Amqp,
}

const METHOD_FRAME: u8 = 1;
const CONNECTION_START_OK: (u16, u16) = (10, 11);
const BASIC_PUBLISH: (u16, u16) = (60, 40);
const BASIC_ACK: (u16, u16) = (60, 80);

impl Conversation {
    /// Returns the length of the frame at the beginning of `bytes`, or `None` if it is incomplete.
    pub fn frame(&mut self, from_program: bool, bytes: &[u8]) -> Option<usize> {
        let is_first = self.protocol.is_none();
        let length = match self.protocol {
            // The program sends first: the header of AMQP, or a startup message, which has no type.
            None if bytes.len() < 8 => return None,
            None if bytes.starts_with(b"AMQP") => 8,
            None => number(bytes, 0..4)?,
            Some(Protocol::Postgres) => 1 + number(bytes, 1..5)?,
            Some(Protocol::Amqp) => 8 + number(bytes, 3..7)?,
        };
        if bytes.len() < length {
            return None;
        }
        if is_first {
            assert!(from_program, "a service that speaks first");
            let is_amqp = bytes.starts_with(b"AMQP");
            self.protocol = Some(if is_amqp { Protocol::Amqp } else { Protocol::Postgres });
        }
        Some(length)
    }

    /// Decides about a frame; `confirmed` is true after the confirm of a copy.
    pub fn judge(
        &mut self,
        point: Option<Point>,
        confirmed: bool,
        from_program: bool,
        frame: &[u8],
    ) -> Verdict {
        let is_held = match (self.protocol, from_program) {
            (Some(Protocol::Postgres), true) => self.is_held_of_statements(point, frame),
            (Some(Protocol::Postgres), false) => {
                self.commits && frame[0] == b'C' && frame[5..] == *b"COMMIT\0"
            }
            (Some(Protocol::Amqp), _) => {
                return self.judge_method(point, confirmed, from_program, frame);
            }
            (None, _) => false,
        };
        if is_held { Verdict::IsHeld } else { Verdict::Passes }
    }

    fn is_held_of_statements(&mut self, point: Option<Point>, frame: &[u8]) -> bool {
        let mut texts = frame[5..].split(|byte| *byte == 0);
        match frame[0] {
            b'P' => {
                let (name, sql) = (texts.next().unwrap(), texts.next().unwrap());
                let sql = String::from_utf8_lossy(sql);
                let file = sql.strip_prefix("-- ").and_then(|sql| sql.split([':', ',']).next());
                self.statements.insert(name.to_vec(), file.unwrap_or_default().to_owned());
                false
            }
            b'B' => {
                let statement = self.statements.get(texts.nth(1).unwrap());
                self.running = statement.cloned().unwrap_or_default();
                matches!(point, Some(Point::BeforeStatement(file)) if file == self.running)
            }
            b'Q' if texts.next() == Some(b"COMMIT") => match point {
                Some(Point::BeforeCommit(file)) => file == self.running,
                Some(Point::BeforeCommitted(file)) => {
                    self.commits |= file == self.running;
                    false
                }
                _ => false,
            },
            _ => false,
        }
    }

    fn judge_method(
        &mut self,
        point: Option<Point>,
        confirmed: bool,
        from_program: bool,
        frame: &[u8],
    ) -> Verdict {
        if frame[0] != METHOD_FRAME {
            return Verdict::Passes;
        }
        let short = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
        let (channel, method) = (short(1), (short(7), short(9)));
        match (method, from_program, point) {
            (CONNECTION_START_OK, true, _) => {
                self.opening = String::from_utf8_lossy(frame).into_owned();
                Verdict::Passes
            }
            (BASIC_PUBLISH, true, _) => {
                let length = usize::from(frame[13]);
                let exchange = String::from_utf8_lossy(&frame[14..14 + length]).into_owned();
                self.exchanges.insert(channel, exchange);
                Verdict::Passes
            }
            (BASIC_ACK, true, Some(Point::BeforeAck)) => Verdict::IsHeld,
            (BASIC_ACK, true, Some(Point::AfterAck)) => Verdict::IsLast,
            (BASIC_ACK, true, Some(Point::BeforeAckOfCopy(..))) if confirmed => Verdict::IsHeld,
            (BASIC_ACK, false, Some(Point::BeforeConfirm(name, exchange)))
                if self.publishes(channel, name, exchange) =>
            {
                Verdict::IsHeld
            }
            (BASIC_ACK, false, Some(Point::BeforeAckOfCopy(name, exchange)))
                if self.publishes(channel, name, exchange) =>
            {
                Verdict::Confirms
            }
            _ => Verdict::Passes,
        }
    }

    fn publishes(&self, channel: u16, name: &str, exchange: &str) -> bool {
        let published = self.exchanges.get(&channel).is_some_and(|published| published == exchange);
        published && self.opening.contains(name)
    }
}

fn number(bytes: &[u8], at: std::ops::Range<usize>) -> Option<usize> {
    let number = bytes.get(at)?.try_into().ok()?;
    usize::try_from(u32::from_be_bytes(number)).ok()
}
