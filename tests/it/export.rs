//! After an import of the export, a broker needs no plan.

use std::collections::BTreeSet;

use overdue::internals::{broker::apply, export::definitions, topology::Topology};
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{
    Services, World,
    samples::{LADDER, dotted_compat, dotted_ladder, named},
};

async fn assert_complete(world: &World, topology: &Topology) {
    let management = world.management();
    let (plan, _) = apply::plan(&management, topology, &BTreeSet::new()).await.unwrap();
    assert!(plan.is_empty() && plan.draining.is_empty(), "{plan}");
}

pub(crate) async fn assert_exports_are_complete(services: Services, text: &str) {
    let world = World::bare(services, text).await;
    let body = exported(&world.topology, &world, false);
    world.call(Method::POST, "definitions", &[], body).await;
    assert_complete(&world, &world.topology).await;
}

#[apply(world_test)]
async fn a_ladder() {
    assert_exports_are_complete(Services::main(), LADDER).await;
    assert_exports_are_complete(Services::main(), &dotted_ladder()).await;
}

#[apply(world_test)]
async fn an_exchange_that_is_taken_over() {
    assert_exports_are_complete(Services::main(), &dotted_compat()).await;
}

fn exported(topology: &Topology, world: &World, create_vhost: bool) -> Value {
    serde_json::from_str(&definitions::render(topology, &world.vhost, create_vhost)).unwrap()
}

#[apply(world_test)]
async fn definitions_imported_into_a_virtual_host() {
    for queue_type in ["quorum", "classic"] {
        let (topology, world) = (named("a.b", queue_type), World::empty().await);
        let path = ["definitions", &world.vhost];
        world
            .services
            .call(None, Method::POST, &path, exported(&topology, &world, false))
            .await
            .unwrap();
        assert_complete(&world, &topology).await;
    }
}

#[apply(world_test)]
async fn definitions_imported_as_a_whole_leave_the_virtual_host_as_it_is() {
    let (topology, world) = (named("a.b", "quorum"), World::empty().await);
    let path = ["vhosts", &world.vhost];
    let properties = json!({ "description": "a shop", "default_queue_type": "quorum" });
    world.services.call(None, Method::PUT, &path, properties).await.unwrap();
    let before = world.services.call(None, Method::GET, &path, Value::Null).await.unwrap();
    let body = exported(&topology, &world, false);
    world.services.call(None, Method::POST, &["definitions"], body).await.unwrap();
    assert_complete(&world, &topology).await;
    let after = world.services.call(None, Method::GET, &path, Value::Null).await.unwrap();
    assert_eq!(after["metadata"], before["metadata"]);
    assert_eq!(after["metadata"]["description"], "a shop");
}

#[apply(world_test)]
async fn definitions_create_the_virtual_host_where_asked() {
    let (topology, world) = (named("a.b", "quorum"), World::empty().await);
    world
        .services
        .call(None, Method::DELETE, &["vhosts", &world.vhost], Value::Null)
        .await
        .unwrap();
    let import = |create_vhost| {
        world.services.call(
            None,
            Method::POST,
            &["definitions"],
            exported(&topology, &world, create_vhost),
        )
    };
    let refused = import(false).await.unwrap_err();
    assert!(refused.contains("create virtual host"), "{refused}");
    import(true).await.unwrap();
    assert_complete(&world, &topology).await;
}
