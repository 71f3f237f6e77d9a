//! Words in the names of columns and states, and what they most likely mean.

/// States that wait for something; the word is the family.
const WAITING: &[&str] = &[
    "pending",
    "open",
    "new",
    "active",
    "reserved",
    "awaiting",
    "waiting",
    "unpaid",
    "requires",
    "submitted",
    "placed",
    "created",
    "held",
    "hold",
    "initiated",
    "incomplete",
    "unconfirmed",
    "tentative",
];
/// States that wait for something else than the customer's next step.
const WAITING_FOR_OTHERS: &[&str] = &[
    "offline",
    "shipment",
    "shipping",
    "delivery",
    "pickup",
    "refund",
    "return",
    "fulfillment",
    "fulfilment",
    "review",
    "approval",
    "validation",
];
/// States of what was not done in time, the most exact word first.
const CLOSED: &[&str] = &[
    "expired",
    "lapsed",
    "timedout",
    "abandoned",
    "cancelled",
    "canceled",
    "closed",
    "voided",
    "void",
];
/// Columns with a state.
const STATE: &[&str] = &["status", "state", "stage"];
/// Columns with a deadline.
const DEADLINE: &[&str] = &[
    "expires",
    "expire",
    "expiry",
    "expiration",
    "expired",
    "expireat",
    "expiresat",
    "due",
    "until",
    "deadline",
];
/// Columns with the time at which a row was made.
const CREATED: &[&str] = &[
    "created",
    "create",
    "creation",
    "inserted",
    "placed",
    "ordered",
    "requested",
    "request",
    "submitted",
    "opened",
    "added",
    "booked",
];
/// Columns with a time, an order's date for example.
const DATE: &[&str] = &["date", "datetime", "time", "timestamp"];
/// Columns that are set when a row is no longer open.
const ENDED: &[&str] = &[
    "cancel",
    "cancelled",
    "canceled",
    "expired",
    "closed",
    "abandoned",
    "fulfillment",
    "fulfilment",
    "fulfilled",
    "completed",
    "completion",
    "paid",
    "confirmed",
    "finished",
    "delivered",
    "refunded",
    "returned",
    "rejected",
    "accepted",
    "redeemed",
    "used",
    "revoked",
    "released",
    "ended",
    "resolved",
];
/// Words among them for rows on which nothing was done in time.
const ENDED_IN_TIME: &[&str] =
    &["cancel", "cancelled", "canceled", "expired", "closed", "abandoned"];
/// Columns that say when a row was changed.
const UPDATED: &[&str] = &[
    "updated_at",
    "modified_at",
    "last_modified",
    "updated_on",
    "modified_on",
    "last_updated",
    "date_updated",
];
/// Columns that optimistic locks compare.
const VERSION: &[&str] = &["lock_version", "version", "row_version", "optlock"];
/// Columns that say when a row was deleted, while it stays in its table.
const DELETED: &[&str] = &["deleted_at", "deleted_on", "deleted"];
/// Tables whose rows hold something for a while, and are deleted then.
const HOLDS: &[&str] = &[
    "hold",
    "holds",
    "reservation",
    "reservations",
    "lock",
    "locks",
    "token",
    "tokens",
    "session",
    "sessions",
    "key",
    "keys",
    "cart",
    "carts",
    "lease",
    "leases",
    "claim",
    "claims",
    "cache",
];
/// Tables whose rows only mark that another row waits.
const MARKS: &[&str] =
    &["pending", "hold", "holds", "held", "waiting", "open", "active", "reserved"];
/// Counters of what is taken: a closed row makes them smaller.
const TAKEN: &[&str] =
    &["reserved", "allocated", "held", "hold", "holds", "sold", "booked", "taken", "committed"];
/// Counters of what is left: a closed row makes them larger.
const LEFT: &[&str] = &["available", "free", "stock", "qty", "remaining", "hand", "left"];
/// Counters of which the name does not say whether they are of what is taken or of what is left.
const UNCLEAR: &[&str] = &["quantity", "count", "inventory", "seats", "tickets"];
/// Numbers that closing changes nothing of.
const NO_COUNTER: &[&str] = &[
    "initial",
    "total",
    "max",
    "min",
    "maximum",
    "minimum",
    "threshold",
    "capacity",
    "id",
    "price",
    "limit",
];
/// Columns that say of how many a row is.
const AMOUNT: &[&str] =
    &["quantity", "qty", "pieces", "count", "seats", "units", "tickets", "number"];
/// Flags of a row whose counter is kept.
const COUNTED: &[&str] = &[
    "manage_stock",
    "manages_stock",
    "stock_managed",
    "track_stock",
    "tracks_stock",
    "track_inventory",
    "is_tracked",
];

/// The kind of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counter {
    /// Pieces that are taken: it goes down.
    Taken,
    /// Pieces that are left: it goes up.
    Left,
    /// The name does not say.
    Unclear,
}

/// The parts of a name in small letters: `OrderDate` has `order` and `date`.
pub(super) fn parts(name: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut was_small = false;
    for character in name.chars() {
        let begins = character.is_uppercase() && was_small;
        if (begins || !character.is_alphanumeric()) && parts.last().is_some_and(|it| !it.is_empty())
        {
            parts.push(String::new());
        }
        if character.is_alphanumeric()
            && let Some(part) = parts.last_mut()
        {
            part.extend(character.to_lowercase());
        }
        was_small = character.is_lowercase() || character.is_ascii_digit();
    }
    parts.retain(|it| !it.is_empty());
    parts
}

fn has(name: &str, words: &[&str]) -> bool {
    parts(name).iter().any(|part| words.contains(&part.as_str()))
}

fn is(name: &str, words: &[&str]) -> bool {
    words.contains(&parts(name).join("_").as_str())
}

/// The word that makes a state one that waits; states with the same word belong together.
pub(super) fn waiting(state: &str) -> Option<&'static str> {
    let parts = parts(state);
    if has(state, WAITING_FOR_OTHERS) {
        return None;
    }
    let word = WAITING.iter().find(|word| parts.iter().any(|part| part == *word))?;
    let is_for_payment = parts.iter().any(|part| part.starts_with("pay"));
    let waits = ["awaiting", "waiting", "pending", "unpaid"].contains(word);
    Some(if (is_for_payment && waits) || *word == "unpaid" { FOR_PAYMENT } else { word })
}

/// The family of states that wait for a payment: among several it is the one that has a deadline.
pub(super) const FOR_PAYMENT: &str = "payment";

/// The state that says most exactly that something was not done in time.
pub(super) fn closed<'a>(states: &[&'a str]) -> Option<&'a str> {
    let whole = CLOSED.iter().find_map(|word| states.iter().find(|it| parts(it).concat() == *word));
    let part = || CLOSED.iter().find_map(|word| states.iter().find(|it| has(it, &[word])));
    whole.or_else(part).copied()
}

/// A word for what was not done in time, written as other states are.
pub(super) fn expired(states: &[&str]) -> String {
    let is = |test: fn(char) -> bool| states.iter().all(|it| it.starts_with(test));
    if states.iter().all(|it| *it == it.to_uppercase()) {
        "EXPIRED".to_owned()
    } else if is(char::is_uppercase) {
        "Expired".to_owned()
    } else {
        "expired".to_owned()
    }
}

pub(super) fn is_state(column: &str) -> bool {
    has(column, STATE)
}

pub(super) fn is_deadline(column: &str) -> bool {
    has(column, DEADLINE)
}

pub(super) fn is_created(column: &str) -> bool {
    let is_date = has(column, DATE)
        && (parts(column).len() == 1 || has(column, &["order", "purchase", "booking"]));
    !is_deadline(column) && (has(column, CREATED) || is_date)
}

pub(super) fn is_ended(column: &str) -> bool {
    has(column, ENDED) && !is_created(column)
}

pub(super) fn is_ended_in_time(column: &str) -> bool {
    has(column, ENDED_IN_TIME)
}

/// Whether a column says when rows came into this state: `cancelled_at` and `canceled`.
pub(super) fn is_time_of(column: &str, state: &str) -> bool {
    let root = |part: &String| part.get(..5).map(str::to_owned);
    let of_state: Vec<_> = parts(state).iter().filter_map(root).collect();
    is_ended_in_time(column)
        && parts(column).iter().filter_map(root).any(|it| of_state.contains(&it) || it == "close")
}

pub(super) fn is_updated(column: &str) -> bool {
    is(column, UPDATED)
}

pub(super) fn is_version(column: &str) -> bool {
    is(column, VERSION)
}

pub(super) fn is_deleted(column: &str) -> bool {
    is(column, DELETED)
}

pub(super) fn is_of_holds(table: &str) -> bool {
    has(table, HOLDS)
}

pub(super) fn is_mark(table: &str) -> bool {
    has(table, MARKS)
}

pub(super) fn counter(column: &str) -> Option<Counter> {
    let kinds = [(TAKEN, Counter::Taken), (LEFT, Counter::Left), (UNCLEAR, Counter::Unclear)];
    let found = kinds.into_iter().find(|(words, _)| has(column, words)).map(|(_, kind)| kind);
    found.filter(|_| !has(column, NO_COUNTER))
}

/// How good a name is for the column that says of how many a row is; the least is the best.
pub(super) fn amount(column: &str) -> Option<usize> {
    let last = parts(column).pop()?;
    let word = AMOUNT.iter().position(|it| *it == last)?;
    Some(word + AMOUNT.len() * (parts(column).len() - 1))
}

pub(super) fn is_counted(column: &str) -> bool {
    is(column, COUNTED)
}

/// The singular of a table's name: `order` of `orders`, in small letters.
pub(super) fn one_of(table: &str) -> String {
    let name = parts(table).join("_");
    match name.strip_suffix('s') {
        Some(one) if one.len() > 2 && !one.ends_with(['s', 'u']) => one.to_owned(),
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_parts() {
        for (name, expected) in [
            ("OrderDate", "order date"),
            ("order_date", "order date"),
            ("orderDate", "order date"),
            ("AWAITING_PAYMENT", "awaiting payment"),
            ("awaiting payment", "awaiting payment"),
            ("_qty2", "qty2"),
        ] {
            assert_eq!(parts(name).join(" "), expected, "{name}");
        }
    }

    #[test]
    fn states_wait_for_one_thing() {
        for (state, family) in [
            ("pending", Some("pending")),
            ("Submitted", Some("submitted")),
            ("awaiting payment", Some(FOR_PAYMENT)),
            ("pending_payment", Some(FOR_PAYMENT)),
            ("UNPAID", Some(FOR_PAYMENT)),
            ("requires_payment_method", Some("requires")),
            ("requires_confirmation", Some("requires")),
            ("AWAITING_OFFLINE_PAYMENT", None),
            ("awaiting_shipment", None),
            ("processing", None),
            ("draft", None),
            ("n", None),
            ("renewed", None),
        ] {
            assert_eq!(waiting(state), family, "{state}");
        }
    }

    #[test]
    fn the_most_exact_word_is_the_closed_state() {
        for (states, expected) in [
            (&["CANCELLED", "EXPIRED"][..], Some("EXPIRED")),
            (&["canceled", "closed"], Some("canceled")),
            (&["auto_cancelled", "paid"], Some("auto_cancelled")),
            (&["timed_out"], Some("timed_out")),
            (&["failed", "paid"], None),
        ] {
            assert_eq!(closed(states), expected);
        }
    }

    #[test]
    fn names_of_counters_say_which_way_they_go() {
        for (column, expected) in [
            ("reserved", Some(Counter::Taken)),
            ("num_allocated", Some(Counter::Taken)),
            ("qty_on_hold", Some(Counter::Taken)),
            ("quantity_sold", Some(Counter::Taken)),
            ("remaining_quantity", Some(Counter::Left)),
            ("on_hand", Some(Counter::Left)),
            ("num_in_stock", Some(Counter::Left)),
            ("qty", Some(Counter::Left)),
            ("quantity", Some(Counter::Unclear)),
            ("initial_quantity_available", None),
            ("total_count", None),
            ("price", None),
        ] {
            assert_eq!(counter(column), expected, "{column}");
        }
    }

    #[test]
    fn times_of_creation_are_no_deadlines() {
        for (column, created, deadline) in [
            ("created_at", true, false),
            ("date_placed", true, false),
            ("OrderDate", true, false),
            ("inserted_at", true, false),
            ("expires_at", false, true),
            ("pay_until", false, true),
            ("session_expiry", false, true),
            ("due_date", false, true),
            ("birth_date", false, false),
            ("cancel_time", false, false),
        ] {
            assert_eq!((is_created(column), is_deadline(column)), (created, deadline), "{column}");
        }
    }

    #[test]
    fn one_of_many() {
        for (table, one) in
            [("orders", "order"), ("Invoices", "invoice"), ("purchase", "purchase"), ("bus", "bus")]
        {
            assert_eq!(one_of(table), one);
        }
    }
}
