//! The proposal of `overdue init` for a table.

use overdue::internals::effect::proposal::{
    Answers, Ask,
    found::{Column, Found, Sample, Table},
    interval, parse_release, propose, words,
};

/// Parses a column: `name type`, with `!` for NOT NULL.
fn column(text: &str) -> Column {
    let (text, is_not_null) = (text.trim_end_matches('!'), text.ends_with('!'));
    let (name, kind) = text.split_once(' ').unwrap();
    Column { name: name.to_owned(), kind: kind.to_owned(), is_not_null, ..Column::default() }
}

/// A table with a key `id`, and rows as `open 100;paid 200`: values of the other columns, `-` for NULL. The time is 1,000.
fn found(name: &str, columns: &str, rows: &str) -> Found {
    let columns: Vec<Column> =
        ["id bigint!"].into_iter().chain(columns.split(", ")).map(column).collect();
    let values = |row: &str| {
        let values = row.split(' ').map(|it| (it != "-").then(|| it.to_owned()));
        [None].into_iter().chain(values).collect()
    };
    let sample = Sample {
        now: 1_000.0,
        columns: columns.iter().map(|it| it.name.clone()).collect(),
        rows: rows.split(';').filter(|it| !it.is_empty()).map(values).collect(),
        open: None,
    };
    let table = Table {
        id: 1,
        name: name.to_owned(),
        kind: "r".to_owned(),
        columns,
        unique: vec![vec!["id".to_owned()]],
        ..Table::default()
    };
    Found { tables: vec![table], sample, ..Found::default() }
}

fn answers() -> Answers {
    Answers {
        effect: Some("expire".to_owned()),
        timeout: Some("unpaid".to_owned()),
        since: Some("all".to_owned()),
        ..Answers::default()
    }
}

/// Name, columns, rows; lines of the description, and the number of questions.
type Case = (&'static str, &'static str, &'static str, &'static [&'static str], usize);

const CASES: [Case; 12] = [
    (
        "orders",
        "status text, expires_at timestamp with time zone",
        "pending 900;expired 800",
        &[
            "open = \"status = 'pending'\"",
            "deadline = \"expires_at\"",
            "set = { status = \"'expired'\" }",
            "event = \"order.expired\"",
        ],
        0,
    ),
    // Of two names, the one with a value in open rows.
    (
        "orders",
        "status text, due_at timestamp with time zone, expires_at timestamp with time zone",
        "pending - 900;expired 1 -",
        &["deadline = \"expires_at\""],
        0,
    ),
    (
        "orders",
        "status text, due_at timestamp with time zone, expires_at timestamp with time zone",
        "pending 800 900;expired 1 1",
        &["# deadline = \"due_at\""],
        1,
    ),
    (
        "orders",
        "status text, expires_at bigint",
        "pending 1700000000;expired 1600000000",
        &["deadline = \"to_timestamp(expires_at)\""],
        0,
    ),
    (
        "orders",
        "status text, expires_at bigint",
        "pending 1700000000000;expired 1600000000000",
        &["deadline = \"to_timestamp(expires_at / 1000.0)\""],
        0,
    ),
    // A duration is not a point in time.
    (
        "orders",
        "status text, expiry bigint, created_at timestamp with time zone",
        "pending 3600 900;expired 60 800",
        &["# deadline = \"created_at + interval '30 minutes'\""],
        1,
    ),
    // The end of the day, in a time zone.
    (
        "orders",
        "status text, valid_until date",
        "pending 900;expired 1",
        &["deadline = \"(valid_until + 1)::timestamp\"", "# zone = \"UTC\""],
        1,
    ),
    (
        "wallets",
        "state integer, expires_at timestamp with time zone, lock_version integer, deleted_at timestamp with time zone",
        "1 900 0 -;2 800 0 -",
        &[
            "# open = \"state = 1 AND deleted_at IS NULL\"",
            "# set = { state = \"VALUE\", lock_version = \"lock_version + 1\" }",
        ],
        2,
    ),
    // Flags instead of a state.
    (
        "invitations",
        "accepted boolean, cancelled boolean, expires_at timestamp with time zone",
        "false false 900",
        &["open = \"NOT cancelled AND NOT accepted\"", "set = { cancelled = \"true\" }"],
        0,
    ),
    (
        "seat_holds",
        "expires_at timestamp with time zone",
        "900",
        &["open = \"true\"", "delete = true"],
        0,
    ),
    // The table shows no sign that its rows may be deleted.
    (
        "customers",
        "expires_at timestamp with time zone",
        "900",
        &["needs an answer: no column has a state"],
        1,
    ),
    // A column with a value in open rows is not the time of their end.
    (
        "orders",
        "status text, created_at timestamp with time zone, expired_at timestamp with time zone",
        "pending 900 1800;cancelled 800 1700",
        &["deadline = \"expired_at\"", "# set = { status = \"'cancelled'\" }"],
        1,
    ),
];

#[test]
fn descriptions_are_proposed() {
    for (name, columns, rows, lines, questions) in CASES {
        let proposal = propose(&found(name, columns, rows), &answers()).unwrap();
        let text = proposal.description();
        for line in lines {
            assert!(text.contains(line), "{name} ({columns}): {line}\n{text}");
        }
        assert_eq!(proposal.questions().count(), questions, "{name} ({columns})\n{text}");
    }
}

/// A given option is not a guess, and leaves no mark.
#[test]
fn what_is_said_is_not_marked() {
    let found = found(
        "orders",
        "status text, created_at timestamp without time zone, updated_at timestamp without time zone",
        "new 900 900;failed 800 800",
    );
    let said = Answers {
        open: Some("status = 'new'".to_owned()),
        zone: Some("Asia/Tokyo".to_owned()),
        after: Some(60_000),
        set: vec![
            ("status".to_owned(), "'lost'".to_owned()),
            ("updated_at".to_owned(), String::new()),
        ],
        ..answers()
    };
    let proposal = propose(&found, &said).unwrap();
    assert_eq!(
        proposal.description(),
        "\
# Rows of orders that are overdue. Every key: docs/effects.md
[effects.expire]
table = \"orders\"
key = \"id\"
open = \"status = 'new'\"
deadline = \"created_at + interval '1 minute'\"
zone = \"Asia/Tokyo\"
since = \"all\"
set = { status = \"'lost'\" }
event = \"order.expired\"
"
    );
    assert_eq!(proposal.after, (60_000, None));
}

#[test]
fn a_table_without_a_key_is_not_guessed() {
    let mut found = found(
        "orders",
        "status text, expires_at timestamp with time zone",
        "pending 900;expired 1",
    );
    found.tables[0].unique.clear();
    let proposal = propose(&found, &answers()).unwrap();
    let asked: Vec<String> = proposal.questions().flat_map(Ask::options).collect();
    assert_eq!(asked, ["--key COLUMN"]);
    assert!(!proposal.description().contains("\nkey = "));
}

#[test]
fn releases_are_read_from_one_line() {
    let read = |text: &str| {
        let keys = parse_release(text).unwrap();
        toml::to_string(&keys).unwrap().replace('\n', "; ")
    };
    assert_eq!(
        read("article.reserved -= line.pieces from purchase_line AS line WHERE line.no = row.no"),
        "table = \"article\"; from = \"purchase_line AS line\"; where = \"line.no = row.no\"; ; [add]; reserved = \"-line.pieces\"; "
    );
    assert_eq!(
        read("shop.\"Event\".\"Free\" += row.a + row.b WHERE \"Event\".id = row.event_id"),
        "table = \"shop.Event\"; where = '\"Event\".id = row.event_id'; ; [add]; Free = \"row.a + row.b\"; "
    );
    assert_eq!(
        read("t.n -= a.x + 1 FROM a WHERE a.y = row.y"),
        "table = \"t\"; from = \"a\"; where = \"a.y = row.y\"; ; [add]; n = \"-(a.x + 1)\"; "
    );
    assert_eq!(
        read("DELETE seat_hold WHERE seat_hold.no = row.no"),
        "delete = \"seat_hold\"; where = \"seat_hold.no = row.no\"; "
    );
    assert_eq!(
        read("asset.copy SET status = 7, at = now() WHERE copy.id = row.copy"),
        "table = \"asset.copy\"; where = \"copy.id = row.copy\"; ; [set]; at = \"now()\"; status = \"7\"; "
    );
    for text in [
        "",
        "article",
        "article.reserved -= 1",
        "article -= 1 WHERE true",
        "article.reserved = 1 WHERE true",
    ] {
        assert!(
            parse_release(text).unwrap_err().contains("write article.reserved -= line.pieces"),
            "{text}"
        );
    }
}

#[test]
fn times_are_read_and_written_as_intervals() {
    let found =
        found("orders", "status text, created_at timestamp with time zone", "new 900;expired 800");
    for (text, words) in [
        ("30m", "30 minutes"),
        ("1m", "1 minute"),
        ("90s", "90 seconds"),
        ("5d", "5 days"),
        ("120m", "2 hours"),
        ("250ms", "250 milliseconds"),
    ] {
        let answers = Answers { after: Some(interval(text).unwrap()), ..answers() };
        let text = propose(&found, &answers).unwrap().description();
        assert!(text.contains(&format!("created_at + interval '{words}'\"")), "{text}");
    }
    for text in ["", "30", "m", "0m", "-1m", "1y", "99999999999999999999d"] {
        assert!(interval(text).unwrap_err().contains("write 30m"), "{text}");
    }
}

/// The time from creation to deadline is known only if most rows have the same one.
#[test]
fn most_distances_have_to_be_alike() {
    for (deadlines, after) in [
        ([2800.0, 2800.2, 2799.9, 2800.0, 1060.0], Some(1_800_000)),
        ([1060.0, 2800.0, 1090.0, 1001.0, 4000.0], None),
        ([400.0, 400.0, 400.0, 400.0, 400.0], None),
    ] {
        let rows = deadlines.map(|it| format!("open 1000 {it}")).join(";");
        let columns =
            "status text, created_at timestamp with time zone, expires_at timestamp with time zone";
        let (found, none) = propose(&found("orders", columns, &rows), &answers()).unwrap().after;
        assert_eq!(none.is_some_and(|it| it.starts_with("from ")).then_some(found), after);
    }
}

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
        assert_eq!(words::parts(name).join(" "), expected, "{name}");
    }
}

#[test]
fn states_wait_for_one_thing() {
    for (state, family) in [
        ("pending", Some("pending")),
        ("Submitted", Some("submitted")),
        ("awaiting payment", Some(words::FOR_PAYMENT)),
        ("pending_payment", Some(words::FOR_PAYMENT)),
        ("UNPAID", Some(words::FOR_PAYMENT)),
        ("requires_payment_method", Some("requires")),
        ("requires_confirmation", Some("requires")),
        ("AWAITING_OFFLINE_PAYMENT", None),
        ("awaiting_shipment", None),
        ("processing", None),
        ("draft", None),
        ("n", None),
        ("renewed", None),
    ] {
        assert_eq!(words::waiting(state), family, "{state}");
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
        assert_eq!(words::closed(states), expected);
    }
}

#[test]
fn names_of_counters_say_which_way_they_go() {
    for (column, expected) in [
        ("reserved", Some(0)),
        ("num_allocated", Some(0)),
        ("qty_on_hold", Some(0)),
        ("quantity_sold", Some(0)),
        ("remaining_quantity", Some(1)),
        ("on_hand", Some(1)),
        ("num_in_stock", Some(1)),
        ("qty", Some(1)),
        ("quantity", Some(2)),
        ("initial_quantity_available", None),
        ("total_count", None),
        ("price", None),
    ] {
        assert_eq!(words::counter(column), expected, "{column}");
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
        assert_eq!(
            (words::is_created(column), words::is_deadline(column)),
            (created, deadline),
            "{column}"
        );
    }
}

#[test]
fn one_of_many() {
    for (table, one) in
        [("orders", "order"), ("Invoices", "invoice"), ("purchase", "purchase"), ("bus", "bus")]
    {
        assert_eq!(words::one_of(table), one);
    }
}
