//! Pages that only show: one order, what comes due, health. All have one form: a line that answers, and sections with a chart
//! or a table.

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

/// In the navigation.
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
    /// The order that is asked for, where one can be.
    asked: Option<String>,
    /// Whether messages about it are in the parking lot.
    is_parked: bool,
    said: Option<Said>,
    sections: Vec<Section>,
}

/// A line that answers.
struct Said {
    tone: &'static str,
    text: String,
    next: Option<String>,
}

/// A heading with a chart or a table.
#[derive(Default)]
struct Section {
    title: &'static str,
    note: String,
    head: &'static [&'static str],
    rows: Vec<Row>,
    chart: Option<Chart>,
}

struct Row {
    /// Of the first cell.
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
    /// Whether it is a list of findings, which stack where a screen is narrow.
    fn is_found(&self) -> bool {
        self.head.first() == Some(&"is")
    }

    /// What cannot be read says why.
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
