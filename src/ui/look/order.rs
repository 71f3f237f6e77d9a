//! `/order?id=4711`: why one order was closed, is late, or is not closed.

use std::sync::Arc;

use axum::{
    Extension,
    extract::{RawQuery, State},
    http::StatusCode,
    response::Response,
};

use super::{BAD, LOOK, Look, OK, Row, Said, Section};
use crate::{
    oncall::why,
    order::OrderId,
    ui::{
        access::Session,
        page::{Fields, Frame, html},
        server::Ui,
    },
    why::{Answer, OrderReading},
};

pub(super) async fn show(
    State(ui): State<Arc<Ui>>,
    Extension(session): Extension<Session>,
    RawQuery(query): RawQuery,
) -> Response {
    let fields = Fields::parse(query.unwrap_or_default().as_bytes());
    let id = fields.get("id").unwrap_or_default();
    let frame = Frame::new(&ui, Some(&session), "/order", "One order");
    let asked = Some(id.to_owned());
    let mut page = Look { frame, asked, is_parked: false, said: None, sections: Vec::new() };
    match OrderId::parse(id) {
        _ if id.is_empty() => {}
        Err(error) => page.said = Some(Said { tone: LOOK, text: error.to_string(), next: None }),
        Ok(id) => {
            let reading = why::order(ui.settings(), ui.services(), &id, None).await;
            page.is_parked = reading.parked.get().is_some_and(|parked| !parked.is_empty());
            page.said = Some(said(&reading));
            page.sections.push(section(&reading));
        }
    }
    html(StatusCode::OK, &page)
}

fn said(reading: &OrderReading) -> Said {
    let Answer { text, next } = Answer::of(reading);
    let is_late = reading.is_late();
    let tone = if is_late {
        BAD
    } else if next.is_some() {
        LOOK
    } else {
        OK
    };
    Said { tone, text, next }
}

fn section(reading: &OrderReading) -> Section {
    let rows = reading.lines().into_iter().map(|(name, text)| Row::plain([name.to_owned(), text]));
    let head = &["what", "is"];
    Section { title: "What is known of it", head, rows: rows.collect(), ..Section::default() }
}
