//! When a run is over: every order is final, and the last message has come.

use std::{
    collections::{HashMap, VecDeque},
    time::{Duration, Instant},
};

use tokio::{
    sync::mpsc::{UnboundedReceiver, error::TryRecvError},
    time::MissedTickBehavior,
};

use super::{DemoError, board::Board, create::Created, script::Script};
use crate::{
    shutdown::Stop,
    store::{Store, StoreError, orders::Path},
};

/// How long past the last deadline orders are waited for.
const PATIENCE: Duration = Duration::from_mins(1);
/// How often the database is asked. Only orders past their deadline are asked about, and only until they are final.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Orders asked about at once.
const AT_ONCE: usize = 5_000;

/// How a run ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ending {
    /// Whether every order that was created is final.
    pub finished: bool,
    /// Whether no message of the run waits in its level any more, as far as it can be known.
    pub drained: bool,
}

/// Waits until every order is final, [`PATIENCE`] is over, or a stop is asked for.
pub(super) async fn until_final(
    store: &Store,
    script: &Script,
    board: &Board,
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
        orders.look(store, script, board).await?;
        if orders.ending().finished {
            return Ok(orders.ending());
        }
        if orders.created.is_none() {
            board.enter("waiting for the deadlines");
            let give_up =
                *deadline.get_or_insert(Instant::now() + script.after.as_duration() + PATIENCE);
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
        store: &Store,
        script: &Script,
        board: &Board,
    ) -> Result<(), StoreError> {
        let now = Instant::now();
        while let Some((_, chunk)) = self.upcoming.pop_front_if(|(due, _)| *due <= now) {
            self.open.extend(chunk);
        }
        let asked = self.open.len().min(AT_ONCE);
        if asked == 0 {
            return Ok(());
        }
        let ids: Vec<&str> =
            self.open.iter().take(asked).map(|index| script.id(*index).as_str()).collect();
        let found = finals(store, &ids).await?;
        let closed =
            found.iter().filter(|(id, path)| path.is_some() && *id != script.last.as_str());
        Board::count(&board.closed, closed.count());
        if let Some(path) = found.get(script.last.as_str()) {
            self.drained = path.as_deref() == Some(Path::Message.as_str());
        }
        self.open.retain(|index| !found.contains_key(script.id(*index).as_str()));
        // The next look begins with others, should some of these never become final.
        let still_open = asked.saturating_sub(found.len()).min(self.open.len());
        self.open.rotate_left(still_open);
        Ok(())
    }
}

/// Those of `ids` that are final; what made overdue close them, if it did.
async fn finals(
    store: &Store,
    ids: &[&str],
) -> Result<HashMap<String, Option<String>>, StoreError> {
    const SQL: &str = include_str!("../../sql/demo_final.sql");
    let client = store.client().await?;
    let statement = store.named("demo_final", client.prepare_cached(SQL).await)?;
    let rows = store.named("demo_final", client.query(&statement, &[&ids]).await)?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
}
