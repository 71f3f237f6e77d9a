//! Pages that only show: what they say is what the command line says.

use reqwest::{Method, StatusCode};

use super::assert_headers;
use crate::support::{World, ui::Visitor};

async fn shown(visitor: &Visitor, path: &str) -> String {
    let response = visitor.request(Method::GET, path).send().await.unwrap();
    assert_eq!(response.status(), StatusCode::OK, "{path}");
    assert_headers(response.headers(), path);
    response.text().await.unwrap()
}

#[apply(world_test)]
async fn each_says_what_the_command_says() {
    let world = World::new().await;
    world.orders("late", 1, -180_000).await;
    world.orders("soon", 7, 5_400_000).await;
    world
        .sql(
            "INSERT INTO outbox_refused (id, event, order_id, reason) VALUES (1, 'order.closed', 'o', 'too <long>');
             INSERT INTO closures (order_id, effect, path, due_at) VALUES ('done', 'close', 'sweep', now() - interval '3 s')",
        )
        .await;
    let ui = world.ui().await;
    let visitor = ui.visitor().await;
    let order = shown(&visitor, "/order?id=late-0").await;
    assert!(order.contains("late-0 is ") && order.contains("m late"), "{order}");
    assert!(order.contains("state bad") && order.contains("value=\"late-0\""), "{order}");
    let done = shown(&visitor, "/order?id=done").await;
    assert!(done.contains("by the sweep: no message had closed it"), "{done}");
    let wrong = shown(&visitor, "/order?id=a%20b").await;
    assert!(wrong.contains("the order id has white space"), "{wrong}");
    assert!(shown(&visitor, "/order").await.contains("name=\"id\""));

    assert!(!order.contains("/parked?order="), "nothing of it is parked: {order}");

    let soon = shown(&visitor, "/soon").await;
    assert!(
        soon.contains("7 orders in the next 12 h") && soon.contains("1 order overdue now"),
        "{soon}"
    );
    assert!(soon.contains("which is assumed") || soon.contains("as in the last hour"), "{soon}");

    let health = shown(&visitor, "/health").await;
    let said = [
        "too &#60;long&#62;",
        "<td class=\"look\">warning</td><td>Topology: consumers</td>",
        "As it should be",
        "Broker: version",
    ];
    for said in said {
        assert!(health.contains(said), "{said}: {health}");
    }
}

#[apply(world_test)]
async fn what_cannot_be_read_says_why_and_the_page_is_there() {
    let world = World::new().await;
    let gone = [("OVERDUE_DATABASE__URL", "postgres://postgres@127.0.0.1:1/postgres")];
    let ui = world.ui_with(&[], &gone).await;
    let visitor = ui.visitor().await;
    for path in ["/soon", "/health"] {
        let page = shown(&visitor, path).await;
        assert!(page.contains("cannot connect to PostgreSQL at 127.0.0.1:1"), "{path}: {page}");
    }
    let order = shown(&visitor, "/order?id=4711").await;
    assert!(order.contains("the state of 4711 is unknown"), "{order}");
}
