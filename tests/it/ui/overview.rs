//! The overview: its content, and its live updates until the end of the session.

use reqwest::{Method, Response, StatusCode};

use crate::support::{World, until, wait::awaited};

/// Returns the next event of a live page.
async fn event(stream: &mut Response) -> String {
    let mut text = String::new();
    while !text.ends_with("\n\n") {
        let chunk = awaited("an event", stream.chunk()).await.unwrap();
        text.push_str(&String::from_utf8_lossy(&chunk.expect("the stream goes on")));
    }
    text
}

#[apply(world_test)]
async fn it_says_whether_orders_are_closed_and_what_waits_where() {
    let world = World::new().await;
    world.orders("late", 3, -90_000_000).await;
    world.orders("coming", 2, 20 * 60 * 1_000).await;
    let ui = world.ui().await;
    let visitor = ui.visitor().await;
    let look = async || visitor.page("/").await.1;
    let is_counted = |page: &String| {
        page.contains("no worker consumes orders.unpaid") && page.contains("blocked: no worker")
    };
    let page = until("the counts of the broker", look, is_counted).await;
    for said in ["LATE", "start `overdue run`", "orders.delay.30m", "none runs", "orders.parked"] {
        assert!(page.contains(said), "no {said} in\n{page}");
    }
}

#[apply(world_test)]
async fn what_cannot_be_asked_is_said_and_keeps_nothing_else_from_being_shown() {
    let world = World::new().await;
    let environment = [("OVERDUE_BROKER__MANAGEMENT_URL", "http://admin:admin@127.0.0.1:1")];
    let ui = world.ui_with(&[], &environment).await;
    let (status, page) = ui.visitor().await.page("/").await;
    assert_eq!(status, StatusCode::OK);
    for said in ["LOOK", "broker: ", "127.0.0.1:1", "Overdue now", "not known"] {
        assert!(page.contains(said), "no {said} in\n{page}");
    }
    assert!(!page.contains("admin:admin"), "{page}");
}

#[apply(world_test)]
async fn it_is_live_until_the_session_ends() {
    let world = World::new().await;
    let ui = world.ui().await;
    let visitor = ui.visitor().await;
    let stream = visitor.request(Method::GET, "/live/overview").send();
    let mut stream = awaited("the stream", stream).await.unwrap();
    assert_eq!(stream.headers()["content-type"], "text/event-stream");
    super::assert_headers(stream.headers(), "/live/overview");
    let first = event(&mut stream).await;
    assert!(first.starts_with("data: ") && first.contains("id=\"state\""), "{first}");
    event(&mut stream).await;
    visitor.form("/logout", &[]).send().await.unwrap();
    while awaited("the end of the stream", stream.chunk()).await.unwrap().is_some() {}
    let again = visitor.request(Method::GET, "/live/overview").send().await.unwrap();
    assert_eq!(again.status(), StatusCode::UNAUTHORIZED);
}
