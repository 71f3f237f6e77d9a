//! Tables of real projects, each with its description in `tests/schemas`: the description alone gives the right rows, counters and
//! columns.

use std::fs;

use overdue::internals::{
    order::{OrderId, Outcome},
    store::{
        Store,
        orders::{ClosingPath, Effect},
    },
};

use crate::support::{World, orders::described};

/// A project's tables with their rows, in the schema of the world; and their effect.
async fn project(name: &str) -> (World, Effect) {
    let read = |kind: &str| fs::read_to_string(format!("tests/schemas/{name}.{kind}")).unwrap();
    let world = World::empty().await;
    world.store.init(&world.schema, false).await.unwrap();
    world.sql(&in_schema(&world, &read("sql"))).await;
    let effect = described("expire", &in_schema(&world, &read("toml")));
    (world, effect)
}

/// Replaces the schemas of a project by the world's schema.
pub(super) fn in_schema(world: &World, text: &str) -> String {
    ["ordering.", "action.", "asset."]
        .iter()
        .fold(text.to_owned(), |text, schema| text.replace(schema, &format!("{}.", world.schema)))
}

/// Closes the overdue rows, page by page.
pub(super) async fn close_overdue(store: &Store, effect: &Effect) {
    let look = store.statements(effect).await.unwrap().overdue.clone().unwrap();
    let (mut due_at, mut key) = ("-infinity".to_owned(), String::new());
    loop {
        let sql = look.replace("$1", "3").replace("$2", "0").replace("$4", &format!("'{key}'"));
        let sql = sql.replace("$3", &format!("timestamptz '{due_at}'"));
        let sql = format!("SELECT order_id, due_at::text FROM ({}) AS page", sql.trim());
        let rows = store.client().await.unwrap().query(&sql, &[]).await.unwrap();
        let Some(last) = rows.last() else { return };
        (key, due_at) = (last.get(0), last.get(1));
        let ids: Vec<OrderId> =
            rows.iter().map(|row| OrderId::parse(row.get(0)).unwrap()).collect();
        let outcomes = store.run_effect(effect, &ids, ClosingPath::Sweep).await.unwrap();
        for (id, outcome) in ids.iter().zip(outcomes) {
            let is_kept = matches!(outcome, Outcome::NotDue { .. });
            assert!(is_kept || outcome.final_state().is_some(), "{id}: {outcome:?}");
        }
    }
}

async fn what_comes_out(name: &str) {
    let (world, effect) = project(name).await;
    world.store.check_effect(&effect).await.unwrap_or_else(|error| panic!("{name}: {error:?}"));
    // The result must not depend on the time zone of the session.
    let url = world.services.database_url(None);
    let sign = if url.contains('?') { "&" } else { "?" };
    let url = format!("{url}{sign}options=-ctimezone%3DAsia/Tokyo");
    let store = Store::new(&url, &world.schema, 4).unwrap();
    close_overdue(&store, &effect).await;
    assert_eq!(differences(&world, name).await, Vec::<String>::new(), "{name}");
}

/// Returns each result that differs from the file.
pub(super) async fn differences(world: &World, name: &str) -> Vec<String> {
    let check = fs::read_to_string(format!("tests/schemas/{name}.check.sql")).unwrap();
    let mut lines = check.lines();
    let mut different = Vec::new();
    while let (Some(want), Some(sql)) = (lines.next(), lines.next()) {
        let sql = in_schema(world, sql.trim_end_matches(';'));
        let found = world.rows(&sql).await[0].get::<_, Option<String>>(0).unwrap_or_default();
        let want = want.trim_start_matches("-- ");
        if found != want {
            different.push(format!("{found} instead of {want}"));
        }
    }
    different
}

macro_rules! projects {
    ($($name:ident)*) => {$(
        #[apply(world_test)]
        async fn $name() {
            what_comes_out(stringify!($name)).await;
        }
    )*};
}

projects!(tickets checkouts pretix medusa hievents hyperswitch evergreen eshop btcpay evershop spree oscar loms idempotency
    saleor alfio sylius calcom lago seats lightning quotes contracts bookings giftcards lots);
