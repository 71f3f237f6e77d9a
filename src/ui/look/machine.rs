//! The broker beside the topology file, what `overdue doctor` says, and the settings in effect.

use std::{collections::BTreeSet, sync::Arc};

use axum::{Extension, extract::State, response::Response};

use super::{BAD, OK, Row, Said, Section, answer, tone};
use crate::{
    administration::ManagementError,
    diagnostic::{Diagnostic, Rendered, Target},
    doctor,
    oncall::{doctor::facts, drift, failure::Failure, services::Services},
    ui::{access::Session, server::Ui},
};

const FOUND: &[&str] = &["is", "about", "what", "do"];

/// `/drift`
pub(super) async fn drift(
    State(ui): State<Arc<Ui>>,
    Extension(session): Extension<Session>,
) -> Response {
    let Services { topology, management, .. } = &**ui.services();
    let pending = drift::pending(topology, management, &BTreeSet::new()).await;
    let (plan, said) = match pending {
        Err(failure) => (Section::failed("What apply would do", failure.text), None),
        Ok(saved) => {
            let is_there = saved.plan.is_empty();
            let tone = if is_there { OK } else { BAD };
            let next = (!is_there).then(|| "overdue plan; overdue apply".to_owned());
            let said = Said { tone, text: saved.summary.clone(), next };
            let text = format!("{}\n{}", saved.broker.heading(topology), saved.plan);
            (Section { title: "What apply would do", text, ..Section::default() }, Some(said))
        }
    };
    let title = "What verify finds";
    let found = match found(ui.settings().broker.dead_letter_slots, ui.services()).await {
        Err(error) => Section::failed(title, Failure::from(error).text),
        Ok(found) => {
            let virtual_host = management.virtual_host();
            let target = Target { topology: &topology.name, virtual_host };
            let rows = found.iter().map(|it| row(it.rendered(&target))).collect();
            let note = if found.is_empty() { "Nothing.".to_owned() } else { String::new() };
            Section { title, note, head: FOUND, rows, ..Section::default() }
        }
    };
    answer(&ui, &session, "/drift", said, vec![found, plan])
}

async fn found(slots: u64, services: &Services) -> Result<Vec<Diagnostic>, ManagementError> {
    let Services { topology, management, .. } = services;
    let mut observed = management.observe().await?;
    Ok(drift::found(management, topology, &mut observed, slots).await?.0)
}

/// `/doctor`
pub(super) async fn doctor(
    State(ui): State<Arc<Ui>>,
    Extension(session): Extension<Session>,
) -> Response {
    let facts = facts(ui.settings()).await;
    let report = doctor::diagnose(&facts);
    let said = Said { tone: if report.ok { OK } else { BAD }, text: report.summary, next: None };
    let mut checks = report.checks;
    // What is to be done first; the order of the checks otherwise.
    checks.sort_by_key(|check| std::cmp::Reverse(check.severity));
    let rows = checks.into_iter().map(row).collect();
    let section = Section { head: FOUND, rows, ..Section::default() };
    answer(&ui, &session, "/doctor", Some(said), vec![section])
}

fn row(Rendered { severity, subject, message, reason, fix, .. }: Rendered) -> Row {
    let reason = reason.map_or_else(String::new, |reason| format!(" ({reason})"));
    let cells = vec![
        severity.to_string(),
        subject.to_string(),
        format!("{message}{reason}"),
        fix.unwrap_or_default(),
    ];
    Row { tone: tone(severity), cells }
}

/// `/settings`
pub(super) async fn settings(
    State(ui): State<Arc<Ui>>,
    Extension(session): Extension<Session>,
) -> Response {
    let settings = ui.settings();
    let file = settings.files.settings.as_ref();
    let note = file.map_or_else(
        || "No settings file; without passwords.".to_owned(),
        |file| format!("Settings file {}; without passwords.", file.display()),
    );
    let text = toml::to_string(settings).unwrap_or_else(|error| error.to_string());
    let section = Section { note, text, ..Section::default() };
    answer(&ui, &session, "/settings", None, vec![section])
}
