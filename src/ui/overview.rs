//! `/`: whether orders are closed on time, and if not why.

use std::sync::Arc;

use askama::Template;
use axum::{Extension, extract::State, http::StatusCode, response::Response};

use super::{
    access::Session,
    page::{Frame, html},
    server::Ui,
};

#[derive(Template)]
#[template(path = "overview.html")]
struct Overview {
    frame: Frame,
}

pub(super) async fn show(
    State(ui): State<Arc<Ui>>,
    Extension(session): Extension<Session>,
) -> Response {
    html(StatusCode::OK, &Overview { frame: Frame::new(&ui, Some(&session), "/", "Overview") })
}
