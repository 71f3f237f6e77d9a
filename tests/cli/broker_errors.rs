//! A broker that is down, refuses, or is another program: each gives one clear message and changes nothing.

use std::net::TcpListener;

use crate::{
    runs::Runs,
    support::{World, proxy::renamed},
};

/// `publish` uses AMQP first, the others the management API.
const COMMANDS: [&[&str]; 3] = [&["publish", "4711"], &["apply", "--yes"], &["run"]];

fn urls<'a>(broker: &'a str, management: &'a str) -> [(&'a str, &'a str); 2] {
    [("OVERDUE_BROKER__URL", broker), ("OVERDUE_BROKER__MANAGEMENT_URL", management)]
}

/// Each command runs with other addresses and users, in one virtual host without a topology.
#[apply(world_test)]
async fn what_each_refusal_says() {
    let world = World::empty().await;
    world.store.init(&world.schema, true).await.unwrap();
    let mut runs = Runs::default();
    let all = |runs: &mut Runs, title: &str, environment: &[(&str, &str)], code| {
        runs.heading(title);
        let [published, _, started] = COMMANDS.map(|it| runs.at(&world, it, environment));
        assert_eq!((started.code, started.stderr), (Some(code), published.stderr));
    };
    let nowhere = world.services.broker_url("nowhere", None);
    all(&mut runs, "no such virtual host", &[("OVERDUE_BROKER__URL", nowhere.as_str())], 78);
    let [url, management] = world.broker_user("management", None).await;
    all(&mut runs, "a user without access to the virtual host", &urls(&url, &management), 77);
    // The user of `broker.url` may use it. RabbitMQ 4.0 answers the other user as if the password were wrong.
    let applied =
        world.overdue_with(COMMANDS[1], &[("OVERDUE_BROKER__MANAGEMENT_URL", &management)]);
    match applied.code {
        Some(77) => assert!(applied.stderr.contains("may not list the exchanges"), "{applied}"),
        code => {
            assert_eq!(code, Some(78), "{applied}");
            assert!(applied.stderr.contains("is there by AMQP"), "{applied}");
            assert!(applied.stderr.contains("changes `%2F`"), "{applied}");
        }
    }
    let nobody = ["amqp://admin:s3cret@127.0.0.1:1/%2f", "http://admin:s3cret@127.0.0.1:1"];
    runs.heading("no server listens");
    // A worker waits for the virtual host.
    for command in &COMMANDS[..2] {
        runs.at(&world, command, &urls(nobody[0], nobody[1]));
    }
    // The user has rights for the following runs.
    let [url, management] = world.broker_user("management", Some([".*"; 3])).await;
    let wrong = |url: &str| {
        assert!(url.contains("pass%20word"), "{url}");
        url.replace("pass%20word", "s3cret")
    };
    all(&mut runs, "a wrong password", &urls(&wrong(&url), &wrong(&management)), 77);
    runs.heading("a user without the management tag");
    let [url, management] = world.broker_user("", Some([".*"; 3])).await;
    runs.at(&world, COMMANDS[1], &urls(&url, &management));
    runs.heading("no topology on the broker");
    runs.at(&world, COMMANDS[0], &[]);
    insta::assert_snapshot!(runs);
    let unknown = [("OVERDUE_BROKER__URL", "amqp://admin:admin@no-such-host.invalid/%2f")];
    for command in [COMMANDS[0], COMMANDS[2]] {
        world.overdue_with(command, &unknown).exits(69).reports("no-such-host.invalid");
    }
}

/// The name is in AMQP and in the management API; each command reads one of them.
#[apply(world_test)]
async fn another_broker_is_refused_by_its_name() {
    let world = World::of_tables().await;
    let (name, says) = (*b"LavinMQ1", "is LavinMQ1, and not RabbitMQ");
    let broker = renamed(world.services.broker_socket(), name).await;
    let broker = world.services.broker_url(&world.vhost, Some(broker));
    let management = renamed(world.services.management_socket(), name).await;
    let management = format!("http://admin:admin@127.0.0.1:{management}");
    let [by_amqp, by_http] =
        [("OVERDUE_BROKER__URL", &*broker), ("OVERDUE_BROKER__MANAGEMENT_URL", &*management)];
    for command in [&["publish", "4711"][..], &["run"], &["run", "--no-declare"]] {
        world.overdue_with(command, &[by_amqp]).exits(78).reports(says);
    }
    for command in [&["plan"][..], &["apply", "--yes"], &["verify"], &["run"]] {
        world.overdue_with(command, &[by_http]).exits(78).reports(says);
    }
    let doctor = world.overdue_with(&["doctor"], &[by_amqp, by_http]).exits(2);
    assert!(doctor.stdout.contains(says), "{doctor}");
}

/// The management API would answer for all virtual hosts as if they were this one.
#[apply(world_test)]
async fn a_virtual_host_without_a_name_is_refused() {
    let world = World::new().await;
    let socket = world.services.broker_socket();
    for end in ["/", "/.", "/..", "/%2E%2E"] {
        let url = format!("amqp://admin:admin@{socket}{end}");
        for command in [&["plan"][..], &["apply", "--yes"], &["verify"]] {
            let run = world.overdue_with(command, &[("OVERDUE_BROKER__URL", &url)]);
            run.exits(78).reports("names a virtual host without a name: leave the slash out");
        }
    }
}

/// A publisher that may write only to the entry exchange, as in docs/services.md; and one that may not.
#[apply(world_test)]
async fn a_publisher_with_the_least_permissions_can_publish_and_nothing_else() {
    let world = World::new().await;
    let [url, management] = world.broker_user("", Some(["^$", r"^orders\.in$", "^$"])).await;
    world.overdue_with(&["publish", "4711", "--level", "100ms"], &urls(&url, &management)).exits(0);
    let wire = world.wire().await;
    assert_eq!(wire.take_many("orders.unpaid", 1).await[0].text(), r#"{"order_id":"4711"}"#);
    let [url, management] = world.broker_user("", Some([r"^$"; 3])).await;
    let mut runs = Runs::default();
    runs.at(&world, COMMANDS[0], &urls(&url, &management));
    insta::assert_snapshot!(runs);
}

/// A server that never answers, and the two ports exchanged.
#[apply(world_test)]
async fn another_server_listens() {
    let world = World::empty().await;
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = silent.local_addr().unwrap().port();
    let (amqp, management) = (&world.services.broker, &world.services.management);
    for (amqp, management, says) in [
        (silent, silent, "did not finish the AMQP handshake within 1s"),
        (management.port().unwrap(), amqp.port().unwrap(), ""),
    ] {
        let broker = format!("amqp://admin:admin@127.0.0.1:{amqp}/%2f");
        let api = format!("http://admin:admin@127.0.0.1:{management}");
        let [broker, api] = urls(&broker, &api);
        let urls = [broker, api, ("OVERDUE_TEST_TIMING", "tenth")];
        let (published, applied) = std::thread::scope(|scope| {
            let published = scope.spawn(|| world.overdue_with(COMMANDS[0], &urls));
            let applied = scope.spawn(|| world.overdue_with(COMMANDS[1], &urls));
            (published.join().unwrap(), applied.join().unwrap())
        });
        for run in [&published, &applied] {
            assert_eq!(run.code, Some(69), "{run}");
            assert!(run.stderr.contains("127.0.0.1:"), "{run}");
        }
        assert!(published.stderr.contains(says), "{published}");
    }
}
