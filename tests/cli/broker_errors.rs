//! A broker that is not there, refuses, or is something else: one clear message each, nothing half done.

use std::net::TcpListener;

use crate::support::World;

/// The three commands that talk to the broker; `publish` over AMQP, the others over the management API first.
const COMMANDS: [&[&str]; 3] = [&["publish", "4711"], &["apply", "--yes"], &["run"]];

async fn world_with_tables() -> World {
    let world = World::empty().await;
    world.store.init(&world.schema, true).await.unwrap();
    world
}

fn replaced(url: &str, from: &str, to: &str) -> String {
    assert!(url.contains(from), "{url}");
    url.replace(from, to)
}

#[apply(world_test)]
async fn a_wrong_password() {
    let world = world_with_tables().await;
    let [url, management] = world.broker_user("management", Some([".*"; 3])).await;
    let url = replaced(&url, "pass%20word", "wrong");
    let management = replaced(&management, "pass%20word", "wrong");
    let wrong = [
        ("OVERDUE_BROKER__URL", url.as_str()),
        ("OVERDUE_BROKER__MANAGEMENT_URL", management.as_str()),
    ];
    let [published, applied, started] = COMMANDS.map(|command| world.overdue_with(command, &wrong));
    insta::assert_snapshot!("wrong_password_amqp", world.shown(&published));
    insta::assert_snapshot!("wrong_password_management", world.shown(&applied));
    assert_eq!((started.code, started.stderr), (Some(77), published.stderr));
}

#[apply(world_test)]
async fn a_virtual_host_that_does_not_exist() {
    let world = world_with_tables().await;
    let nowhere = world.services.broker_url("nowhere", None);
    let wrong = [("OVERDUE_BROKER__URL", nowhere.as_str())];
    let [published, applied, started] = COMMANDS.map(|command| world.overdue_with(command, &wrong));
    insta::assert_snapshot!("no_virtual_host_amqp", world.shown(&published));
    insta::assert_snapshot!("no_virtual_host_management", world.shown(&applied));
    assert_eq!((started.code, started.stderr), (Some(78), published.stderr));
}

#[apply(world_test)]
async fn a_user_without_access_to_the_virtual_host() {
    let world = world_with_tables().await;
    let [url, management] = world.broker_user("management", None).await;
    let user = [
        ("OVERDUE_BROKER__URL", url.as_str()),
        ("OVERDUE_BROKER__MANAGEMENT_URL", management.as_str()),
    ];
    let [published, applied, started] = COMMANDS.map(|command| world.overdue_with(command, &user));
    insta::assert_snapshot!("no_access_amqp", world.shown(&published));
    insta::assert_snapshot!("no_access_management", world.shown(&applied));
    assert_eq!((started.code, started.stderr), (Some(77), published.stderr));
}

/// The user of `broker.url` may use it. RabbitMQ 4.0 answers the other one like a wrong password.
#[apply(world_test)]
async fn a_virtual_host_that_only_amqp_opens() {
    let world = world_with_tables().await;
    let [_, management] = world.broker_user("management", None).await;
    let user = [("OVERDUE_BROKER__MANAGEMENT_URL", management.as_str())];
    let applied = world.overdue_with(&["apply", "--yes"], &user);
    match applied.code {
        Some(77) => assert!(applied.stderr.contains("may not list the exchanges"), "{applied}"),
        code => {
            assert_eq!(code, Some(78), "{applied}");
            assert!(applied.stderr.contains("is there by AMQP"), "{applied}");
            assert!(applied.stderr.contains("changes `%2F`"), "{applied}");
        }
    }
}

#[apply(world_test)]
async fn a_user_without_the_management_tag() {
    let world = world_with_tables().await;
    let [url, management] = world.broker_user("", Some([".*"; 3])).await;
    let user = [
        ("OVERDUE_BROKER__URL", url.as_str()),
        ("OVERDUE_BROKER__MANAGEMENT_URL", management.as_str()),
    ];
    let applied = world.overdue_with(&["apply", "--yes"], &user);
    insta::assert_snapshot!(world.shown(&applied));
}

/// A publisher that may write to the entry exchange only, as docs/services.md has it.
#[apply(world_test)]
async fn a_publisher_with_the_least_permissions_can_publish_and_nothing_else() {
    let world = World::new().await;
    let [url, management] = world.broker_user("", Some(["^$", r"^orders\.in$", "^$"])).await;
    let user = [
        ("OVERDUE_BROKER__URL", url.as_str()),
        ("OVERDUE_BROKER__MANAGEMENT_URL", management.as_str()),
    ];
    let published = world.overdue_with(&["publish", "4711", "--level", "100ms"], &user);
    assert_eq!(published.code, Some(0), "{published}");
    let wire = world.wire().await;
    assert_eq!(wire.take_many("orders.unpaid", 1).await[0].text(), r#"{"order_id":"4711"}"#);
}

#[apply(world_test)]
async fn a_publisher_that_may_not_write() {
    let world = World::new().await;
    let [url, _] = world.broker_user("", Some([r"^$"; 3])).await;
    let published =
        world.overdue_with(&["publish", "4711"], &[("OVERDUE_BROKER__URL", url.as_str())]);
    insta::assert_snapshot!(world.shown(&published));
}

#[apply(world_test)]
async fn publishing_without_a_topology_on_the_broker() {
    let world = World::empty().await;
    insta::assert_snapshot!(world.shown(&world.overdue(&["publish", "4711"])));
}

#[apply(world_test)]
async fn nobody_listens() {
    let world = world_with_tables().await;
    let nowhere = [
        ("OVERDUE_BROKER__URL", "amqp://admin:admin@127.0.0.1:1/%2f"),
        ("OVERDUE_BROKER__MANAGEMENT_URL", "http://admin:admin@127.0.0.1:1"),
    ];
    let [published, applied, started] =
        COMMANDS.map(|command| world.overdue_with(command, &nowhere));
    insta::assert_snapshot!("nobody_listens_amqp", world.shown(&published));
    insta::assert_snapshot!("nobody_listens_management", world.shown(&applied));
    assert_eq!((started.code, started.stderr), (Some(69), published.stderr));
}

/// The worker needs AMQP as well: that only the management API answers is not enough.
#[apply(world_test)]
async fn a_host_name_that_does_not_exist() {
    let world = world_with_tables().await;
    let nowhere = [("OVERDUE_BROKER__URL", "amqp://admin:admin@no-such-host.invalid/%2f")];
    let published = world.overdue_with(&["publish", "4711"], &nowhere);
    assert_eq!(published.code, Some(69), "{published}");
    assert!(published.stderr.contains("no-such-host.invalid"), "{published}");
}

#[apply(world_test)]
async fn somebody_listens_and_never_answers() {
    let world = world_with_tables().await;
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let broker = format!("amqp://admin:admin@127.0.0.1:{port}/%2f");
    let management = format!("http://admin:admin@127.0.0.1:{port}");
    let urls = [
        ("OVERDUE_BROKER__URL", broker.as_str()),
        ("OVERDUE_BROKER__MANAGEMENT_URL", management.as_str()),
        ("OVERDUE_TEST_TIMING", "tenth"),
    ];
    let (published, applied) = std::thread::scope(|scope| {
        let published = scope.spawn(|| world.overdue_with(&["publish", "4711"], &urls));
        let applied = scope.spawn(|| world.overdue_with(&["apply", "--yes"], &urls));
        (published.join().unwrap(), applied.join().unwrap())
    });
    for silent in [&published, &applied] {
        assert_eq!(silent.code, Some(69), "{silent}");
        assert!(silent.stderr.contains(&format!("127.0.0.1:{port}")), "{silent}");
    }
    assert!(
        published.stderr.contains("did not finish the AMQP handshake within 1s"),
        "{published}"
    );
}

/// The two ports confused, which everybody does once.
#[apply(world_test)]
async fn somebody_else_listens() {
    let world = world_with_tables().await;
    let (amqp, management) = (&world.services.broker, &world.services.management);
    let swapped = [
        format!("amqp://admin:admin@127.0.0.1:{}/%2f", management.port().unwrap()),
        format!("http://admin:admin@127.0.0.1:{}", amqp.port().unwrap()),
    ];
    let urls = [
        ("OVERDUE_BROKER__URL", swapped[0].as_str()),
        ("OVERDUE_BROKER__MANAGEMENT_URL", swapped[1].as_str()),
    ];
    for command in [&["publish", "4711"][..], &["apply", "--yes"]] {
        let run = world.overdue_with(command, &urls);
        assert_eq!(run.code, Some(69), "{run}");
        assert!(run.stderr.contains("cannot reach") || run.stderr.contains("handshake"), "{run}");
    }
}
