//! The body of a due notice: valid bodies, refused bodies, and the reasons for the parking lot.

use std::collections::BTreeSet;

use jiff::Timestamp;
use overdue::internals::{
    order::{MAX_ORDER_ID_BYTES, OrderId, Spelled},
    wire::{DueNotice, MAX_BODY_BYTES, Message, Unreadable},
};
use proptest::{collection, collection::vec, option, prelude::*};

fn id(text: &str) -> OrderId {
    OrderId::parse(text).expect("a good order id")
}

fn read(body: &str) -> Result<(String, Option<String>), Unreadable> {
    let notice = DueNotice::decode(body.as_bytes())?;
    Ok((notice.order_id.to_string(), notice.due_at.map(|due_at| due_at.to_string())))
}

fn refused(body: impl AsRef<[u8]>) -> String {
    DueNotice::decode(body.as_ref()).expect_err("not a due notice").to_string()
}

/// Any valid id, up to the longest, in any script.
fn order_id() -> impl Strategy<Value = OrderId> {
    let character =
        any::<char>().prop_filter("allowed in an id", |c| !c.is_whitespace() && !c.is_control());
    prop_oneof![
        collection::vec(character, 1..=MAX_ORDER_ID_BYTES)
            .prop_map(|characters| clipped(&characters.into_iter().collect::<String>())),
        "[0-9A-Za-z_/:{}\\[\\]\"\\\\-]{1,40}",
        Just("o".repeat(MAX_ORDER_ID_BYTES)),
    ]
    .prop_map(|text| id(&text))
}

/// Spellings in which `uuid` and `bigint` return an id; ids of the type `text` do not change.
#[test]
fn an_order_is_found_by_any_spelling_that_the_database_reads() {
    let (one, two) =
        ("2f1c0a3b-0000-4000-8000-00000000000a", "00000000-0000-4000-8000-00000000000b");
    let cases: &[(&str, &[&str], Option<&str>)] = &[
        ("2F1C0A3B-0000-4000-8000-00000000000A", &[one, two], Some(one)),
        ("{2f1c0a3b-0000-4000-8000-00000000000a}", &[two, one], Some(one)),
        ("2F1C0A3B00004000800000000000000A", &[one], Some(one)),
        ("0000000000004000800000000000000B", &[one, two], Some(two)),
        ("2F1C0A3B-0000-4000-8000-00000000000C", &[one, two], None),
        ("007", &["7", "-7"], Some("7")),
        ("+7", &["7"], Some("7")),
        ("-007", &["7", "-7"], Some("-7")),
        ("000", &["0"], Some("0")),
        ("00000000000000000000000000000007", &["7"], Some("7")),
        (
            "00000000000000000000000000000007",
            &["00000000-0000-0000-0000-000000000007"],
            Some("00000000-0000-0000-0000-000000000007"),
        ),
        ("a", &[], None),
        // Equal spellings of other types are known only to PostgreSQL.
        ("Straße", &["straße"], None),
        ("00A", &["0a"], None),
        ("2f1c0a3b-0000-4000-8000-00000000000", &["2f1c0a3b000040008000000000000"], None),
        ("2F1C0A3B-0000-40008-000-00000000000A", &[one], None),
        ("{2F1C0A3B-0000-4000-8000-00000000000A", &[one], None),
        ("2F1C0A3B--0000-4000-8000-00000000000A", &[one], None),
        ("--7", &["7", "-7"], None),
        ("+", &["0"], None),
    ];
    for (asked, given, found) in cases {
        let spelled = Spelled::new(&[id(asked)], given.iter().copied());
        assert_eq!(spelled.of(&id(asked)), *found, "{asked}");
    }
    // The answer belongs to the other id.
    assert_eq!(Spelled::new(&[id("007"), id("7")], ["7"]).of(&id("007")), None);
    // The answer fits both ids.
    let (uuid, digits) = (id(&spelled(0, 5)), "0".repeat(32));
    for (two, given) in [([id("007"), id("07")], "7"), ([uuid, id("0")], &*digits)] {
        let found = two.each_ref().map(|asked| Spelled::new(&two, [given]).of(asked).is_some());
        assert_eq!(found, [false; 2], "{given}");
    }
}

/// Spellings that PostgreSQL reads as one `uuid`.
fn spelled(uuid: u128, style: u8) -> String {
    let digits = format!("{uuid:032x}");
    let groups = |at: &[usize]| {
        let ends = at.iter().chain([&32]);
        let starts = [0].iter().chain(at);
        starts.zip(ends).map(|(start, end)| &digits[*start..*end]).collect::<Vec<_>>().join("-")
    };
    match style {
        0 => digits,
        1 => digits.to_uppercase(),
        2 => format!("{{{}}}", groups(&[8, 12, 16, 20])),
        3 => groups(&[4, 8, 12, 16, 20, 24, 28]),
        4 => groups(&[8, 12, 16, 20]).to_uppercase(),
        _ => groups(&[8, 12, 16, 20]),
    }
}

/// Ids of which many have equal spellings.
fn alike() -> impl Strategy<Value = OrderId> {
    prop_oneof![
        "[{]?[-+]?[0aA7-]{1,5}[}]?".prop_map(|text| id(&text)),
        (0_u128..3, 0_u8..6).prop_map(|(uuid, style)| id(&spelled(uuid, style))),
    ]
}

/// The prefix of a text that fits into an id.
fn clipped(text: &str) -> String {
    let fits = |end: &usize| *end <= MAX_ORDER_ID_BYTES;
    let ends = text.char_indices().map(|(start, c)| start + c.len_utf8());
    text[..ends.take_while(fits).last().unwrap_or(0)].to_owned()
}

fn due_at() -> impl Strategy<Value = Timestamp> {
    let second = Timestamp::MIN.as_second()..=Timestamp::MAX.as_second();
    let at = |(second, nanosecond)| Timestamp::new(second, nanosecond).expect("in range");
    prop_oneof![
        (second, 0..=999_999_999_i32)
            .prop_filter_map("at the very end", |(s, n)| Timestamp::new(s, n).ok()),
        (0_i64..=4_000_000_000, Just(0)).prop_map(at),
    ]
}

proptest! {
    /// A returned id answers one requested id, whatever the type of the keys is.
    #[test]
    fn no_two_orders_have_one_answer(
        asked in vec(alike(), 1..8),
        given in vec(alike(), 0..8),
    ) {
        let asked: BTreeSet<OrderId> = asked.into_iter().collect();
        let asked: Vec<OrderId> = asked.into_iter().collect();
        let spelled = Spelled::new(&asked, given.iter().map(OrderId::as_str));
        let found: Vec<&str> = asked.iter().filter_map(|asked| spelled.of(asked)).collect();
        prop_assert!(found.iter().all(|found| !asked.contains(&id(found))), "{found:?}");
        prop_assert_eq!(found.iter().collect::<BTreeSet<_>>().len(), found.len(), "{:?}", found);
    }

    #[test]
    fn a_uuid_is_found_in_any_spelling(uuid in any::<u128>(), style in 0_u8..5, others in vec(any::<u128>(), 0..5)) {
        let (asked, given) = (id(&spelled(uuid, style)), spelled(uuid, 5));
        let others = others.into_iter().filter(|other| *other != uuid).map(|other| spelled(other, 5));
        let all: Vec<String> = others.chain([given.clone()]).collect();
        let spelled = Spelled::new(std::slice::from_ref(&asked), all.iter().map(String::as_str));
        prop_assert_eq!(spelled.of(&asked), Some(&*given));
    }

    #[test]
    fn what_is_written_is_read(order_id in order_id(), due_at in option::of(due_at())) {
        let notice = DueNotice { order_id, due_at };
        let body = notice.encode();
        prop_assert_eq!(DueNotice::decode(&body), Ok(notice));
        prop_assert!(serde_json::from_slice::<serde_json::Value>(&body).is_ok());
    }

    #[test]
    fn a_bare_id_is_read_with_the_line_end_of_its_shell(
        order_id in order_id(),
        end in "[ \r\n\t]{0,3}",
    ) {
        let text = order_id.as_str();
        prop_assume!(!text.starts_with(['{', '[', '"', '\u{feff}']));
        let notice = DueNotice::decode(format!("{end}{text}{end}").as_bytes());
        prop_assert_eq!(notice, Ok(DueNotice { order_id, due_at: None }));
    }

    /// `message-id` is a short string: 255 bytes, and lapin panics above.
    #[test]
    fn a_message_id_fits_its_property(order_id in order_id(), due_at in option::of(due_at())) {
        // The worker appends `#` and a delivery tag if a publisher set no message id.
        let tagged = format!("{order_id}#{}", u64::MAX);
        prop_assert!(tagged.len() <= 255, "{} bytes", tagged.len());
        let message_id = DueNotice { order_id, due_at }.message_id();
        prop_assert!(message_id.len() <= 255, "{} bytes: {}", message_id.len(), message_id);
    }

    /// The row, the time and the order of an event each identify it; only the order can be cut.
    #[test]
    fn a_message_id_of_an_event_fits_its_property(row in any::<i64>(), at in due_at(), order in "\\PC{0,255}") {
        let event = Message::event("orders.events".to_owned(), "order.closed", row, &order, at);
        let told = format!("{row}@{}/", at.as_microsecond());
        let rest = event.message_id.strip_prefix(&told);
        prop_assert!(event.message_id.len() <= 255, "{}", event.message_id);
        prop_assert!(rest.is_some_and(|rest| order.starts_with(rest)), "{}", event.message_id);
    }

    #[test]
    fn any_bytes_are_read_or_refused(body in collection::vec(any::<u8>(), 0..300)) {
        answered(&body)?;
    }

    #[test]
    fn anything_like_json_is_read_or_refused(
        body in "[\\[{\"][\\[\\]{}\":,0-9a-z_ \\\\\u{200b}-]{0,120}",
    ) {
        answered(body.as_bytes())?;
    }

    #[test]
    fn any_value_in_any_field_is_read_or_refused(
        field in "order_id|due_at|other",
        value in "\\PC{0,2000}",
    ) {
        let mut body = serde_json::json!({ "order_id": "o-1" });
        body[field] = value.into();
        answered(body.to_string().as_bytes())?;
    }
}

/// The reason becomes a header and a log line: it is short and without line breaks for any body.
fn answered(body: &[u8]) -> Result<(), TestCaseError> {
    match DueNotice::decode(body) {
        Ok(notice) => {
            prop_assert_eq!(OrderId::parse(notice.order_id.as_str()), Ok(notice.order_id));
        }
        Err(unreadable) => {
            let reason = unreadable.to_string();
            prop_assert!(reason.len() <= 1_024, "{} bytes of reason", reason.len());
            prop_assert!(!reason.contains(char::is_control), "{:?}", reason);
        }
    }
    Ok(())
}

#[test]
fn a_hostile_body_gives_a_short_reason() {
    let long = "\u{200b}".repeat(20_000);
    let bodies = [
        format!("\"{long}\""),
        format!("{{\"order_id\":\"{long}\"}}"),
        format!("{{\"{long}\":[}}"),
        "[".repeat(60_000),
        format!("{{\"order_id\":{}", "[".repeat(60_000)),
        format!("{{\"x\":{}", "[".repeat(60_000)),
        long,
    ];
    for body in &bodies {
        assert!(body.len() <= MAX_BODY_BYTES, "it is to be read, not refused for its size");
        let reason = refused(body);
        assert!(reason.len() <= 1_024, "{} bytes of reason", reason.len());
    }
}

#[test]
fn each_refusal_is_a_sentence() {
    let cases: &[(&str, Vec<u8>)] = &[
        ("empty", b"".to_vec()),
        ("white space", b" \r\n\t".to_vec()),
        ("65,537 bytes", vec![b'o'; 65_537]),
        ("100,000 brackets", vec![b'['; 100_000]),
        ("invalid UTF-8", b"o-\xff".to_vec()),
        ("NUL", b"o\0-1".to_vec()),
        ("NUL in JSON", br#"{"order_id":"o\u00001"}"#.to_vec()),
        ("white space inside", b"two words".to_vec()),
        ("an id too long", vec![b'o'; MAX_ORDER_ID_BYTES + 1]),
        ("an empty id", br#"{"order_id":""}"#.to_vec()),
        ("no order_id", br#"{"id":"o-1"}"#.to_vec()),
        ("order_id twice", br#"{"order_id":"o-1","order_id":"o-2"}"#.to_vec()),
        ("order_id a fraction", br#"{"order_id":17.5}"#.to_vec()),
        ("order_id over 64 bits", br#"{"order_id":36893488147419103232}"#.to_vec()),
        ("order_id null", br#"{"order_id":null}"#.to_vec()),
        ("order_id a list", br#"{"order_id":["o-1"]}"#.to_vec()),
        ("not finished", br#"{"order_id":"o-1""#.to_vec()),
        ("more behind it", br#"{"order_id":"o-1"} {}"#.to_vec()),
        ("a list", br#"["o-1"]"#.to_vec()),
        ("a text in JSON that is no id", br#""two words""#.to_vec()),
        ("a text in JSON without its end", br#""o-1"#.to_vec()),
        ("a line break in a member", br#"{"a\nb":1}"#.to_vec()),
        ("other members", br#"{"orderId":4711,"shop":{"order_id":1}}"#.to_vec()),
        ("Java's Long", b"\xac\xed\x00\x05sr\x00\x0ejava.lang.Long".to_vec()),
        ("MassTransit", br#"{"messageId":"1","messageType":["urn:message:Order"],"message":{"orderId":4711}}"#.to_vec()),
        ("Celery", br#"[["o-1"],{},{"callbacks":null,"errbacks":null,"chain":null,"chord":null}]"#.to_vec()),
        ("Laravel", br#"{"uuid":"1","displayName":"App\\Jobs\\Close","job":"Illuminate","data":{"command":"O:15"}}"#.to_vec()),
        ("a list with a time", br#"["o-1","2026-11-20T10:30:00Z"]"#.to_vec()),
    ];
    let table: Vec<String> =
        cases.iter().map(|(case, body)| format!("{case}: {}", refused(body))).collect();
    insta::assert_snapshot!(table.join("\n"));
}

#[test]
fn what_publishers_send_is_read() {
    let due = Some("2026-11-20T10:30:00Z");
    for (body, id, due_at) in [
        ("o-1", "o-1", None),
        ("o-1\n", "o-1", None),
        // JSON writers quote a text.
        (r#""4711""#, "4711", None),
        (r#"{"order_id":"o-1"}"#, "o-1", None),
        (r#" {"order_id":"o-1","due_at":null,"shop":{"id":[7]}} "#, "o-1", None),
        (r#"{"order_id":"o-1","due_at":"2026-11-20T10:30:00Z"}"#, "o-1", due),
        (r#"{"due_at":"2026-11-20T18:30:00+08:00","order_id":"o-1"}"#, "o-1", due),
        // Services with integer keys write numbers.
        (r#"{"order_id": 4711}"#, "4711", None),
        (r#"{"order_id": -1}"#, "-1", None),
        (r#"{"order_id": 18446744073709551615}"#, "18446744073709551615", None),
        // Writers of UTF-8 on some platforms put a byte order mark first.
        ("\u{feff}o-1", "o-1", None),
        ("\u{feff}{\"order_id\":\"o-1\"}", "o-1", None),
    ] {
        assert_eq!(read(body), Ok((id.to_owned(), due_at.map(str::to_owned))), "{body}");
    }
}

/// `due_at` is a hint: a notice is valid without it, and with any spelling of it.
#[test]
fn a_hint_is_a_time_with_a_zone_or_an_epoch_and_ignored_otherwise() {
    let due = "2026-11-20T10:30:00Z";
    let read = [
        r#""2026-11-20T10:30:00Z""#,
        r#""2026-11-20 10:30:00Z""#,
        r#""2026-11-20T18:30:00.000000000+08:00""#,
        r#""2026-11-20T10:30:00+0000""#,
        r#""2026-11-20T10:30Z""#,
        "1795170600",
        "1795170600000",
        "1795170600.0",
    ];
    let ignored = [
        r#""2026-11-20T10:30:00""#,
        r#""28.11.2026 10:30""#,
        r#""1795170600""#,
        r#""yesterday""#,
        r#""""#,
        "false",
        "[2026,11,20,10,30]",
        r#"{"seconds":1795170600}"#,
        "1e+300",
        "9223372036854775807",
    ];
    let notice = |hint: &str| {
        let body = format!(r#"{{"order_id":"o-1","due_at":{hint}}}"#);
        DueNotice::read(body.as_bytes(), &[]).unwrap_or_else(|error| panic!("{hint}: {error}"))
    };
    for hint in read {
        let read = notice(hint);
        assert_eq!(read.notice.due_at, Some(due.parse().expect("a time")), "{hint}");
        assert_eq!(read.ignored_due_at, None, "{hint}");
    }
    for hint in ignored {
        let read = notice(hint);
        let (order, due_at) = (read.notice.order_id.as_str(), read.notice.due_at);
        assert_eq!((order, due_at), ("o-1", None), "{hint}");
        assert_eq!(read.ignored_due_at.as_deref(), Some(hint));
    }
    let long = format!("\"{}\"", "\u{200b}".repeat(20_000));
    assert_eq!(notice(&long).ignored_due_at.map(|hint| hint.chars().count()), Some(60));
    assert_eq!(notice("null").ignored_due_at, None);
}

#[test]
fn an_order_id_is_read_where_the_topology_says() {
    const MASS_TRANSIT: &str =
        r#"{"messageType":[],"message":{"orderId":4711},"due_at":"2026-11-20T10:30:00Z"}"#;
    const CELERY: &str = r#"[["o-1"],{},{"callbacks":null}]"#;
    let cases: &[(&[&str], &str, Result<&str, &str>)] = &[
        (&["/message/orderId"], MASS_TRANSIT, Ok("4711")),
        (&["/order_id", "/message/orderId"], MASS_TRANSIT, Ok("4711")),
        (&["/0/0"], CELERY, Ok("o-1")),
        (&["/a", "/b"], r#"{"b":"second","a":"first"}"#, Ok("first")),
        (&["/a", "/b"], r#"{"b":"second","a":null}"#, Ok("second")),
        (&["/a~1b"], r#"{"a/b":7}"#, Ok("7")),
        // The format of `schedule()`, `publish` and `rebuild`.
        (&["/a"], r#"{"order_id":"o-1"}"#, Ok("o-1")),
        (&["/a"], "bare", Ok("bare")),
        (&["/a"], r#""text""#, Ok("text")),
        (
            &["/a"],
            r#"{"a":{"b":1}}"#,
            Err(
                "the body is not a due notice in JSON: the order id is an object, it has to be text or a whole number of 64 bits",
            ),
        ),
        (
            &["/a", "/b"],
            r#"{"c":"o-1"}"#,
            Err(
                "the body is not a due notice in JSON: no order id at /a or /b or /order_id; its members are c",
            ),
        ),
    ];
    for (pointers, body, expected) in cases {
        let pointers: Vec<String> = pointers.iter().map(ToString::to_string).collect();
        let read = DueNotice::read(body.as_bytes(), &pointers);
        let read = read.map(|read| read.notice.order_id.to_string()).map_err(|it| it.to_string());
        assert_eq!(read.as_deref().map_err(String::as_str), *expected, "{body}");
    }
}

#[test]
fn the_largest_body_is_read() {
    let notice = r#"{"order_id":"o-1"}"#;
    let padded = format!("{notice}{}", " ".repeat(MAX_BODY_BYTES - notice.len()));
    assert_eq!(read(&padded), Ok(("o-1".to_owned(), None)));
    assert_eq!(
        DueNotice::decode(format!("{padded} ").as_bytes()),
        Err(Unreadable::TooLarge(65_537))
    );
}

#[test]
fn the_wire_format_is_version_1() {
    let due_at = Some("2026-11-20T10:30:00Z".parse().expect("a time"));
    let notice = DueNotice { order_id: id("o-1"), due_at };
    let body = String::from_utf8(notice.encode()).expect("UTF-8");
    insta::assert_snapshot!(body, @r#"{"due_at":"2026-11-20T10:30:00Z","order_id":"o-1"}"#);
    insta::assert_snapshot!(notice.message_id(), @"o-1@2026-11-20T10:30:00Z");
    let notice = DueNotice { order_id: id("o-1"), due_at: None };
    insta::assert_snapshot!(notice.message_id(), @"o-1");
    assert_eq!(notice.encode(), br#"{"order_id":"o-1"}"#);
}
