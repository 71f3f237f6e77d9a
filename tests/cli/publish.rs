//! `overdue publish`: one, many, and nothing at all where anything is wrong.

use std::{fmt::Write as _, io::Write as _, process::Stdio};

use crate::support::World;

/// Everything in the virtual host that waits or is due.
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
    let world = World::new().await;
    let wire = world.wire().await;
    let along = wire.listen("orders.in", "#").await;
    let cases: [(&[&str], &str, &str, Option<&str>); 10] = [
        (&[], "1s.unpaid", r#"{"order_id":"4711"}"#, Some("application/json")),
        (&["--timeout", "unpaid"], "1s.unpaid", r#"{"order_id":"4711"}"#, Some("application/json")),
        (&["--level", "30m"], "30m.unpaid", r#"{"order_id":"4711"}"#, Some("application/json")),
        (
            &["--category", "virtual"],
            "500ms.unpaid",
            r#"{"order_id":"4711"}"#,
            Some("application/json"),
        ),
        (&["--text"], "1s.unpaid", "4711", Some("text/plain")),
        // Due, and nothing shorter is there.
        (
            &["--due-at", "2024-11-20T10:30:00Z"],
            "100ms.unpaid",
            r#"{"due_at":"2024-11-20T10:30:00Z","order_id":"4711"}"#,
            Some("application/json"),
        ),
        (
            &["--due-at", "2024-11-20T10:30:00Z", "--level", "2s"],
            "2s.unpaid",
            r#"{"due_at":"2024-11-20T10:30:00Z","order_id":"4711"}"#,
            Some("application/json"),
        ),
        // The longest that lets go in time; the worker waits for the rest, or sends it on.
        (&["--after", "1700ms"], "2s.unpaid", r#"{"order_id":"4711"}"#, Some("application/json")),
        (&["--after", "1400ms"], "1s.unpaid", r#"{"order_id":"4711"}"#, Some("application/json")),
        (&["--after", "37m"], "30m.unpaid", r#"{"order_id":"4711"}"#, Some("application/json")),
    ];
    for (arguments, key, body, content_type) in cases {
        let run = world.overdue(&[&["publish", "4711"], arguments].concat());
        assert_eq!(
            (run.code, run.stdout.as_str()),
            (Some(0), "published 1, all confirmed\n"),
            "{run}"
        );
        let message = wire.take_many(&along, 1).await.remove(0);
        assert_eq!((message.key.as_str(), message.text().as_str()), (key, body));
        assert_eq!(message.content_type.as_deref(), content_type);
        assert_eq!(message.delivery_mode, Some(2));
        let id = if arguments.contains(&"--due-at") { "4711@2024-11-20T10:30:00Z" } else { "4711" };
        assert_eq!(message.message_id.as_deref(), Some(id));
    }
}

#[apply(world_test)]
async fn an_unknown_level_category_or_timeout_is_refused_before_anything_is_sent() {
    let world = World::new().await;
    let cases: [(&str, &[&str]); 4] = [
        ("unknown_level", &["--level", "31m"]),
        ("unknown_category", &["--category", "subscription"]),
        ("unknown_timeout", &["--timeout", "unpayed"]),
        ("unknown_timeout_and_level", &["--timeout", "unpayed", "--level", "31m"]),
    ];
    for (name, arguments) in cases {
        let run = world.overdue(&[&["publish", "4711"], arguments].concat());
        insta::assert_snapshot!(name, world.shown(&run));
    }
    for id in ["", "two words", &"x".repeat(300)] {
        let run = world.overdue(&["publish", id]);
        assert_eq!(run.code, Some(78), "{run}");
        assert!(run.stderr.starts_with("error: the order id"), "{run}");
    }
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
    assert_eq!(
        (run.code, run.stdout.as_str()),
        (Some(0), "published 2500, all confirmed\n"),
        "{run}"
    );
    // No progress bar where nobody watches.
    assert_eq!(run.stderr, "");
    let wire = world.wire().await;
    let ready = async |queue: &str| wire.ready(queue).await;
    crate::support::until("625 in 30m", async || ready("orders.delay.30m").await, |n| *n == 625)
        .await;
    crate::support::until("all others due", async || ready("orders.unpaid").await, |n| *n == 1_875)
        .await;
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

/// From the command line, and as lines that name their delay in each way.
#[apply(world_test)]
async fn any_delay_goes_up_the_ladder_where_it_begins() {
    let world = World::of(LADDER).await;
    let wire = world.wire().await;
    let along = wire.listen("orders.ladder.10m", "#").await;
    #[expect(clippy::disallowed_methods, reason = "the publisher's clock is what is tested")]
    let now = jiff::Timestamp::now();
    let due_at = now + std::time::Duration::from_secs(37 * 60 + 55); // data: a deadline
    // At once: it is a minute less before long.
    let until = format!(r#"{{"order_id":"until","due_at":"{due_at}"}}"#);
    let run = world.overdue_with_input(&["publish"], &until);
    assert_eq!(run.code, Some(0), "{run}");
    let run = world.overdue(&["publish", "flag", "--after", "37m", "--timeout", "unpaid"]);
    assert_eq!(run.code, Some(0), "{run}");
    let lines = [
        r#"{"order_id":"line","after":"37m"}"#.to_owned(),
        // What a line says beats the flags, and with a delay `due_at` is a hint.
        format!(r#"{{"order_id":"hint","after":"37m","due_at":"{due_at}"}}"#),
        r#"{"order_id":"level","level":"37m"}"#.to_owned(),
        r#"{"order_id":"flags"}"#.to_owned(),
    ];
    let run = world.overdue_with_input(&["publish", "--after", "20m"], &lines.join("\n"));
    assert_eq!(run.code, Some(0), "{run}");
    let taken = wire.take_many(&along, 6).await;
    let key_of = |id: &str| {
        let message = taken.iter().find(|message| message.text().contains(id)).expect(id);
        message.key.clone()
    };
    for id in ["flag\"", "line", "hint", "level"] {
        assert_eq!(key_of(id), "0.0.7.3.unpaid", "{id}");
    }
    assert_eq!(key_of("flags"), "0.0.0.2.unpaid");
    // What is left by the time that it is sent.
    let until = key_of("until");
    assert!(until.ends_with(".7.3.unpaid") && until != "0.0.7.3.unpaid", "{until}");
    world.parked(0).await;
}

#[apply(world_test)]
async fn a_delay_that_cannot_be_is_named_with_its_line_and_nothing_is_sent() {
    let world = World::of(LADDER).await;
    let cases: [(&str, &[&str]); 5] = [
        ("after_over_the_maximum", &["--after", "31d"]),
        ("after_below_zero", &["--after", "-5m"]),
        ("after_unreadable", &["--after", "1h30m"]),
        ("after_and_level", &["--after", "37m", "--level", "30m"]),
        ("due_at_over_the_maximum", &["--due-at", "9999-01-01T00:00:00Z"]),
    ];
    for (name, arguments) in cases {
        let run = world.overdue(&[&["publish", "4711"], arguments].concat());
        let shown = world.shown(&run);
        if name == "due_at_over_the_maximum" {
            assert!(run.code == Some(78) && shown.contains("than the ladder holds"), "{run}");
        } else {
            insta::assert_snapshot!(name, shown);
        }
    }
    let input = [
        r#"{"order_id":"good-1","after":"0s"}"#,
        r#"{"order_id":"o-2","after":"31d"}"#,
        r#"{"order_id":"o-3","after":"-5m"}"#,
        r#"{"order_id":"o-4","after":"soon"}"#,
        r#"{"order_id":"o-5","after":"37m","level":"30m"}"#,
        r#"{"order_id":"o-6","after":37}"#,
        r#"{"order_id":"o-7","after":"3651d"}"#,
    ];
    let run = world.overdue_with_input(&["publish"], &input.join("\n"));
    insta::assert_snapshot!("after_in_bad_lines", world.shown(&run));
    assert_eq!(messages(&world).await, 0);
}

/// One place in the middle of the path is enough to lose it: the message would be parked half-way.
#[apply(world_test)]
async fn a_path_with_a_queue_that_nothing_leads_to_is_refused_before_anything_is_sent() {
    let world = World::of(LADDER).await;
    let key = "*.*.7.#";
    world.unbind("orders.ladder.1m", "orders.ladder.delay.7m", key).await;
    let run = world.overdue(&["publish", "4711", "--after", "37m"]);
    assert_eq!(run.code, Some(78), "{run}");
    let said = "the broker routes nothing to `orders.ladder.delay.7m`, a message would be parked; nothing was sent";
    assert!(run.stderr.contains(said), "{run}");
    let lines = "{\"order_id\": \"1\"}\n{\"order_id\": \"2\", \"after\": \"37m\"}\n";
    let run = world.overdue_with_input(&["publish"], lines);
    assert!(run.code == Some(78) && run.stderr.contains(said), "{run}");
    assert_eq!(world.overdue(&["publish", "4711", "--after", "36m"]).code, Some(0));
    assert_eq!(messages(&world).await, 1);
}

#[apply(world_test)]
async fn nothing_on_standard_input_is_nothing_to_do() {
    let world = World::new().await;
    let run = world.overdue_with_input(&["publish"], "\n\n");
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), "published 0, all confirmed\n"), "{run}");
}

#[apply(world_test)]
async fn bad_lines_are_named_by_number_and_nothing_is_sent() {
    let world = World::new().await;
    let input = [
        r#"{"order_id":"good-1"}"#,
        r#"{"order_id":"o-2","level":"31m"}"#,
        r#"{"order_id":"o-3","level":"30m","category":"virtual"}"#,
        "o-4",
        "",
        r#"{"order_id":"o-6","levle":"30m"}"#,
        r#"{"order_id":""}"#,
        r#"{"order_id":"o-8","timeout":"unpayed"}"#,
        r#"{"order_id":"o-9","due_at":"soon"}"#,
        r#"{"order_id":"good-10"}"#,
    ];
    let run = world.overdue_with_input(&["publish"], &input.join("\n"));
    insta::assert_snapshot!(world.shown(&run));
    assert_eq!(messages(&world).await, 0);
}

#[apply(world_test)]
async fn many_bad_lines_are_counted_and_the_first_are_shown() {
    let world = World::empty().await;
    let run = world.overdue_with_input(&["publish"], &"nonsense\n".repeat(500));
    assert_eq!(run.code, Some(78), "{run}");
    assert!(
        run.stderr.starts_with("error: 500 lines of standard input cannot be published"),
        "{run}"
    );
    assert_eq!(run.stderr.matches("  line ").count(), 20, "{run}");
}

#[apply(world_test)]
async fn a_line_that_is_no_utf8_is_named() {
    let world = World::empty().await;
    let mut command = world.command(&["publish"]);
    command.env("NO_COLOR", "1");
    let input = b"{\"order_id\":\"o-1\"}\n\xff\xfe\n";
    let run = crate::support::process::finish(command, Some(input));
    assert_eq!(run.code, Some(78), "{run}");
    assert!(run.stderr.contains("line 2"), "{run}");
}

/// Where the queue behind the level is full, the command says how many were not taken.
#[apply(world_test)]
async fn what_the_broker_refuses_is_counted_and_the_command_fails() {
    let world = World::new().await;
    let wire = world.wire().await;
    let full = [
        ("x-max-length", lapin::types::AMQPValue::LongInt(1)),
        ("x-overflow", crate::support::text("reject-publish")),
    ];
    wire.queue("full", &full).await;
    wire.bind("full", "orders.in", "30m.*").await;
    wire.publish("", "full", lapin::BasicProperties::default(), b"x").await;
    let lines: Vec<String> = (0..10).map(|n| format!("{{\"order_id\":\"o-{n}\"}}")).collect();
    let input = lines.join("\n");
    let run = world.overdue_with_input(&["publish", "--level", "30m"], &input);
    assert_eq!(run.code, Some(1), "{run}");
    assert!(
        run.stderr.starts_with("error: 10 of 10 were not confirmed; their lines are on"),
        "{run}"
    );
    assert!(run.stderr.contains("was refused by the broker (basic.nack)"), "{run}");
    // As they came, in any order, ready to be published again.
    let mut again: Vec<&str> = run.stdout.lines().collect();
    again.sort_unstable();
    assert_eq!(again, lines, "{run}");
    let run = world.overdue_with_input(&["publish", "--level", "30m", "-o", "json"], &input);
    let json = run.json();
    assert_eq!((run.code, &json["total"], &json["confirmed"]), (Some(1), &10.into(), &0.into()));
    assert_eq!(json["not_confirmed"].as_array().unwrap().len(), 10, "{run}");
}

/// The most memory that a command had, in KiB.
async fn peak_kib(world: &World, lines: usize) -> u64 {
    let pad = "x".repeat(150);
    let mut input = String::new();
    for n in 0..lines {
        writeln!(input, "{{\"order_id\":\"{pad}{n}\"}}").unwrap();
    }
    // So that nothing is sent: the lines are held up to the last one, and the test is quick.
    input.push_str("bad\n");
    let mut command = world.command(&["publish", "--level", "30m"]);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let mut stdin = child.stdin.take().unwrap();
    let most_so_far = || -> u64 {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
    };
    stdin.write_all(input.as_bytes()).unwrap();
    // It has read nearly all, and waits for the rest: after that it may end before anybody looks.
    let mut peak = most_so_far();
    drop(stdin);
    while child.try_wait().unwrap().is_none() {
        peak = peak.max(most_so_far());
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    assert_eq!(child.wait().unwrap().code(), Some(78));
    peak
}

#[cfg(target_os = "linux")]
#[apply(world_test)]
async fn many_lines_take_no_more_memory_than_few() {
    let world = World::empty().await;
    let (few, many) = (peak_kib(&world, 1_000).await, peak_kib(&world, 100_000).await);
    assert!(many < few + 8 * 1024, "{few} KiB for 1,000 lines, {many} KiB for 100,000");
}

#[apply(world_test)]
async fn a_line_without_end_is_named_and_the_others_are_looked_at() {
    let world = World::empty().await;
    let input = format!("{{\"order_id\":\"o-1\"}}\n{}\nbad\n", "x".repeat(1_000_000));
    let run = world.overdue_with_input(&["publish"], &input);
    assert_eq!(run.code, Some(78), "{run}");
    assert!(run.stderr.contains("line 2: it has more than 64 KiB"), "{run}");
    assert!(run.stderr.contains("line 3: "), "{run}");
}

/// The file is ahead of the broker: what is published there would be confirmed, and parked.
#[apply(world_test)]
async fn a_level_that_the_broker_does_not_have_is_refused_before_anything_is_sent() {
    let world = World::new().await;
    let file = world.topology_file();
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("\"30m\"]", "\"30m\", \"37m\"]")).unwrap();
    let said = "the broker has no level `37m` that takes `37m.unpaid`, a message would be parked; nothing was sent";
    let one = world.overdue(&["publish", "4711", "--level", "37m"]);
    assert_eq!(one.code, Some(78), "{one}");
    assert!(one.stderr.contains(said), "{one}");
    let lines = "{\"order_id\": \"1\"}\n{\"order_id\": \"2\", \"level\": \"37m\"}\n";
    let many = world.overdue_with_input(&["publish"], lines);
    assert_eq!(many.code, Some(78), "{many}");
    assert!(many.stderr.contains(said), "{many}");
    // A publisher that may not call the management API has AMQP to ask.
    let [url, management] =
        world.broker_user("", Some(["^orders\\.delay", "^orders\\.in$", "^$"])).await;
    let user = [
        ("OVERDUE_BROKER__URL", url.as_str()),
        ("OVERDUE_BROKER__MANAGEMENT_URL", management.as_str()),
    ];
    let asked = world.overdue_with(&["publish", "4711", "--level", "37m"], &user);
    assert_eq!(asked.code, Some(78), "{asked}");
    assert!(asked.stderr.contains(said), "{asked}");
    let there = world.overdue_with(&["publish", "4711", "--level", "30m"], &user);
    assert_eq!(there.code, Some(0), "{there}");
    world.parked(0).await;
    assert_eq!(messages(&world).await, 1);
    // A level that was changed twice has a queue of the third generation only.
    world.wire().await.queue("orders.delay.37m.3", &[]).await;
    let third = world.overdue_with(&["publish", "4711", "--level", "37m"], &user);
    assert_eq!(third.code, Some(0), "{third}");
}
