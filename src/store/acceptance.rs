//! A described effect with new terms closes nothing while more than ten rows are overdue, until a person has accepted the terms.
//! Otherwise new terms could close a whole history.

use std::time::Duration;

use super::{
    Store, StoreError,
    clock::DatabaseTime,
    effects::{Described, Effect},
    overdue::OverdueKey,
};
use crate::effect::description::Since;

/// Rows that an effect with new terms may close without acceptance.
const UNASKED: usize = 10;
/// Limit for the count of waiting rows.
const MOST: usize = 100_000;

const ACCEPTED: &str = include_str!("../../sql/effect_accepted.sql");
const ACCEPT: &str = include_str!("../../sql/effect_accept.sql");

/// Rows that an effect would close as soon as its terms are accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Backlog {
    /// Counted up to 100,000.
    pub(crate) rows: usize,
    /// The earliest deadline.
    pub(crate) oldest: Option<DatabaseTime>,
    /// The terms that were accepted before; `None` at the first start.
    pub(crate) before: Option<String>,
}

impl Backlog {
    /// Whether there may be more rows than were counted.
    pub(crate) const fn is_more(&self) -> bool {
        self.rows >= MOST
    }
}

impl Store {
    /// Admits an effect, so that it closes rows.
    ///
    /// # Errors
    /// More than ten rows are overdue by terms that were not accepted, or the query fails.
    pub(crate) async fn admit(&self, effect: &Effect) -> Result<(), StoreError> {
        let Some(described) = effect.to_admit() else { return Ok(()) };
        self.refuse_backlog(effect).await?;
        self.accept(effect).await?;
        described.admitted();
        Ok(())
    }

    /// Fails with the reason if the terms of an effect are not accepted.
    pub(super) async fn refuse_backlog(&self, effect: &Effect) -> Result<(), StoreError> {
        let Some(described) = effect.to_admit() else { return Ok(()) };
        let Some(backlog) = self.backlog(effect, UNASKED + 1).await? else { return Ok(()) };
        let [place, _] = effect.places();
        Err(StoreError::Unaccepted {
            effect: effect.name.clone(),
            place: place.to_owned(),
            change: change(&backlog, &described.description.terms()),
        })
    }

    /// Rows that need the acceptance of a person, counted up to `most`; `None` if the effect may close them.
    async fn backlog(&self, effect: &Effect, most: usize) -> Result<Option<Backlog>, StoreError> {
        let Some(Described { description, .. }) = effect.to_admit() else { return Ok(None) };
        let rows = self.rows("effect_accepted", ACCEPTED, &[&effect.name]).await?;
        let before: Option<String> = rows.first().map(|row| row.get(0));
        let is_accepted = match &before {
            Some(before) => *before == description.terms(),
            None => description.since != Since::Unsaid,
        };
        if is_accepted {
            return Ok(None);
        }
        let limit = i64::try_from(most).unwrap_or(i64::MAX);
        let first = OverdueKey::first();
        let page = self.overdue_page(effect, &first, limit, Duration::ZERO).await?;
        let rows = page.as_ref().map_or(0, |page| page.rows);
        if rows <= UNASKED {
            return Ok(None);
        }
        let oldest = self.overdue_page(effect, &first, 1, Duration::ZERO).await?;
        let oldest = oldest.and_then(|page| page.next.due_at());
        Ok(Some(Backlog { rows, oldest, before }))
    }

    pub(crate) async fn whole_backlog(
        &self,
        effect: &Effect,
    ) -> Result<Option<Backlog>, StoreError> {
        self.backlog(effect, MOST).await
    }

    /// Records the terms of an effect as accepted.
    pub(crate) async fn accept(&self, effect: &Effect) -> Result<(), StoreError> {
        let Some(description) = effect.description() else { return Ok(()) };
        self.rows("effect_accept", ACCEPT, &[&effect.name, &description.terms()]).await.map(drop)
    }
}

/// The reason why rows wait, with the lines of the terms that are new.
fn change(backlog: &Backlog, terms: &str) -> String {
    let Some(before) = &backlog.before else {
        return "they were overdue before it ran for the first time, and nothing says from which deadline on it closes rows"
            .to_owned();
    };
    let lines = |one: &str, other: &str| {
        let new = one.lines().filter(|line| !other.lines().any(|it| it == *line));
        new.map(|line| format!("`{line}`")).collect::<Vec<_>>().join(", ")
    };
    let (was, is) = (lines(before, terms), lines(terms, before));
    match (was.is_empty(), is.is_empty()) {
        (true, _) => format!("its description has {is} now"),
        (_, true) => format!("its description had {was}"),
        _ => format!("its description has {is} now, and had {was}"),
    }
}
