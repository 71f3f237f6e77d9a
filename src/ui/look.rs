//! Pages without actions: one order, due soon, health. Each has a line that answers, and sections with a chart or a table.

mod health;
mod order;
mod soon;

use std::sync::Arc;

use askama::Template;
use axum::{Router, http::StatusCode, response::Response, routing::get};

use super::{
    access::Session,
    chart::Chart,
    page::{Entry, Frame, html},
    server::Ui,
};

/// Entries of the navigation.
pub(super) const PAGES: [Entry; 3] = [
    Entry { path: "/order", name: "One order" },
    Entry { path: "/soon", name: "Due soon" },
    Entry { path: "/health", name: "Health" },
];

pub(super) fn routes() -> Router<Arc<Ui>> {
    Router::new()
        .route("/order", get(order::show))
        .route("/soon", get(soon::show))
        .route("/health", get(health::show))
}

#[derive(Template)]
#[template(path = "look.html")]
struct Look {
    frame: Frame,
    /// The order in the form, on the page that has one.
    asked: Option<String>,
    /// Whether messages about the order are in the parking lot.
    is_parked: bool,
    said: Option<Said>,
    sections: Vec<Section>,
}

/// The line that answers.
struct Said {
    tone: &'static str,
    text: String,
    next: Option<String>,
}

#[derive(Default)]
struct Section {
    title: &'static str,
    note: String,
    head: &'static [&'static str],
    rows: Vec<Row>,
    chart: Option<Chart>,
}

struct Row {
    /// Tone of the first cell.
    tone: &'static str,
    cells: Vec<String>,
}

const OK: &str = "ok";
const LOOK: &str = "look";
const BAD: &str = "bad";

impl Row {
    fn plain<const N: usize>(cells: [String; N]) -> Self {
        Self { tone: "", cells: cells.into() }
    }
}

impl Section {
    /// Whether the section lists findings, which are stacked on a narrow screen.
    fn is_found(&self) -> bool {
        self.head.first() == Some(&"is")
    }

    /// A failed section shows the reason.
    fn failed(title: &'static str, why: String) -> Self {
        let row = Row { tone: BAD, cells: vec![why] };
        Self { title, head: &["cannot be read"], rows: vec![row], ..Self::default() }
    }
}

fn answer(
    ui: &Ui,
    session: &Session,
    path: &str,
    said: Option<Said>,
    sections: Vec<Section>,
) -> Response {
    let page = PAGES.iter().find(|page| page.path == path).unwrap_or(&PAGES[0]);
    let frame = Frame::new(ui, Some(session), page.path, page.name);
    html(StatusCode::OK, &Look { frame, asked: None, is_parked: false, said, sections })
}
