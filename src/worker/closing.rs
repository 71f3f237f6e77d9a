//! Runs an effect on a batch: tries again what was only in the way, and splits until a bad row stands alone.

use std::{ops::Range, time::Duration};

use crate::{
    order::{OrderId, Outcome},
    store::{
        FailureKind, Store, StoreError,
        orders::{ClosingPath, Effect},
    },
};

/// Attempts at the same range before a lock or deadlock is looked for row by row.
const ATTEMPTS: u32 = 3;
/// Longest random wait between them.
const PAUSE: Duration = Duration::from_millis(50);

/// What became of each of `ids`, in the same order; everything that says so is committed.
///
/// # Errors
/// The database is unavailable, overloaded or set up wrongly. Parts of the batch may be committed by then;
/// asking again is safe.
pub(crate) async fn outcomes(
    store: &Store,
    effect: &Effect,
    ids: &[OrderId],
    path: ClosingPath,
) -> Result<Vec<Outcome>, StoreError> {
    let mut outcomes = vec![Outcome::Unknown; ids.len()];
    let mut ranges: Vec<Range<usize>> = Vec::new();
    ranges.extend((!ids.is_empty()).then_some(0..ids.len()));
    while let Some(range) = ranges.pop() {
        match attempt(store, effect, &ids[range.clone()], path).await {
            Ok(part) => outcomes[range].clone_from_slice(&part),
            Err(error) if !is_of_rows(&error) => return Err(error),
            Err(error) if range.len() == 1 => {
                outcomes[range.start] = of_one(&error);
            }
            Err(_) => {
                let middle = range.start + range.len() / 2;
                ranges.push(range.start..middle);
                ranges.push(middle..range.end);
            }
        }
    }
    Ok(outcomes)
}

/// What a failure says about the only order that was asked for.
fn of_one(error: &StoreError) -> Outcome {
    let reason = crate::text::error_chain(error);
    match error.kind() {
        FailureKind::Contention => Outcome::Busy,
        FailureKind::Row => {
            let cause = error.code().map_or("", |code| code.code()).to_owned();
            Outcome::Failed { cause, reason }
        }
        _ => Outcome::Postponed { reason },
    }
}

fn is_of_rows(error: &StoreError) -> bool {
    matches!(error.kind(), FailureKind::Row | FailureKind::Contention)
}

/// A deadlock is over when it is reported; a lock that was waited for in vain is still held, so the batch is
/// split at once and the others do not wait for it again.
fn is_worth_repeating(error: &StoreError) -> bool {
    error.kind() == FailureKind::Contention && !error.is_lock_timeout()
}

async fn attempt(
    store: &Store,
    effect: &Effect,
    ids: &[OrderId],
    path: ClosingPath,
) -> Result<Vec<Outcome>, StoreError> {
    let mut tries = 1;
    loop {
        match store.run_effect(effect, ids, path).await {
            Err(error) if is_worth_repeating(&error) && tries < ATTEMPTS => {
                tries += 1;
                tokio::time::sleep(PAUSE.mul_f64(rand::random::<f64>())).await;
            }
            result => return result,
        }
    }
}
