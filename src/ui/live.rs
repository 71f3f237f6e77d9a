//! `/live/…`: a part of a page, sent again and again while somebody looks.

use std::{convert::Infallible, sync::Arc};

use askama::Template;
use axum::{
    Extension,
    extract::State,
    response::{
        IntoResponse as _, Response,
        sse::{Event, Sse},
    },
};
use futures_util::stream::{self, Stream};

use super::{access::Session, moment::FRESH, overview, server::Ui};
use crate::text::printable;

/// `/live/overview`
pub(super) async fn overview(
    State(ui): State<Arc<Ui>>,
    Extension(session): Extension<Session>,
) -> Response {
    Sse::new(events(ui, session)).into_response()
}

/// Ends with the session.
fn events(ui: Arc<Ui>, session: Session) -> impl Stream<Item = Result<Event, Infallible>> {
    stream::unfold((ui, session, false), async |(ui, session, again)| {
        if again {
            tokio::time::sleep(FRESH).await;
        }
        if !ui.access().knows(&session) {
            return None;
        }
        let board = overview::Board::now(&ui).await;
        let text = board.render().unwrap_or_default();
        // An event takes no carriage return.
        let event = Event::default().data(printable(&text));
        Some((Ok(event), (ui, session, true)))
    })
}
