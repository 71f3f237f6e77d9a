//! The parking lot on the page: its messages, replay and drop; texts of others remain texts.

use lapin::{
    BasicProperties,
    options::{BasicGetOptions, QueueDeclareOptions},
    types::{FieldTable, ShortString},
};
use reqwest::StatusCode;

use crate::{
    parked::furnished,
    support::{World, text, ui::Visitor, until},
};

/// Polls until the parking lot was read.
async fn listed(visitor: &Visitor, path: &str) -> String {
    let look = async || visitor.page(path).await.1;
    until("the list", look, |page| !page.contains("is being read")).await
}

/// The values of a field in a page.
fn values<'a>(page: &'a str, field: &str) -> Vec<&'a str> {
    let begins = format!("name=\"{field}\" value=\"");
    page.split(&begins).skip(1).map(|rest| rest.split('"').next().unwrap()).collect()
}

/// The id of the message about an order.
fn id_of<'a>(page: &'a str, order: &str) -> &'a str {
    let (before, _) = page.split_once(&format!("aria-label=\"Select {order}\"")).expect("a row");
    let (_, id) = before.rsplit_once("value=\"").unwrap();
    id.split('"').next().unwrap()
}

/// The `seen` value of a confirmation.
async fn seen(visitor: &Visitor, fields: &[(&str, &str)]) -> String {
    let asked = visitor.form("/parked/ask", fields).send().await.unwrap().text().await.unwrap();
    values(&asked, "seen")[0].to_owned()
}

async fn done(visitor: &Visitor) -> String {
    let look = async || visitor.page("/parked").await.1;
    until("the end of the action", look, |page| {
        !page.contains("Running:") && !page.contains("is being read")
    })
    .await
}

#[apply(world_test)]
async fn a_list_says_why_and_what_the_orders_are_now() {
    let world = furnished().await;
    let ui = world.ui().await;
    let visitor = ui.visitor().await;
    let page = listed(&visitor, "/parked").await;
    for said in
        ["7 of 7 messages", "late-1", "final", "not in the database", "the body is not UTF-8"]
    {
        assert!(page.contains(said), "no {said} in\n{page}");
    }
    for (query, orders) in [
        ("order=late-1", 1),
        ("reason=not+utf", 1),
        ("timeout=unpaid", 6),
        ("older=1d", 6),
        ("newer=1h", 0),
        ("order=late-1&reason=utf", 0),
    ] {
        let page = listed(&visitor, &format!("/parked?{query}")).await;
        assert_eq!(values(&page, "message").len(), orders, "{query}\n{page}");
    }
    let wrong = listed(&visitor, "/parked?older=soon").await;
    assert!(wrong.contains("role=\"alert\""), "{wrong}");
    let id = id_of(&page, "late-1");
    let (status, message) = visitor.page(&format!("/parked/message?id={id}")).await;
    assert_eq!(status, StatusCode::OK);
    for said in ["x-shop", "north", "late-1", "is published to "] {
        assert!(message.contains(said), "no {said} in\n{message}");
    }
    let (status, _) = visitor.page("/parked/message?id=0123").await;
    assert_eq!(status, StatusCode::NOT_FOUND);
}

#[apply(world_test)]
async fn selected_messages_are_put_back_after_a_question() {
    let world = furnished().await;
    let ui = world.ui_with(&[], &[("USER", "ada")]).await;
    let visitor = ui.visitor().await;
    let page = listed(&visitor, "/parked").await;
    let ids = [id_of(&page, "late-1"), id_of(&page, "paid-0"), id_of(&page, "nobody")];
    let selected = ids.map(|id| ("message", id));
    let fields = [&selected[..], &[("do", "replay-selected")]].concat();
    let asked = visitor.form("/parked/ask", &fields).send().await.unwrap();
    assert_eq!(asked.status(), StatusCode::OK);
    let asked = asked.text().await.unwrap();
    for said in ["Replay 3 messages?", "3 selected messages", "straight to the worker", "stays: "] {
        assert!(asked.contains(said), "no {said} in\n{asked}");
    }
    assert_eq!(values(&asked, "message").len(), 3);
    // No message was replayed or dropped yet.
    crate::parked::all_back(&world, 7).await;
    for rate in ["", "0", "-1", "many"] {
        let fields = [&fields[..], &[("rate", rate)]].concat();
        let refused = visitor.form("/parked/do", &fields).send().await.unwrap();
        assert_eq!(refused.status(), StatusCode::BAD_REQUEST, "{rate}");
    }
    let fields = [&fields[..], &[("rate", "1000")]].concat();
    let sent = visitor.form("/parked/do", &fields).send().await.unwrap();
    assert_eq!(
        (sent.status(), &sent.headers()["location"]),
        (StatusCode::SEE_OTHER, &"/parked".parse().unwrap())
    );
    let page = done(&visitor).await;
    assert!(
        page.contains("Done:") && page.contains("replay 3 selected messages, for ada"),
        "{page}"
    );
    crate::parked::all_back(&world, 5).await;
    assert_eq!(world.wire().await.ready("orders.unpaid").await, 1);
    let recorded = "SELECT count(*) FROM actions WHERE via = 'page: ada' AND action = 'parked replay' AND count = 2";
    assert_eq!(world.number(recorded).await, 1);
}

#[apply(world_test)]
async fn all_that_match_are_dropped_with_a_reason() {
    let world = furnished().await;
    let ui = world.ui().await;
    let visitor = ui.visitor().await;
    listed(&visitor, "/parked").await;
    let filter = [("reason", "not UTF"), ("do", "drop-all")];
    let asked = visitor.form("/parked/ask", &filter).send().await.unwrap().text().await.unwrap();
    assert!(asked.contains("Drop 1 message?") && asked.contains("name=\"because\""), "{asked}");
    let refused = visitor.form("/parked/do", &filter).send().await.unwrap();
    assert_eq!(refused.status(), StatusCode::BAD_REQUEST);
    let seen = seen(&visitor, &filter).await;
    let fields = [&filter[..], &[("because", "a test <b>of ours</b>"), ("seen", &seen)]].concat();
    visitor.form("/parked/do", &fields).send().await.unwrap();
    let page = done(&visitor).await;
    assert!(page.contains("1 message dropped"), "{page}");
    crate::parked::all_back(&world, 6).await;
    assert_eq!(world.number("SELECT count(*) FROM dropped_messages").await, 1);
    let nothing = visitor.form("/parked/ask", &filter).send().await.unwrap();
    assert!(!nothing.status().is_success());
    for wrong in [&[("do", "replay-selected")][..], &[("do", "burn")], &[]] {
        let refused = visitor.form("/parked/ask", wrong).send().await.unwrap();
        assert_eq!(refused.status(), StatusCode::BAD_REQUEST, "{wrong:?}");
    }
}

#[apply(world_test)]
async fn a_right_that_is_missing_is_named() {
    let world = furnished().await;
    let rights = ["orders.*", "^$", "orders.*"];
    let [broker, management] = world.broker_user("monitoring", Some(rights)).await;
    let environment =
        [("OVERDUE_BROKER__URL", broker.as_str()), ("OVERDUE_BROKER__MANAGEMENT_URL", &management)];
    let ui = world.ui_with(&[], &environment).await;
    let visitor = ui.visitor().await;
    listed(&visitor, "/parked").await;
    let filter = [("order", "late-1"), ("do", "replay-all")];
    let seen = seen(&visitor, &filter).await;
    let fields = [&filter[..], &[("rate", "10"), ("seen", &seen)]].concat();
    visitor.form("/parked/do", &fields).send().await.unwrap();
    let page = done(&visitor).await;
    assert!(page.contains("Failed:") && page.contains("write access to exchange"), "{page}");
    crate::parked::all_back(&world, 7).await;
}

/// The time since the confirmation does not matter, nor do other readings of the parking lot meanwhile.
#[apply(world_test)]
async fn what_a_question_has_shown_is_dropped_and_nothing_else() {
    let world = furnished().await;
    let ui = world.ui().await;
    let visitor = ui.visitor().await;
    let wire = world.wire().await;
    let park = async |body: &'static [u8]| {
        wire.publish("orders.park", "30m.unpaid", BasicProperties::default(), body).await;
    };
    let send = async |seen: &str| {
        let fields = [("do", "drop-all"), ("because", "a test"), ("seen", seen)];
        visitor.form("/parked/do", &fields).send().await.unwrap().status()
    };
    listed(&visitor, "/parked").await;
    let first = seen(&visitor, &[("do", "drop-all")]).await;
    park(b"second").await;
    crate::parked::all_back(&world, 8).await;
    visitor.form("/parked/again", &[]).send().await.unwrap();
    assert!(listed(&visitor, "/parked").await.contains("8 of 8 messages"));
    for unknown in ["0123456789abcdef", ""] {
        assert_eq!(send(unknown).await, StatusCode::CONFLICT, "{unknown:?}");
    }
    crate::parked::all_back(&world, 8).await;
    assert_eq!(send(&first).await, StatusCode::SEE_OTHER);
    let page = done(&visitor).await;
    assert!(page.contains("7 messages dropped"), "{page}");
    crate::parked::all_back(&world, 1).await;
    assert_eq!(wire.take(crate::parked::LOT).await.unwrap().body, b"second");
}

/// The messages that a reading has unacked would be missing.
#[apply(world_test)]
async fn nobody_who_only_looks_reads_beside_whoever_takes_messages_out() {
    let world = furnished().await;
    let taking = world.wire().await;
    let options = QueueDeclareOptions { exclusive: true, ..QueueDeclareOptions::default() };
    let none = FieldTable::default();
    taking.channel.queue_declare("orders.parked.lock".into(), options, none).await.unwrap();
    let ui = world.ui().await;
    let visitor = ui.visitor().await;
    let overview = async || visitor.page("/").await.1;
    let page =
        until("the count", overview, |page| page.contains("<dt>Parked</dt><dd><b>7</b>")).await;
    assert!(!page.contains("the body is not UTF-8"), "{page}");
    for path in ["/parked", "/order?id=late-1"] {
        let page = listed(&visitor, path).await;
        assert!(page.contains("is taking messages out of orders.parked"), "{path}: {page}");
    }
    let wire = world.wire().await;
    let got = wire.channel.basic_get(crate::parked::LOT.into(), BasicGetOptions::default()).await;
    assert!(!got.unwrap().unwrap().delivery.redelivered);
    drop((wire, taking));
    crate::parked::all_back(&world, 7).await;
    let read = async || listed(&visitor, "/parked").await;
    until("the list", read, |page| page.contains("7 of 7 messages")).await;
}

const MARKUP: &str = "\"><script>alert(1)</script><img src=x onerror=alert(1)>'`\u{202e}\r\n";

/// Any publisher can write these texts.
#[apply(world_test)]
async fn nothing_of_a_message_becomes_markup() {
    let (world, wire) = World::new().await.wired().await;
    let mut headers = FieldTable::default();
    headers.insert("x-park-reason".into(), text(MARKUP));
    headers.insert("x-park-timeout".into(), text(MARKUP));
    headers.insert(ShortString::from(MARKUP), text(MARKUP));
    let properties =
        || BasicProperties::default().with_headers(headers.clone()).with_message_id(MARKUP.into());
    // An order id contains no line break.
    let order = MARKUP.trim_end();
    for body in [order.as_bytes(), MARKUP.as_bytes(), b"\xff</pre><script>alert(1)</script>"] {
        wire.publish("orders.park", MARKUP, properties(), body).await;
    }
    wire.until_ready("orders.parked", 3).await;
    let ui = world.ui().await;
    let visitor = ui.visitor().await;
    let page = listed(&visitor, "/parked").await;
    let ids = values(&page, "message");
    assert_eq!(ids.len(), 3, "{page}");
    let mut pages = vec![page.clone()];
    for id in &ids {
        pages.push(visitor.page(&format!("/parked/message?id={id}")).await.1);
    }
    let filter = url::form_urlencoded::byte_serialize(MARKUP.as_bytes()).collect::<String>();
    pages.push(listed(&visitor, &format!("/parked?order={filter}&reason={filter}")).await);
    pages.push(listed(&visitor, &format!("/parked?timeout={filter}&older={filter}")).await);
    let fields = [("message", ids[0]), ("order", MARKUP), ("do", "drop-selected")];
    pages.push(visitor.form("/parked/ask", &fields).send().await.unwrap().text().await.unwrap());
    let fields = [&fields[..], &[("because", MARKUP)]].concat();
    visitor.form("/parked/do", &fields).send().await.unwrap();
    pages.push(done(&visitor).await);
    pages.push(visitor.page("/").await.1);
    for page in pages {
        for markup in ["<script>", "<img", "\u{202e}", "\r", "'`"] {
            assert!(!page.contains(markup), "{markup:?} in\n{page}");
        }
    }
}
