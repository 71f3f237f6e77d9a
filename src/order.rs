//! Order ids, and the database's answers about orders.

use std::{
    borrow::Cow,
    collections::{BTreeSet, HashMap, HashSet},
    fmt,
    time::Duration,
};

use serde::Serialize;

/// Longer ids are refused. An id with `@` and a deadline, or with `#` and a delivery tag, becomes a `message-id`, which is a
/// short string of at most 255 bytes.
pub const MAX_ORDER_ID_BYTES: usize = 200;

/// The id of an order, as the order service writes it: 1 to 200 bytes, no white space, no control characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct OrderId(Box<str>);

impl OrderId {
    /// Parses an order id.
    ///
    /// # Errors
    /// Empty, longer than [`MAX_ORDER_ID_BYTES`], or with white space or control characters
    /// (PostgreSQL's `text` takes no NUL).
    pub fn parse(text: &str) -> Result<Self, OrderIdError> {
        if text.is_empty() {
            return Err(OrderIdError::Empty);
        }
        if text.len() > MAX_ORDER_ID_BYTES {
            return Err(OrderIdError::TooLong(text.len()));
        }
        if text.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err(OrderIdError::Characters);
        }
        Ok(Self(text.into()))
    }

    /// The id as it is, and in the spelling of `uuid` and of a number if it can be one: rows have the database's spelling.
    pub fn spellings(&self) -> Vec<String> {
        let mut all = vec![self.0.to_string()];
        for key in Key::all(&self.0) {
            let text = key.to_string();
            if !all.contains(&text) {
                all.push(text);
            }
        }
        all
    }

    /// The id in the spelling of `uuid`, if it can be one.
    pub(crate) fn as_uuid(&self) -> Option<String> {
        Key::uuid(&self.0).map(|key| key.to_string())
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for OrderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why a text is not an order id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "each variant is the sentence above it")]
pub enum OrderIdError {
    #[error("the order id is empty")]
    Empty,
    #[error("the order id has {0} bytes, more than {max}", max = MAX_ORDER_ID_BYTES)]
    TooLong(usize),
    #[error("the order id has white space or control characters")]
    Characters,
}

/// Ids in the spelling of the database. A statement that casts ids to `uuid` or `bigint` returns the one spelling of that
/// type: `{2F1C…}` and `2F1C…` as `2f1c…`, `007` as `7`. Equality in other types is not known here.
#[derive(Debug, Default)]
pub struct Spelled(HashMap<String, String>);

impl Spelled {
    /// Pairs requested ids with returned ids. A returned id that was itself requested belongs to no other id: keys of the
    /// type `text` are compared as they are. An id that two other spellings requested is not paired either.
    pub fn new<'a>(asked: &[OrderId], given: impl IntoIterator<Item = &'a str>) -> Self {
        let asked: HashSet<&str> = asked.iter().map(OrderId::as_str).collect();
        let given: HashSet<&str> = given.into_iter().filter(|id| !asked.contains(id)).collect();
        if given.is_empty() {
            return Self::default();
        }
        let mut alike: HashMap<Key, (Vec<&str>, Vec<&str>)> = HashMap::new();
        for id in asked {
            Key::all(id).for_each(|key| alike.entry(key).or_default().0.push(id));
        }
        for id in given {
            Key::all(id).for_each(|key| alike.entry(key).or_default().1.push(id));
        }
        let pairs = alike.into_values().filter_map(|(asked, given)| match (&*asked, &*given) {
            ([asked], [given]) => Some((*asked, *given)),
            _ => None,
        });
        let pairs: HashSet<(&str, &str)> = pairs.collect();
        // 32 digits can match a uuid and a number: then they are not paired.
        let mut uses: HashMap<&str, usize> = HashMap::new();
        for id in pairs.iter().flat_map(|(asked, given)| [asked, given]) {
            *uses.entry(id).or_default() += 1;
        }
        let pairs = pairs.into_iter().filter(|(asked, given)| uses[asked] == 1 && uses[given] == 1);
        Self(pairs.map(|(asked, given)| (asked.to_owned(), given.to_owned())).collect())
    }

    /// The returned spelling of a requested id, if it differs.
    pub fn of(&self, id: &OrderId) -> Option<&str> {
        self.0.get(id.as_str()).map(String::as_str)
    }
}

/// A value of a type with several spellings.
#[derive(PartialEq, Eq, Hash)]
enum Key {
    Uuid(u128),
    /// Digits without leading zeros, of any number.
    Integer {
        is_negative: bool,
        digits: String,
    },
}

/// Writes the key as PostgreSQL does.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uuid(number) => {
                let digits = format!("{number:032x}");
                let groups = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20]];
                write!(f, "{}-{}", groups.join("-"), &digits[20..])
            }
            Self::Integer { is_negative, digits } => {
                let sign = if *is_negative { "-" } else { "" };
                write!(f, "{sign}{}", if digits.is_empty() { "0" } else { digits })
            }
        }
    }
}

impl Key {
    /// The text as `uuid` and as a number: 32 digits can be both.
    /// <https://www.postgresql.org/docs/current/datatype-uuid.html>
    fn all(id: &str) -> impl Iterator<Item = Self> {
        Self::uuid(id).into_iter().chain(Self::integer(id))
    }

    fn uuid(id: &str) -> Option<Self> {
        let id = id.strip_prefix('{').map_or(Some(id), |id| id.strip_suffix('}'))?;
        let is_group = |group: &str| !group.is_empty() && group.len().is_multiple_of(4);
        let digits = id.replace('-', "");
        let is_uuid = id.split('-').all(is_group)
            && digits.len() == 32
            && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        u128::from_str_radix(&digits, 16).ok().filter(|_| is_uuid).map(Self::Uuid)
    }

    fn integer(id: &str) -> Option<Self> {
        let (is_negative, digits) = match id.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, id.strip_prefix('+').unwrap_or(id)),
        };
        let is_integer = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
        let digits = digits.trim_start_matches('0').to_owned();
        is_integer
            .then_some(Self::Integer { is_negative: is_negative && !digits.is_empty(), digits })
    }
}

/// The database's answer about one order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// This call brought the order to its final state.
    Closed {
        /// Time since its deadline, by the database's clock.
        late: Duration,
        /// The effect's name of that state.
        state: FinalState,
    },
    /// The order is paid, closed before, or otherwise final: nothing to do.
    AlreadyFinal,
    /// The deadline has not come, by the database's clock.
    NotDue {
        /// Time to the deadline.
        remaining: Duration,
    },
    /// The database does not have the order: not committed yet, or never.
    Unknown,
    /// Another session has a lock that closing the order needs. The worker tries again until the lock is free: at once, then
    /// at most every second. This uses no retry.
    Busy,
    /// The order itself makes the effect fail; the effect works for other orders.
    Failed {
        /// The part common to all orders that fail like this one, e.g. the SQLSTATE.
        cause: String,
        /// Error text of PostgreSQL.
        reason: String,
    },
    /// The order failed, and is probably not the cause. The worker tries again much later, which uses no retry.
    Postponed {
        /// Error text of PostgreSQL.
        reason: String,
    },
}

impl Outcome {
    /// Whether the order is overdue and a rule of the effect keeps it open.
    pub const fn is_guarded(&self) -> bool {
        matches!(self, Self::NotDue { remaining } if remaining.is_zero())
    }

    /// The final state, if this call brought the order to it.
    pub const fn final_state(&self) -> Option<&FinalState> {
        match self {
            Self::Closed { state, .. } => Some(state),
            _ => None,
        }
    }
}

/// Longest name of a state, in bytes; logs contain it.
const MAX_BYTES: usize = 40;
/// States of the built-in effects, which cost no memory per order.
const KNOWN: [&str; 4] = ["closed", "cancelled", "completed", "done"];

/// `closed`, `cancelled`, …: 1 to 40 lower-case letters, digits and `_`, a letter first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FinalState(Cow<'static, str>);

impl FinalState {
    /// The state of orders that the effect `close` closed.
    pub const CLOSED: Self = Self(Cow::Borrowed("closed"));

    /// Reads the `outcome` of an order that the effect closed: `done:` and a word, `done` alone, or `closed`. `None` for all
    /// other texts: a misspelt `already_final` must not become a state.
    pub fn of_outcome(outcome: &str) -> Option<Self> {
        let word = match outcome.strip_prefix("done:") {
            Some(word) => word,
            None if matches!(outcome, "closed" | "done") => outcome,
            None => return None,
        };
        let known = KNOWN.into_iter().find(|known| *known == word);
        is_word(word)
            .then(|| Self(known.map_or_else(|| Cow::Owned(word.to_owned()), Cow::Borrowed)))
    }

    /// The word.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for FinalState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn is_word(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    text.len() <= MAX_BYTES
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.chars().all(allowed)
}

/// The final states of a batch's orders, usually one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FinalStates(BTreeSet<FinalState>);

impl FinalStates {
    /// Adds the states of more orders.
    pub fn add<'a>(&mut self, states: impl Iterator<Item = &'a FinalState>) {
        self.0.extend(states.cloned());
    }
}

impl fmt::Display for FinalStates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<&str> = self.0.iter().map(FinalState::as_str).collect();
        f.write_str(&words.join(","))
    }
}
