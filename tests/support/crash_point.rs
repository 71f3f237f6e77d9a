//! Moments between a program and its services, by name: a proxy reads the frames of their protocols (PostgreSQL and AMQP 0-9-1,
//! both in plain text), and holds everything back from there on. A program that is killed then has died at that moment.

use std::collections::HashMap;

/// From where on a proxy holds everything back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// The statement of this file in `sql` does not arrive, or the first one of this effect.
    BeforeStatement(&'static str),
    /// It has run in a transaction whose COMMIT does not arrive.
    BeforeCommit(&'static str),
    /// The transaction is committed, and the answer does not arrive.
    BeforeCommitted(&'static str),
    /// The first ack of a delivery does not arrive.
    BeforeAck,
    /// It is the last that arrives.
    AfterAck,
    /// A message is where an exchange has routed it, and its confirm does not arrive; by the name of the connection and the exchange.
    BeforeConfirm(&'static str, &'static str),
    /// The confirm has arrived, and no ack of a delivery does.
    BeforeAckOfCopy(&'static str, &'static str),
}

impl Point {
    /// Whether it is between program and database.
    pub const fn is_of_database(self) -> bool {
        matches!(self, Self::BeforeStatement(_) | Self::BeforeCommit(_) | Self::BeforeCommitted(_))
    }
}

/// What a proxy does with a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Passes,
    /// It passes, and is what [`Point::BeforeAckOfCopy`] waits for.
    Confirms,
    IsHeld,
    /// It passes, and nothing behind it.
    IsLast,
}

/// What one connection has said so far.
#[derive(Debug, Default)]
pub struct Conversation {
    protocol: Option<Protocol>,
    /// The file of each prepared statement, or the effect.
    statements: HashMap<Vec<u8>, String>,
    /// The statement that was run last.
    running: String,
    commits: bool,
    /// What the program has said of itself, with the name of the connection.
    opening: String,
    /// To which exchange each channel has published last.
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
    /// The length of the frame at the beginning of `bytes`, if all of it is there.
    pub fn frame(&mut self, from_program: bool, bytes: &[u8]) -> Option<usize> {
        let is_first = self.protocol.is_none();
        let length = match self.protocol {
            // The program speaks first: the header of AMQP, or a startup message, which has no type.
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

    /// What becomes of a frame; `confirmed` once a copy was confirmed.
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
