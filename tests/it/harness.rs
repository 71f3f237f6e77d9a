//! The harness itself: worlds do not meet, go away, and say what they lack.

use futures_util::FutureExt;
use url::Url;

use crate::support::{Proxy, Services, World, until, world::TOPOLOGY};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_world_goes_away_even_when_its_test_panics() {
    let services = Services::main();
    let name = std::panic::AssertUnwindSafe(async {
        let world = World::new().await;
        let _worker = world.worker();
        std::panic::panic_any(world.vhost.clone());
    });
    let panic = name.catch_unwind().await.unwrap_err();
    let name = panic.downcast::<String>().unwrap();
    assert!(services.api().get_vhost(&name).await.is_err());
    let world = World::empty().await;
    let schemas = "SELECT count(*) FROM pg_namespace WHERE nspname = ";
    assert_eq!(world.number(&format!("{schemas}'{name}'")).await, 0);
    assert_eq!(world.number(&format!("{schemas}'{}'", world.schema)).await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[should_panic(expected = "start the services with: make services")]
async fn a_test_without_a_broker_fails_and_names_the_command() {
    let management = Url::parse("http://admin:admin@127.0.0.1:1").unwrap();
    World::with(Services { management, ..Services::main() }, TOPOLOGY).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[should_panic(expected = "start the services with: make services")]
async fn a_test_without_a_database_fails_and_names_the_command() {
    let database = Url::parse("postgres://overdue:overdue@127.0.0.1:1/overdue").unwrap();
    World::with(Services { database, ..Services::main() }, TOPOLOGY).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_proxy_passes_holds_back_cuts_and_refuses() {
    let world = World::empty().await;
    let proxy = Proxy::to(&world.services.database_socket()).await;
    let url = world.services.database_url(Some(proxy.port()));
    let connect = async || {
        let (client, connection) =
            tokio_postgres::connect(&url, tokio_postgres::NoTls).await.ok()?;
        tokio::spawn(connection);
        Some(client)
    };
    let client = connect().await.expect("it passes");
    assert!(client.simple_query("SELECT 1").await.is_ok());
    proxy.freeze_to_program();
    let asked = tokio::spawn(async move { (client.simple_query("SELECT 2").await, client) });
    proxy.pass();
    let (answer, client) = asked.await.unwrap();
    assert!(answer.is_ok(), "what was held back passes");
    proxy.cut();
    until("cut", async || client.is_closed(), |closed| *closed).await;
    assert!(connect().await.is_some(), "new ones pass");
    proxy.refuse();
    assert!(connect().await.is_none());
    proxy.pass();
    assert!(connect().await.is_some());
}
