//! Words in the names of tables, columns and states, with their most likely meaning.

/// States that wait for a step of the customer; states with the same word are a family.
const WAITING: &str = "pending open new active reserved awaiting waiting unpaid requires submitted placed created held hold initiated \
    incomplete unconfirmed tentative";
/// States that wait for something other than a step of the customer.
const WAITING_FOR_OTHERS: &str = "offline shipment shipping delivery pickup refund return fulfillment fulfilment review approval validation";
/// States of a payment whose result is unknown.
pub const ON_ITS_WAY: &str = "pending processing authorized authorised";
/// States of a row that was not done in time, the most exact word first.
const CLOSED: &str =
    "expired lapsed timedout abandoned cancelled canceled cancel closed voided void";
/// Words in `CLOSED` that never mean a cancellation by a person.
const TIMED_OUT: &str = "expired lapsed timedout abandoned";
/// Columns with a state.
pub const STATE: &str = "status state stage";
/// Columns with a deadline.
const DEADLINE: &str =
    "expires expire expiry expiration expired expireat expiresat due until deadline validity";
/// Columns with the time of a row's creation.
const CREATED: &str = "created create creation inserted placed ordered requested request submitted opened added booked";
/// Columns with a time, for example the date of an order.
const DATE: &str = "date datetime time timestamp";
/// Columns that are set when a row is no longer open.
const ENDED: &str = "cancel cancelled canceled expired closed abandoned fulfillment fulfilment fulfilled completed completion paid \
    confirmed finished terminated delivered refunded returned rejected accepted redeemed used revoked released ended resolved";
/// Words in `ENDED` for rows that were not done in time.
pub const ENDED_IN_TIME: &str = "cancel cancelled canceled expired closed abandoned terminated";
/// Columns with the reason of an end.
pub const CAUSE: &str = "cause reason";
/// Columns with the time of the last change.
pub const UPDATED: &str =
    "updated_at modified_at last_modified updated_on modified_on last_updated date_updated";
/// Columns that optimistic locks compare.
pub const VERSION: &str = "lock_version version row_version optlock";
/// Columns that mark a row as deleted while it stays in its table.
pub const DELETED: &str = "deleted_at deleted_on deleted";
/// Tables whose rows reserve something for a while, and are then deleted.
pub const HOLDS: &str = "hold holds reservation reservations lock locks token tokens session sessions key keys cart carts lease \
    leases claim claims cache slot slots";
/// Tables whose rows only mark that another row waits.
pub const MARKS: &str = "pending hold holds held waiting open active reserved";
/// Tables whose rows reserve something for another row.
pub const RESERVED: &str =
    "hold holds held reservation reservations reserved allocation allocations";
/// States of rows that belong to no other row.
pub const FREE: &str = "free available vacant";
/// Tables of payments.
pub const PAYMENTS: &str =
    "payment payments orderpayment orderpayments transaction transactions charge charges";
/// Columns with the amount of a row, the best word first.
const AMOUNT: &str = "quantity qty pieces count seats units tickets number allocated";
/// Flags of rows whose counter is in use.
pub const COUNTED: &str = "manage_stock manages_stock stock_managed track_stock tracks_stock track_inventory is_tracked tracked";
/// Numbers that closing does not change.
const NO_COUNTER: &str =
    "initial total max min maximum minimum threshold capacity id price limit version";
/// Names of counters, their meaning, and the signs of the amount that a closed row adds: two signs if only the team knows.
pub const COUNTERS: [(&str, &str, &[&str]); 3] = [
    (
        "reserved allocated held hold holds sold booked taken committed",
        "counts what is taken, so it goes down",
        &["-="],
    ),
    ("available free stock qty remaining hand left", "counts what is left, so it goes up", &["+="]),
    (
        "quantity count inventory seats tickets",
        "goes up if it counts what is left, and down if it counts what is taken",
        &["+=", "-="],
    ),
];

/// The parts of a name in small letters: `OrderDate` has `order` and `date`.
pub fn parts(name: &str) -> Vec<String> {
    let (mut spaced, mut was_small) = (String::new(), false);
    for character in name.chars() {
        if character.is_uppercase() && was_small || !character.is_alphanumeric() {
            spaced.push(' ');
        }
        if character.is_alphanumeric() {
            spaced.extend(character.to_lowercase());
        }
        was_small = character.is_lowercase() || character.is_ascii_digit();
    }
    spaced.split_whitespace().map(str::to_owned).collect()
}

/// Whether a part of the name is one of the words.
pub fn has(name: &str, words: &str) -> bool {
    parts(name).iter().any(|part| words.split(' ').any(|word| word == part))
}

/// Whether the whole name is one of the words.
pub fn is(name: &str, words: &str) -> bool {
    let name = parts(name).join("_");
    words.split(' ').any(|word| word == name)
}

/// The word by which a state waits; states with the same word are a family.
pub fn waiting(state: &str) -> Option<&'static str> {
    let parts = parts(state);
    if has(state, WAITING_FOR_OTHERS) {
        return None;
    }
    let word = WAITING.split(' ').find(|word| parts.iter().any(|part| part == word))?;
    let is_for_payment = parts.iter().any(|part| part.starts_with("pay"));
    let waits = ["awaiting", "waiting", "pending", "unpaid"].contains(&word);
    Some(if (is_for_payment && waits) || word == "unpaid" { FOR_PAYMENT } else { word })
}

/// The family of states that wait for a payment: among several families it is the one with a deadline.
pub const FOR_PAYMENT: &str = "payment";

/// The state with the most exact word for a row that was not done in time.
pub fn closed<'a>(states: &[&'a str]) -> Option<&'a str> {
    let words = || CLOSED.split(' ');
    let whole = words().find_map(|word| states.iter().find(|it| parts(it).concat() == word));
    let part = || words().find_map(|word| states.iter().find(|it| has(it, word)));
    whole.or_else(part).copied()
}

/// Whether a state is only for rows that were not done in time.
pub fn is_timed_out(state: &str) -> bool {
    let state = parts(state).concat();
    TIMED_OUT.split(' ').any(|word| state.contains(word))
}

/// A word for a row that was not done in time, in the letter case of the other states.
pub fn expired(states: &[&str]) -> String {
    let all = |test: fn(char) -> bool| states.iter().all(|it| it.starts_with(test));
    let word = if states.iter().all(|it| it.chars().count() == 1) { "e" } else { "expired" };
    if states.iter().all(|it| *it == it.to_uppercase()) {
        word.to_uppercase()
    } else if all(char::is_uppercase) {
        "Expired".to_owned()
    } else {
        word.to_owned()
    }
}

/// Whether a column's name is a word for a deadline.
pub fn is_deadline(column: &str) -> bool {
    has(column, DEADLINE) || is(column, "release_at")
}

/// Whether a column's name is a word for the time of creation.
pub fn is_created(column: &str) -> bool {
    let is_date =
        has(column, DATE) && (parts(column).len() == 1 || has(column, "order purchase booking"));
    !is_deadline(column) && (has(column, CREATED) || is_date)
}

/// Whether a column is set when a row has ended, by its name.
pub fn is_ended(column: &str) -> bool {
    has(column, ENDED) && !is_created(column)
}

/// Whether a column contains the time at which rows entered this state: `cancelled_at` and `canceled`.
pub fn is_time_of(column: &str, state: &str) -> bool {
    let root = |part: &String| part.get(..5).map(str::to_owned);
    let of_state: Vec<_> = parts(state).iter().filter_map(root).collect();
    // A number can be any state.
    let is_number = state.chars().all(|it| it.is_ascii_digit() || it == ' ');
    let mut roots = parts(column).into_iter().filter_map(|it| root(&it));
    has(column, ENDED_IN_TIME)
        && (is_number || roots.any(|it| of_state.contains(&it) || it == "close"))
}

/// The kind of a counter, as an index of [`COUNTERS`].
pub fn counter(column: &str) -> Option<usize> {
    let kind = COUNTERS.iter().position(|(words, ..)| has(column, words))?;
    (!has(column, NO_COUNTER)).then_some(kind)
}

/// Rank of a name for the column with the amount of a row; the lowest is the best.
pub fn amount(column: &str) -> Option<usize> {
    let parts = parts(column);
    let word = AMOUNT.split(' ').position(|it| parts.last().is_some_and(|last| last == it))?;
    Some(word + AMOUNT.len() * (parts.len() - 1))
}

/// The singular of a table's name in small letters: `order` for `orders`.
pub fn one_of(table: &str) -> String {
    let name = parts(table).join("_");
    match name.strip_suffix('s') {
        Some(one) if one.len() > 2 && !one.ends_with(['s', 'u']) => one.to_owned(),
        _ => name,
    }
}
