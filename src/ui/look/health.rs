//! `/health`: the findings of `overdue doctor`, each with its fix, and numbers.

use std::{cmp::Reverse, sync::Arc};

use axum::{Extension, extract::State, response::Response};

use super::{BAD, LOOK, OK, Row, Said, Section, answer};
use crate::{
    diagnostic::{Rendered, Severity},
    doctor::{self, DoctorReport},
    oncall::doctor::facts,
    ui::{access::Session, server::Ui},
};

pub(super) async fn show(
    State(ui): State<Arc<Ui>>,
    Extension(session): Extension<Session>,
) -> Response {
    let DoctorReport { checks, summary, .. } = doctor::diagnose(&facts(ui.settings()).await);
    let worst = checks.iter().map(|check| check.severity).max().unwrap_or(Severity::Ok);
    let said = Said { tone: tone(worst), text: summary, next: None };
    let (well, mut found): (Vec<_>, Vec<_>) =
        checks.into_iter().partition(|check| check.severity == Severity::Ok);
    found.sort_by_key(|check| Reverse(check.severity));
    let is_well = found.is_empty();
    let sections = vec![
        Section {
            title: "To do",
            note: if is_well { "Nothing.".to_owned() } else { String::new() },
            head: &["is", "about", "what", "do"],
            rows: found.into_iter().map(row).collect(),
            ..Section::default()
        },
        Section {
            title: "As it should be",
            head: &["is", "about", "what"],
            rows: well.into_iter().map(row).collect(),
            ..Section::default()
        },
    ];
    answer(&ui, &session, "/health", Some(said), sections)
}

const fn tone(severity: Severity) -> &'static str {
    match severity {
        Severity::Ok => OK,
        Severity::Note => "",
        Severity::Warning => LOOK,
        Severity::Error => BAD,
    }
}

fn row(Rendered { rule, severity, subject, message, reason, fix }: Rendered) -> Row {
    let reason = reason.map_or_else(String::new, |reason| format!(" ({reason})"));
    let mut cells =
        vec![severity.to_string(), format!("{subject}: {rule}"), format!("{message}{reason}")];
    cells.extend(fix);
    Row { tone: tone(severity), cells }
}
