//! `overdue publish`: one notice, and lines of JSON.

use std::fmt::Write as _;

use crate::{
    runs::Runs,
    support::{World, process::finish, text, until},
};

/// The number of all messages in levels and business queues.
async fn messages(world: &World) -> u32 {
    let wire = world.wire().await;
    let mut count = 0;
    for queue in world.topology.objects().queues.keys() {
        count += wire.ready(queue).await;
    }
    count
}

#[apply(world_test)]
async fn one_order_goes_to_the_level_that_was_asked_for() {
    let (world, wire) = World::new().await.wired().await;
    let along = wire.listen("orders.in", "#").await;
    let id = r#"{"order_id":"4711"}"#;
    let both = r#"{"due_at":"2024-11-20T10:30:00Z","order_id":"4711"}"#;
    let due = "2024-11-20T10:30:00Z";
    let cases: [(&[&str], &str, &str); 10] = [
        (&[], "1s.unpaid", id),
        (&["--timeout", "unpaid"], "1s.unpaid", id),
        (&["--level", "30m"], "30m.unpaid", id),
        (&["--category", "virtual"], "500ms.unpaid", id),
        (&["--text"], "1s.unpaid", "4711"),
        // The order is due, and no level is shorter.
        (&["--due-at", due], "100ms.unpaid", both),
        (&["--due-at", due, "--level", "2s"], "2s.unpaid", both),
        // The longest level that expires in time; the worker waits for the remaining time, or delays the notice again.
        (&["--after", "1700ms"], "2s.unpaid", id),
        (&["--after", "1400ms"], "1s.unpaid", id),
        (&["--after", "37m"], "30m.unpaid", id),
    ];
    for (arguments, key, body) in cases {
        let run = world.overdue(&[&["publish", "4711"], arguments].concat()).exits(0);
        assert_eq!(run.stdout, "published 1, refused 0\n");
        let message = wire.take_many(&along, 1).await.remove(0);
        assert_eq!((message.key.as_str(), message.text().as_str()), (key, body));
        let kind = if body == "4711" { "text/plain" } else { "application/json" };
        assert_eq!(message.content_type.as_deref(), Some(kind));
        assert_eq!(message.delivery_mode, Some(2));
        let id = if body == both { "4711@2024-11-20T10:30:00Z" } else { "4711" };
        assert_eq!(message.message_id.as_deref(), Some(id));
    }
}

#[apply(world_test)]
async fn an_unknown_level_category_or_timeout_is_refused_before_anything_is_sent() {
    let world = World::new().await;
    let mut runs = Runs::default();
    for arguments in [
        &["--level", "31m"][..],
        &["--category", "subscription"],
        &["--timeout", "unpayed"],
        &["--timeout", "unpayed", "--level", "31m"],
    ] {
        runs.at(&world, &[&["publish", "4711"], arguments].concat(), &[]).exits(78);
    }
    for id in ["", "two words", &"x".repeat(300)] {
        runs.at(&world, &["publish", id], &[]).exits(78);
    }
    insta::assert_snapshot!(runs);
    assert_eq!(messages(&world).await, 0);
}

#[apply(world_test)]
async fn many_orders_from_standard_input_each_go_their_way() {
    let world = World::new().await;
    let mut input = String::new();
    for n in 0..2_500 {
        let way = match n % 4 {
            0 => r#","level":"30m""#,
            1 => r#","category":"virtual""#,
            2 => r#","timeout":"unpaid","due_at":"2026-11-20T10:30:00Z""#,
            _ => "",
        };
        writeln!(input, "{{\"order_id\":\"o-{n}\"{way}}}").unwrap();
        if n % 100 == 0 {
            input.push('\n');
        }
    }
    let run = world.overdue_with_input(&["publish", "--level", "2s"], &input);
    let said = (run.code, run.stdout.as_str(), run.stderr.as_str());
    assert_eq!(said, (Some(0), "published 2500, refused 0\n", ""), "{run}");
    let wire = world.wire().await;
    let ready = async |queue: &str| wire.ready(queue).await;
    until("625 in 30m", async || ready("orders.delay.30m").await, |n| *n == 625).await;
    until("all others due", async || ready("orders.unpaid").await, |n| *n == 1_875).await;
}

const LADDER: &str = r#"
name = "orders"

[delay]
strategy = "ladder"

[delay.ladder]
max = "1d"

[[timeout]]
name = "unpaid"
after = "30m"

[retry]
after = ["1s"]
"#;

/// The command line, and lines that give their delay in each possible way.
#[apply(world_test)]
async fn any_delay_goes_up_the_ladder_where_it_begins() {
    let (world, wire) = World::of(LADDER).await.wired().await;
    let along = wire.listen("orders.ladder.10m", "#").await;
    #[expect(clippy::disallowed_methods, reason = "the publisher's clock is what is tested")]
    let now = jiff::Timestamp::now();
    let due_at = now + std::time::Duration::from_secs(37 * 60 + 55); // data: a deadline
    // Published first: the remaining time soon has a minute less.
    let until = format!(r#"{{"order_id":"until","due_at":"{due_at}"}}"#);
    world.overdue_with_input(&["publish"], &until).exits(0);
    world.overdue(&["publish", "flag", "--after", "37m", "--timeout", "unpaid"]).exits(0);
    let lines = [
        r#"{"order_id":"line","after":"37m"}"#.to_owned(),
        // Values of a line override the flags, and with a delay `due_at` is a hint.
        format!(r#"{{"order_id":"hint","after":"37m","due_at":"{due_at}"}}"#),
        r#"{"order_id":"level","level":"37m"}"#.to_owned(),
        r#"{"order_id":"flags"}"#.to_owned(),
    ];
    world.overdue_with_input(&["publish", "--after", "20m"], &lines.join("\n")).exits(0);
    let taken = wire.take_many(&along, 6).await;
    let key_of = |id: &str| {
        let message = taken.iter().find(|message| message.text().contains(id)).expect(id);
        message.key.clone()
    };
    for id in ["flag\"", "line", "hint", "level"] {
        assert_eq!(key_of(id), "0.0.7.3.unpaid", "{id}");
    }
    assert_eq!(key_of("flags"), "0.0.0.2.unpaid");
    // The path has the time that remained at the publish.
    let until = key_of("until");
    assert!(until.ends_with(".7.3.unpaid") && until != "0.0.7.3.unpaid", "{until}");
    world.parked(0).await;
}

#[apply(world_test)]
async fn refused_lines_are_named_by_number_and_the_others_are_published() {
    let world = World::of(LADDER).await;
    let lines = [
        r#"{"order_id":"good-1","after":"37m"}"#,
        r#"{"order_id":"o-2","after":"31d"}"#,
        r#"{"order_id":"o-3","after":"-5m"}"#,
        "o-4",
        "",
        r#"{"order_id":"o-6","levle":"30m"}"#,
        r#"{"order_id":"o-7","after":"37m","level":"30m"}"#,
        r#"{"order_id":""}"#,
        r#"{"order_id":"o-9","timeout":"unpayed"}"#,
        r#"{"order_id":"o-10","due_at":"soon"}"#,
        r#"{"order_id":"o-11","after":37}"#,
        r#"{"after":"37m"}"#,
        r#"{"order_id":13}"#,
    ];
    let mut input = lines.join("\n").into_bytes();
    input.extend(b"\n\xff\xfe\n");
    let mut command = world.command(&["publish"]);
    command.env("NO_COLOR", "1");
    insta::assert_snapshot!(world.shown(&finish(command, Some(&input))));
    assert_eq!(messages(&world).await, 2);
    let run = world.overdue_with_input(&["publish", "-o", "json"], "\n\nnonsense\n");
    let json = run.json();
    assert_eq!((run.code, &json["published"]), (Some(78), &0.into()), "{run}");
    assert_eq!(json["refused"][0]["line"], 3, "{run}");
}

/// The following input is not read: it may be part of that line.
#[apply(world_test)]
async fn a_line_without_end_is_the_last() {
    let world = World::new().await;
    let input = format!("{{\"order_id\":\"o-1\"}}\n{}\nbad\n", "x".repeat(1_000_000));
    let run = world.overdue_with_input(&["publish", "--level", "30m"], &input).exits(78);
    assert!(run.stdout.contains("line 2: neither it nor a later line was sent"), "{run}");
    assert!(run.stdout.ends_with("published 1, refused 1\n"), "{run}");
}

/// The broker refuses messages if the queue behind the level is full.
#[apply(world_test)]
async fn lines_that_the_broker_refuses_are_counted() {
    let (world, wire) = World::new().await.wired().await;
    let full = [
        ("x-max-length", lapin::types::AMQPValue::LongInt(1)),
        ("x-overflow", text("reject-publish")),
    ];
    wire.queue("full", &full).await;
    wire.bind("full", "orders.in", "30m.*").await;
    wire.publish("", "full", lapin::BasicProperties::default(), b"x").await;
    let lines: Vec<String> = (0..10).map(|n| format!("{{\"order_id\":\"o-{n}\"}}")).collect();
    let run = world.overdue_with_input(&["publish", "--level", "30m"], &lines.join("\n")).exits(1);
    assert!(run.stdout.contains("line 10: message o-9 was refused by the broker"), "{run}");
    assert!(run.stdout.ends_with("published 0, refused 10\n"), "{run}");
}

/// A place in the middle of the path is missing: the notice would be parked half-way.
#[apply(world_test)]
async fn a_path_with_a_queue_that_nothing_leads_to_is_refused() {
    let world = World::of(LADDER).await;
    world.unbind("orders.ladder.1m", "orders.ladder.delay.7m", "*.*.7.#").await;
    let run = world.overdue(&["publish", "4711", "--after", "37m"]).exits(78);
    let said = "on the broker `orders.ladder.10m` leads `0.0.7.3.unpaid` to no level, a message would be parked";
    assert!(run.stderr.contains(said), "{run}");
    world.overdue(&["publish", "4711", "--after", "36m"]).exits(0);
    assert_eq!(messages(&world).await, 1);
}

/// The file is newer than the broker: the broker would confirm and park the message.
#[apply(world_test)]
async fn a_level_that_the_broker_does_not_have_is_refused() {
    let world = World::new().await;
    let file = world.topology_file();
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("\"30m\"]", "\"30m\", \"37m\"]")).unwrap();
    let said =
        "on the broker `orders.in` leads `37m.unpaid` to no level, a message would be parked";
    world.overdue(&["publish", "4711", "--level", "37m"]).exits(78).reports(said);
    let lines = "{\"order_id\":1,\"level\":\"30m\"}\n{\"order_id\":2,\"level\":\"37m\"}\n";
    world.overdue_with_input(&["publish"], lines).exits(78).prints(&format!("line 2: {said}"));
    world.parked(0).await;
    // A publisher without the management API gets no warning.
    let user = world.user_with("", ["^$", r"^orders\.in$", "^$"]).await;
    world.overdue_as(&["publish", "4711", "--level", "37m"], &user).exits(0);
    world.parked(1).await;
}
