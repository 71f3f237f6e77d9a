//! What the pages need beside their text: a style sheet, a script and an icon, out of the program.

use axum::{http::StatusCode, response::Response};

use super::page::answer;

pub(super) async fn style() -> Response {
    answer(StatusCode::OK, "text/css; charset=utf-8", include_str!("assets/ui.css"))
}

pub(super) async fn script() -> Response {
    answer(StatusCode::OK, "text/javascript; charset=utf-8", include_str!("assets/ui.js"))
}

pub(super) async fn icon() -> Response {
    answer(StatusCode::OK, "image/svg+xml", include_str!("assets/icon.svg"))
}
