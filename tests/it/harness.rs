//! The harness itself: worlds are separate, and are deleted.

use futures_util::FutureExt;
use reqwest::Method;
use serde_json::Value;

use crate::support::{Services, World};

#[apply(world_test)]
async fn a_world_goes_away_even_when_its_test_panics() {
    let services = Services::main();
    let name = std::panic::AssertUnwindSafe(async {
        let world = World::new().await;
        let _worker = world.worker();
        std::panic::panic_any(world.vhost.clone());
    });
    let panic = name.catch_unwind().await.unwrap_err();
    let name = panic.downcast::<String>().unwrap();
    let there = services.call(None, Method::GET, &["vhosts", &name], Value::Null).await;
    assert!(there.is_err(), "{there:?}");
    let world = World::empty().await;
    let schemas = "SELECT count(*) FROM pg_namespace WHERE nspname = ";
    assert_eq!(world.number(&format!("{schemas}'{name}'")).await, 0);
    assert_eq!(world.number(&format!("{schemas}'{}'", world.schema)).await, 1);
}
