//! `/soon`: the orders that are due soon, and how late orders were closed in the last hour.

use std::{sync::Arc, time::Duration};

use axum::{Extension, extract::State, response::Response};

use super::{LOOK, Row, Section, answer};
use crate::{
    oncall::failure::Failure,
    status::{Burst, DueSoon, Known, LastHour, Lateness},
    store::StoreError,
    text::{about, counted},
    ui::{access::Session, chart::Chart, server::Ui},
};

/// Hours that the page looks ahead.
const HOURS: u32 = 12;

pub(super) async fn show(
    State(ui): State<Arc<Ui>>,
    Extension(session): Extension<Session>,
) -> Response {
    let services = ui.services();
    let hour = match services.store.last_hour().await {
        Ok(hour) => hour,
        Err(error) => {
            let sections = vec![Section::failed("Lateness of the last hour", text(error))];
            return answer(&ui, &session, "/soon", None, sections);
        }
    };
    let soon = services.store.due_soon(services.effects.values(), HOURS, hour.rate).await;
    let mut sections = match soon {
        Ok(Known::Known(soon)) => due(&soon, &hour),
        Ok(Known::Unknown(why)) => vec![Section::failed("Due soon", why)],
        Err(error) => vec![Section::failed("Due soon", text(error))],
    };
    sections.push(lateness(&hour));
    answer(&ui, &session, "/soon", None, sections)
}

fn due(soon: &DueSoon, hour: &LastHour) -> Vec<Section> {
    let rate = format!("{:.0} orders/s", hour.rate.per_s);
    let rate = if hour.rate.measured {
        format!("{rate}, as in the last hour")
    } else {
        format!("{rate}, which is assumed: fewer were due in the last hour")
    };
    let more = if soon.more { "More than were counted: the last hours have too few. " } else { "" };
    let burst = |burst: &Burst| Row {
        tone: if burst.late_s > 60.0 { LOOK } else { "" },
        cells: vec![
            if burst.in_s == 0 { "now".to_owned() } else { format!("in {}", seconds(burst.in_s)) },
            counted(burst.orders, "order"),
            format!("within {}", seconds(burst.lasts_s)),
            format!("up to {}", late(burst.late_s)),
        ],
    };
    let bursts = Section {
        title: "The largest bursts",
        note: format!("{more}Closed at {rate}."),
        head: &["when", "orders", "due", "late"],
        rows: soon.bursts.iter().map(burst).collect(),
        ..Section::default()
    };
    let chart = Chart::due(soon);
    let note = format!("{}; {} overdue now.", chart.says, counted(soon.overdue, "order"));
    let hours =
        Section { title: "Orders that come due", note, chart: Some(chart), ..Section::default() };
    vec![hours, bursts]
}

fn lateness(hour: &LastHour) -> Section {
    let row = |name: &str, it: &Lateness| {
        let Lateness { orders, p50_s, p99_s, max_s } = it;
        Row::plain([name.to_owned(), orders.to_string(), late(*p50_s), late(*p99_s), late(*max_s)])
    };
    let each = hour.by_path.iter().map(|(path, it)| row(path, it));
    let chart = Chart::closed(hour);
    Section {
        title: "Lateness of the last hour",
        note: format!("{}.", chart.says),
        chart: Some(chart),
        head: &["closed by", "orders", "half within", "99 of 100 within", "all within"],
        rows: std::iter::once(row("all", &hour.all)).chain(each).collect(),
    }
}

/// The error with the advice that a command gives, e.g. the missing right.
fn text(error: StoreError) -> String {
    Failure::from(error).text
}

fn seconds(seconds: u64) -> String {
    about(Duration::from_secs(seconds))
}

fn late(seconds: f64) -> String {
    if seconds < 1.0 {
        return format!("{:.0} ms", seconds * 1_000.0);
    }
    about(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
}
