//! `overdue ui`: access, refusals, and the headers of every answer.

mod browser;
mod look;
mod overview;
mod parked;
mod pauses;
mod refused;

use reqwest::{
    Method, StatusCode,
    header::{HeaderMap, SET_COOKIE},
};

use crate::support::{
    World,
    ui::{Visitor, plain_client},
};

/// Limit of the first visit, in bytes.
const FIRST_VISIT: usize = 100 * 1024;
/// Pages that need a session.
const PAGES: [&str; 7] =
    ["/", "/parked", "/parked?reason=x&page=9", "/pauses", "/order?id=%3Cb%3E", "/soon", "/health"];
const ASSETS: [&str; 3] = ["/assets/ui.css", "/assets/ui.js", "/assets/icon.svg"];
const TOKEN: &str = "a-token-of-twenty-characters-and-more";

fn token_file(world: &World) -> String {
    let file = world.dir.path().join("token");
    std::fs::write(&file, format!("{TOKEN}\n")).unwrap();
    file.display().to_string()
}

fn assert_headers(headers: &HeaderMap, path: &str) {
    let csp = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; \
               form-action 'self'; frame-ancestors 'none'; base-uri 'none'";
    let expected = [
        ("content-security-policy", csp),
        ("cache-control", "no-store"),
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        ("referrer-policy", "same-origin"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
    ];
    for (name, value) in expected {
        assert_eq!(headers.get(name).map(|it| it.to_str().unwrap()), Some(value), "{path}: {name}");
    }
    assert!(!headers.contains_key("access-control-allow-origin"), "{path}");
}

#[apply(world_test)]
async fn the_link_is_good_once_and_its_session_lasts_until_the_logout() {
    let world = World::empty().await;
    let ui = world.ui().await;
    assert!(ui.link().starts_with(&format!("{}/login?token=", ui.base)), "{}", ui.printed);
    let client = plain_client();
    let welcome = client.get(ui.link()).send().await.unwrap();
    assert_eq!(welcome.status(), StatusCode::OK);
    let cookie = welcome.headers()[SET_COOKIE].to_str().unwrap().to_owned();
    let rest = cookie.split_once("; ").unwrap().1;
    assert_eq!(rest, "Path=/; Max-Age=43200; HttpOnly; SameSite=Strict");
    let again = client.get(ui.link()).send().await.unwrap();
    assert_eq!(again.status(), StatusCode::UNAUTHORIZED);
    assert!(!again.headers().contains_key(SET_COOKIE));
    assert!(again.text().await.unwrap().contains("or was used already"));

    let visitor = Visitor::of(&ui.base, &welcome).await;
    let (status, page) = visitor.page("/").await;
    assert_eq!(status, StatusCode::OK);
    assert!(page.contains("<title>orders · Overview · overdue</title>"), "{page}");
    let out = visitor.form("/logout", &[]).send().await.unwrap();
    assert_eq!(out.status(), StatusCode::SEE_OTHER);
    assert_eq!(out.headers()["location"], "/login");
    assert_eq!(out.headers()["clear-site-data"], "\"cache\"");
    assert!(out.headers()[SET_COOKIE].to_str().unwrap().contains("=; Path=/; Max-Age=0;"));
    assert_eq!(visitor.page("/").await.0, StatusCode::UNAUTHORIZED);
}

#[apply(world_test)]
async fn a_token_of_a_file_is_typed_with_a_name_as_often_as_one_likes() {
    let world = World::empty().await;
    let file = token_file(&world);
    let ui = world.ui_with(&["--token-file", &file], &[]).await;
    assert_eq!(ui.printed.trim(), format!("{}/", ui.base));
    let client = plain_client();
    let ask = client.get(&ui.base).send().await.unwrap();
    assert_eq!(ask.status(), StatusCode::UNAUTHORIZED);
    assert!(ask.text().await.unwrap().contains("type=\"password\""));
    for wrong in ["", "a", "a-token-of-twenty-characters-and-morf", &TOKEN[1..]] {
        let refused = ui.login(wrong, "Ada").await;
        assert_eq!(refused.status(), StatusCode::UNAUTHORIZED);
        assert!(!refused.headers().contains_key(SET_COOKIE));
    }
    let mut sessions = Vec::new();
    for name in ["Ada", "<b>Bob</b>"] {
        let welcome = ui.login(TOKEN, name).await;
        sessions.push(Visitor::of(&ui.base, &welcome).await);
    }
    assert!(sessions[0].page("/").await.1.contains(">Ada</span>"));
    assert!(sessions[1].page("/").await.1.contains("&#60;b&#62;Bob&#60;/b&#62;"));
    // A token in a link does not replace the token of the file.
    let followed = client.get(format!("{}/login?token={TOKEN}", ui.base)).send().await.unwrap();
    assert_eq!(followed.status(), StatusCode::UNAUTHORIZED);
}

#[apply(world_test)]
async fn a_cookie_that_came_by_tls_is_sent_by_tls_alone() {
    let world = World::empty().await;
    let ui = world.ui().await;
    let welcome = plain_client().get(ui.link()).header("x-forwarded-proto", "https");
    let welcome = welcome.send().await.unwrap();
    assert!(welcome.headers()[SET_COOKIE].to_str().unwrap().ends_with("; Secure"));
}

#[apply(world_test)]
async fn every_answer_has_the_headers_and_a_first_visit_is_small() {
    let world = World::new().await;
    let ui = world.ui().await;
    let visitor = ui.visitor().await;
    let mut loaded = 0;
    for path in ASSETS {
        let response = plain_client().get(format!("{}{path}", ui.base)).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::OK, "{path}");
        assert_headers(response.headers(), path);
        loaded += response.bytes().await.unwrap().len();
    }
    for path in PAGES {
        let response = visitor.request(Method::GET, path).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::OK, "{path}");
        assert_headers(response.headers(), path);
        let page = response.text().await.unwrap();
        assert!(loaded + page.len() <= FIRST_VISIT, "{path}: {} bytes", loaded + page.len());
        for inline in ["<style", "style=", " onclick", "javascript:", "=\"http", "=\"//"] {
            assert!(!page.contains(inline), "{path} has {inline}");
        }
        assert_eq!(page.matches("<script").count(), 1, "{path}");
    }
    for path in ["/none", "/assets/none", "/login", "/logout"] {
        let response = visitor.request(Method::GET, path).send().await.unwrap();
        assert_headers(response.headers(), path);
    }
}

#[apply(world_test)]
async fn the_environment_is_named_on_every_page() {
    let world = World::empty().await;
    let environment = [("OVERDUE_UI__NAME", "production <eu>"), ("OVERDUE_UI__COLOR", "red")];
    let ui = world.ui_with(&[], &environment).await;
    let login = plain_client().get(&ui.base).send().await.unwrap().text().await.unwrap();
    let visitor = ui.visitor().await;
    for page in [login, visitor.page("/").await.1, visitor.page("/none").await.1] {
        assert!(page.contains("<title>production &#60;eu&#62; · "), "{page}");
        assert!(page.contains("class=\"env-red\""), "{page}");
    }
}

#[apply(world_test)]
async fn other_machines_come_only_with_a_token_file_and_a_port_that_is_taken_is_said() {
    let world = World::empty().await;
    let open = world.overdue(&["ui", "--listen", "0.0.0.0:0"]).exits(64);
    insta::assert_snapshot!("open", world.shown(&open));
    let short = world.dir.path().join("short");
    std::fs::write(&short, "secret\n").unwrap();
    let short = world.overdue(&["ui", "--token-file", "short"]).exits(78);
    insta::assert_snapshot!("short_token", world.shown(&short));
    let ui = world.ui().await;
    let taken = ui.base.trim_start_matches("http://");
    let second = world.overdue(&["ui", "--listen", taken]).exits(1);
    assert!(second.stderr.contains("another process listens there; name another port: --listen"));
}

#[apply(world_test)]
async fn a_signal_ends_it() {
    let world = World::empty().await;
    let mut ui = world.ui().await;
    ui.process.signal("TERM");
    assert_eq!(ui.process.ended().await.code(), Some(0));
}
