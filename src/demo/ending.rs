//! When a run is over: every order is final, and the last message has come.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use tokio::{
    sync::mpsc::{UnboundedReceiver, error::TryRecvError},
    time::MissedTickBehavior,
};

use super::{
    create::Created, error::DemoError, evidence::Ending, progress::Progress, script::Script,
};
use crate::{
    order_service::OrderService,
    shutdown::Stop,
    store::{StoreError, orders::ClosingPath},
};

/// How long past the last deadline orders are waited for.
const FINAL_TIMEOUT: Duration = Duration::from_mins(1);
/// How often the database is asked. Only orders past their deadline are asked about, and only until they are final.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Orders asked about at once.
const AT_ONCE: usize = 5_000;

/// Waits until every order is final, [`FINAL_TIMEOUT`] is over, or a stop is requested.
pub(super) async fn until_final(
    service: &OrderService,
    script: &Script,
    progress: &Progress,
    created: UnboundedReceiver<Created>,
    stop: &Stop,
) -> Result<Ending, DemoError> {
    let mut orders = Orders { created: Some(created), ..Orders::default() };
    let mut deadline = None;
    let mut ticks = tokio::time::interval(LOOK_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            () = stop.requested() => return Ok(orders.ending()),
            _ = ticks.tick() => {}
        }
        orders.receive(script);
        orders.look(service, script, progress).await?;
        if orders.ending().finished {
            return Ok(orders.ending());
        }
        if orders.created.is_none() {
            progress.enter("waiting for the deadlines");
            let give_up = *deadline
                .get_or_insert(Instant::now() + script.after.as_duration() + FINAL_TIMEOUT);
            if Instant::now() >= give_up {
                return Ok(orders.ending());
            }
        }
    }
}

/// The orders of a run on their way to being final.
#[derive(Default)]
struct Orders {
    created: Option<UnboundedReceiver<Created>>,
    /// Their deadline is to come; soonest first.
    upcoming: VecDeque<(Instant, std::ops::Range<usize>)>,
    /// Past their deadline and not known to be final.
    open: Vec<usize>,
    drained: bool,
}

impl Orders {
    fn ending(&self) -> Ending {
        let finished = self.created.is_none() && self.upcoming.is_empty() && self.open.is_empty();
        Ending { finished, drained: self.drained }
    }

    fn receive(&mut self, script: &Script) {
        while let Some(created) = &mut self.created {
            match created.try_recv() {
                Ok(chunk) => {
                    let due = chunk.at + script.after.as_duration();
                    self.upcoming.push_back((due, chunk.orders));
                }
                Err(TryRecvError::Empty) => return,
                Err(TryRecvError::Disconnected) => self.created = None,
            }
        }
    }

    async fn look(
        &mut self,
        service: &OrderService,
        script: &Script,
        progress: &Progress,
    ) -> Result<(), StoreError> {
        let now = Instant::now();
        while let Some((_, chunk)) = self.upcoming.pop_front_if(|(due, _)| *due <= now) {
            self.open.extend(chunk);
        }
        let asked = self.open.len().min(AT_ONCE);
        if asked == 0 {
            return Ok(());
        }
        let ids: Vec<&str> = self.open.iter().take(asked).map(|index| script.id(*index)).collect();
        let found = service.final_orders(&ids).await?;
        let closed =
            found.iter().filter(|(id, path)| path.is_some() && *id != script.last.id.as_str());
        let closed = closed.count();
        progress.update(|state| state.closed += closed);
        if let Some(path) = found.get(script.last.id.as_str()) {
            self.drained = path.as_deref() == Some(ClosingPath::Message.as_str());
        }
        self.open.retain(|index| !found.contains_key(script.id(*index)));
        // The next look begins with others, should some of these never become final.
        let still_open = asked.saturating_sub(found.len()).min(self.open.len());
        self.open.rotate_left(still_open);
        Ok(())
    }
}
