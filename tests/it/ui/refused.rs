//! Refusals of `overdue ui`: other hosts, other origins, forms of others, and oversized or excess requests.

use std::time::Duration;

use reqwest::{
    Method, StatusCode,
    header::{COOKIE, HOST, ORIGIN},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::{PAGES, TOKEN, assert_headers, token_file};
use crate::support::{
    World,
    ui::{Visitor, plain_client},
    until,
    wait::awaited,
};

#[apply(world_test)]
async fn nobody_sees_a_page_without_a_session() {
    let world = World::empty().await;
    let ui = world.ui().await;
    let visitor = ui.visitor().await;
    let name = visitor.cookie.split('=').next().unwrap();
    let wrong = [
        String::new(),
        format!("{name}="),
        format!("{name}={}", "0".repeat(64)),
        format!("other_{}", visitor.cookie),
        visitor.cookie[..visitor.cookie.len() - 1].to_owned(),
    ];
    for path in PAGES.into_iter().chain(["/none", "/../etc/passwd", "//example.com/"]) {
        for cookie in &wrong {
            let request = plain_client().get(format!("{}{path}", ui.base)).header(COOKIE, cookie);
            let response = request.send().await.unwrap();
            assert_eq!(response.status(), StatusCode::UNAUTHORIZED, "{path} {cookie}");
            assert_headers(response.headers(), path);
        }
    }
    for path in ["/logout", "/", "/none"] {
        let request = plain_client().post(format!("{}{path}", ui.base)).header(ORIGIN, &ui.base);
        assert_eq!(request.send().await.unwrap().status(), StatusCode::UNAUTHORIZED, "{path}");
    }
    assert_eq!(visitor.page("/").await.0, StatusCode::OK);
}

/// DNS rebinding: the name of an attacker's page resolves to this address.
#[apply(world_test)]
async fn a_host_that_is_not_known_is_refused() {
    let world = World::empty().await;
    let environment = [("OVERDUE_UI__HOSTS", "ops.example.com, overdue.example.com")];
    let ui = world.ui_with(&[], &environment).await;
    let visitor = ui.visitor().await;
    let asked = async |host: &str| {
        let request = visitor.request(Method::GET, "/").header(HOST, host);
        request.send().await.unwrap().status()
    };
    let good = ["localhost", "LOCALHOST:8080", "127.0.0.1:1", "[::1]:80", "overdue.example.com"];
    for host in good {
        assert_eq!(asked(host).await, StatusCode::OK, "{host}");
    }
    let bad = [
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "192.0.2.7",
        "user@localhost",
        "evil.overdue.example.com",
        "0.0.0.0",
    ];
    for host in bad {
        assert_eq!(asked(host).await, StatusCode::FORBIDDEN, "{host}");
    }
    let login = plain_client().get(ui.link()).header(HOST, "evil.example").send().await.unwrap();
    assert_eq!(login.status(), StatusCode::FORBIDDEN);
}

#[apply(world_test)]
async fn an_action_needs_the_origin_and_the_token_of_its_session() {
    let world = World::empty().await;
    let file = token_file(&world);
    let ui = world.ui_with(&["--token-file", &file], &[]).await;
    let [visitor, other] = [
        Visitor::of(&ui.base, &ui.login(TOKEN, "Ada").await).await,
        Visitor::of(&ui.base, &ui.login(TOKEN, "Bob").await).await,
    ];
    let body = format!("csrf={}", visitor.csrf);
    let sent = async |origin: Option<&str>, body: &str, more: Option<&str>| {
        let mut request = visitor.request(Method::POST, "/logout").body(body.to_owned());
        if let Some(origin) = origin {
            request = request.header(ORIGIN, origin);
        }
        if let Some(site) = more {
            request = request.header("sec-fetch-site", site);
        }
        request.send().await.unwrap().status()
    };
    let port = ui.base.rsplit(':').next().unwrap();
    let localhost = format!("http://localhost:{port}");
    for origin in [
        None,
        Some("null"),
        Some("http://evil.example"),
        Some("http://127.0.0.1:1"),
        Some(localhost.as_str()),
        Some("file://"),
    ] {
        assert_eq!(sent(origin, &body, None).await, StatusCode::FORBIDDEN, "{origin:?}");
    }
    let own = Some(ui.base.as_str());
    for site in ["cross-site", "same-site", "none"] {
        assert_eq!(sent(own, &body, Some(site)).await, StatusCode::FORBIDDEN, "{site}");
    }
    let others = format!("csrf={}", other.csrf);
    for body in ["", "csrf=", "csrf=0", others.as_str(), "{\"csrf\":1}"] {
        assert_eq!(sent(own, body, None).await, StatusCode::FORBIDDEN, "{body}");
    }
    assert_eq!(visitor.page("/").await.0, StatusCode::OK);
    assert_eq!(sent(own, &body, Some("same-origin")).await, StatusCode::SEE_OTHER);
}

#[apply(world_test)]
async fn other_methods_large_forms_and_other_paths_are_refused() {
    let world = World::empty().await;
    let ui = world.ui().await;
    let visitor = ui.visitor().await;
    for method in ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "PROPFIND"] {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let response = visitor.request(method.clone(), "/").send().await.unwrap();
        assert_eq!(response.status(), StatusCode::METHOD_NOT_ALLOWED, "{method}");
        assert_headers(response.headers(), "/");
    }
    let large = format!("csrf={}&more={}", visitor.csrf, "x".repeat(64 * 1024));
    let response = visitor.post("/logout", large).send().await.unwrap();
    assert_eq!(response.status(), StatusCode::PAYLOAD_TOO_LARGE);
    let response = visitor.form("/", &[]).send().await.unwrap();
    assert_eq!(response.status(), StatusCode::METHOD_NOT_ALLOWED);
    let paths = ["/none", "/assets/..%2f..%2f..%2fetc/passwd", "/assets/%2e%2e/ui.rs"];
    for path in paths {
        let (status, page) = visitor.page(path).await;
        assert_eq!(status, StatusCode::NOT_FOUND, "{path}");
        assert!(!page.contains("root:"), "{path}");
    }
    // No part of a request becomes a redirect to another host.
    for path in ["//evil.example/", "/login?next=//evil.example", "/logout?to=https://evil.example"]
    {
        let response = visitor.request(Method::GET, path).send().await.unwrap();
        assert!(!response.headers().contains_key("location"), "{path}");
        assert!(!response.text().await.unwrap().contains("evil.example"), "{path}");
    }
}

/// A thousand silent connections, and then a client with a session.
#[apply(world_test)]
async fn many_connections_and_slow_ones_keep_nobody_out() {
    let world = World::empty().await;
    let ui = world.ui().await;
    let visitor = ui.visitor().await;
    let address = ui.base.trim_start_matches("http://");
    let mut silent = Vec::new();
    for at in 0..1_000 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        if at % 2 == 0 {
            // The server may have closed this connection already.
            let _sent = stream.write_all(b"POST / HTTP/1.1\r\nHost: loc").await;
        }
        silent.push(stream);
    }
    assert_eq!(visitor.page("/").await.0, StatusCode::OK);
    // The server has closed the oldest connections, and keeps the announced number.
    let first = &mut silent[0];
    let closed = awaited("the end of the oldest", first.read(&mut [0; 1])).await;
    assert!(closed.map_or(true, |bytes| bytes == 0));
    // A connection closes a moment later.
    let kept = async || count_open(&mut silent).await;
    until("the others have made way, too", kept, |kept| *kept <= 128).await;
}

async fn count_open(streams: &mut [TcpStream]) -> usize {
    let mut open = 0;
    for stream in streams {
        let read = tokio::time::timeout(Duration::from_millis(1), stream.read(&mut [0; 1])).await;
        open += usize::from(read.is_err());
    }
    open
}

#[apply(world_test)]
async fn no_token_and_no_session_is_in_the_log() {
    let world = World::empty().await;
    let ui = world.ui_with(&[], &[("OVERDUE_LOG__FILTER", "trace")]).await;
    let visitor = ui.visitor().await;
    visitor.page("/").await;
    visitor.form("/logout", &[]).send().await.unwrap();
    let log = ui.process.log();
    let token = ui.link().split_once("token=").unwrap().1;
    let session = visitor.cookie.split_once('=').unwrap().1;
    for secret in [token, session, &visitor.csrf] {
        assert!(!log.contains(secret), "{log}");
    }
}

/// Requests that no browser would send.
#[apply(world_test)]
async fn requests_that_contradict_themselves_are_refused() {
    let world = World::empty().await;
    let ui = world.ui().await;
    let visitor = ui.visitor().await;
    let cookie = format!("Cookie: {}\r\nConnection: close\r\n\r\n", visitor.cookie);
    let asked = async |head: &str| {
        let mut stream = TcpStream::connect(ui.base.trim_start_matches("http://")).await.unwrap();
        stream.write_all(format!("{head}{cookie}").as_bytes()).await.unwrap();
        let mut answer = String::new();
        awaited("the answer", stream.read_to_string(&mut answer)).await.unwrap();
        answer.split(' ').nth(1).unwrap_or_default().to_owned()
    };
    assert_eq!(asked("GET / HTTP/1.1\r\nHost: localhost\r\n").await, "200");
    for head in [
        "GET / HTTP/1.1\r\n",
        "GET / HTTP/1.0\r\n",
        "GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n",
        "GET http://evil.example/ HTTP/1.1\r\nHost: localhost\r\n",
        "GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n",
    ] {
        assert_eq!(asked(head).await, "403", "{head}");
    }
    assert_eq!(
        asked("GET /assets/../../../etc/passwd HTTP/1.1\r\nHost: localhost\r\n").await,
        "404"
    );
    let long = format!("GET /?{} HTTP/1.1\r\nHost: localhost\r\n", "x".repeat(64 * 1024));
    assert!(asked(&long).await.starts_with('4'));
}
