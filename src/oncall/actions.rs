//! Records the actions of people, with their names. An action that cannot be recorded is carried out anyway, and logged.

pub(crate) use crate::store::history::{MOST_ORDERS, NewAction, Via};
use crate::{
    config::Settings,
    store::Store,
    telemetry,
    text::{error_chain, one_line},
};

use super::services;

/// Records an action that was carried out just now.
pub(crate) async fn record(store: &Store, action: NewAction<'_>) {
    if let Err(error) = store.record_action(&action).await {
        let advice = error.advice().map_or_else(String::new, |advice| format!("; {advice}"));
        let reason = one_line(format!("{}{advice}", error_chain(&error)));
        telemetry::action_not_recorded(action.action, &action.what, &reason);
    }
}

/// Records an action that needs no database. A user who changes a topology may have none, or one without the worker's tables.
pub(crate) async fn record_where_possible(settings: &Settings, action: NewAction<'_>) {
    let is_named = settings.database.url.expose() != Settings::default().database.url.expose();
    let Ok(store) = services::store(settings) else { return };
    match store.has_actions().await {
        Ok(true) => record(&store, action).await,
        Err(error) if is_named => {
            let reason = one_line(error_chain(&error));
            telemetry::action_not_recorded(action.action, &action.what, &reason);
        }
        Ok(false) | Err(_) => {}
    }
}
