//! docs/recipes.md: each description closes the row that is due, and no other one.

use overdue::internals::{
    order::{OrderId, Outcome},
    store::orders::ClosingPath,
};

use crate::{
    page::blocks,
    support::{World, orders::described},
};

const PAGE: &str = "docs/recipes.md";

const TABLES: &str = "
    CREATE TABLE channel (id int PRIMARY KEY, patience interval NOT NULL);
    CREATE TABLE article (article_no int PRIMARY KEY, reserved int NOT NULL);
    CREATE TABLE purchase (
        purchase_no bigint PRIMARY KEY, state int NOT NULL DEFAULT 10, created_at timestamptz NOT NULL, pay_until timestamptz NOT NULL,
        hold_until timestamp NOT NULL, valid_on date NOT NULL, details jsonb NOT NULL, method text NOT NULL DEFAULT 'card',
        channel_id int NOT NULL REFERENCES channel, deleted_at timestamptz, cancelled_at timestamptz, asked_at timestamptz,
        lock_version int NOT NULL DEFAULT 0);
    CREATE TABLE purchase_line (purchase_no bigint REFERENCES purchase ON DELETE CASCADE, article_no int REFERENCES article, pieces int NOT NULL,
        PRIMARY KEY (purchase_no, article_no));
    CREATE TABLE payment (id int PRIMARY KEY, purchase_no bigint REFERENCES purchase, status text NOT NULL);
    CREATE TABLE seat_hold (purchase_no bigint PRIMARY KEY);
    CREATE TABLE seat (no int PRIMARY KEY, taken_by bigint);
    INSERT INTO channel VALUES (1, '20 minutes');
    INSERT INTO article VALUES (7, 10);
    INSERT INTO purchase (purchase_no, created_at, pay_until, hold_until, valid_on, details, channel_id, asked_at)
    SELECT n, at, at + interval '1 h', (at + interval '1 h') AT TIME ZONE 'UTC', (at - interval '2 days')::date,
           jsonb_build_object('expires', extract(epoch FROM at + interval '1 h')::bigint), 1, NULL
    FROM (VALUES (1, now() - interval '5 days'), (2, now() + interval '3 days')) AS made (n, at);
    INSERT INTO purchase_line VALUES (1, 7, 2), (2, 7, 3);
    INSERT INTO seat_hold VALUES (1), (2);
    INSERT INTO seat VALUES (1, 1), (2, 2);";

const REST: &str = r#"
table = "purchase"
key = "purchase_no"
open = "state = 10"
deadline = "pay_until"
since = "all"
set = { state = "90" }
event = "purchase.expired"
"#;

/// A block of the page with the keys that the page omits.
fn whole(block: &str) -> toml::Table {
    let mut keys: toml::Table = toml::from_str(REST).unwrap();
    let block: toml::Table = toml::from_str(block).unwrap();
    if block.contains_key("delete") {
        keys.remove("set");
    }
    keys.extend(block);
    keys
}

#[apply(world_test)]
async fn each_recipe_closes_the_row_that_is_due() {
    let recipes: Vec<String> = blocks(PAGE)
        .into_iter()
        .filter(|(language, _)| language == "toml")
        .map(|(_, text)| text)
        .collect();
    assert!(recipes.len() >= 12, "{}", recipes.len());
    let world = World::empty().await;
    world.store.init(&world.schema, false).await.unwrap();
    let drop =
        "DROP TABLE IF EXISTS seat, seat_hold, payment, purchase_line, purchase, article, channel";
    let ids: Vec<OrderId> = ["1", "2"].map(|id| OrderId::parse(id).unwrap()).to_vec();
    for recipe in recipes {
        world.sql(&format!("{drop}; {TABLES}")).await;
        if recipe.starts_with("deadline = \"asked_at") {
            world.sql("UPDATE purchase SET asked_at = created_at").await;
        }
        let keys = whole(&recipe);
        let effect = described("expire", &keys.to_string());
        world
            .store
            .check_effect(&effect)
            .await
            .unwrap_or_else(|error| panic!("{recipe}: {error:?}"));
        if keys.contains_key("unless") {
            world.sql("INSERT INTO payment VALUES (1, 1, 'pending')").await;
            let kept = world.store.run_effect(&effect, &ids, ClosingPath::Message).await.unwrap();
            assert!(kept[0].is_guarded(), "{recipe}: {kept:?}");
            world.sql("UPDATE payment SET status = 'failed'").await;
        }
        let outcomes = world.store.run_effect(&effect, &ids, ClosingPath::Message).await.unwrap();
        assert!(matches!(outcomes[0], Outcome::Closed { .. }), "{recipe}: {outcomes:?}");
        assert!(matches!(outcomes[1], Outcome::NotDue { .. }), "{recipe}: {outcomes:?}");
        if recipe.contains("reserved") {
            assert_eq!(world.number("SELECT reserved::bigint FROM article").await, 8, "{recipe}");
        }
        if recipe.contains("seat_hold") {
            assert_eq!(world.number("SELECT sum(purchase_no)::bigint FROM seat_hold").await, 2);
            assert_eq!(world.number("SELECT count(taken_by) FROM seat").await, 1);
        }
    }
}
