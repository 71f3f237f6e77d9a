//! Questions and actions of people on call, for the command line and the page, which differ in input and output.

pub(crate) mod actions;
pub(crate) mod doctor;
pub(crate) mod drift;
pub(crate) mod failure;
pub(crate) mod pace;
pub(crate) mod parked;
pub(crate) mod pauses;
pub(crate) mod services;
pub(crate) mod status;
pub(crate) mod why;

#[cfg(test)]
mod tests {
    use std::{num::NonZeroU32, sync::Arc};

    use super::{
        actions::Via,
        parked::{Listed, Lots},
        services::Services,
        status::StatusQuestion,
    };
    use crate::{config::Settings, parking::Filter, shutdown::Stop};

    fn runs_on_any_thread(_: impl Send) {}

    /// The page runs each of these futures in a task.
    #[test]
    fn each_can_be_a_task() {
        let _: fn(&Settings, Arc<Services>, &Lots) = |settings, services, lots| {
            let stop = Stop::new();
            let filter = Filter::default();
            let listed = Listed { filter: filter.clone(), limit: 1, full: true };
            runs_on_any_thread(StatusQuestion::new(settings, Arc::clone(&services)).read());
            runs_on_any_thread(super::doctor::facts(settings));
            runs_on_any_thread(Lots::open(services));
            runs_on_any_thread(lots.list(&listed, &stop, |_| Ok(())));
            runs_on_any_thread(lots.preview(&filter, |_| {}));
            runs_on_any_thread(lots.replay(
                &filter,
                NonZeroU32::MIN,
                Via::Page("Ada"),
                &stop,
                |_| {},
            ));
            runs_on_any_thread(lots.drop_messages(&filter, "", Via::Page("Ada"), &stop, |_| {}));
        };
    }
}
