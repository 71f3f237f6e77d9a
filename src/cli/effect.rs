//! `overdue effect check`: an effect on the live schema, in a transaction that is rolled back.

mod report;

use std::{collections::BTreeMap, time::Duration};

use clap::{ArgGroup, Args, Subcommand};

use super::{exit::Failure, output::Output, setup};
use crate::{
    config::Settings,
    order::OrderId,
    store::{
        Store,
        open::OpenOrders,
        orders::Effect,
        overdue::{OverdueKey, OverduePage},
    },
};
use report::{Checked, Report};

/// Overdue orders that an effect is tried on.
const TRIED: i64 = 20;

/// Look at the SQL of effects
#[derive(Debug, Subcommand)]
pub(super) enum EffectCommand {
    /// Run an effect on overdue orders in a transaction that is rolled back, and explain its plan
    Check(Check),
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("which").args(["name", "all"]).required(true))]
pub(super) struct Check {
    /// The effect
    name: Option<String>,
    /// Every effect that the topology file names
    #[arg(long)]
    all: bool,
    /// Orders to try it on, instead of up to 20 that are overdue
    #[arg(long = "order", value_name = "ORDER_ID")]
    orders: Vec<String>,
    /// How the report is printed
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

impl EffectCommand {
    pub(super) async fn run(self, settings: &Settings) -> Result<(), Failure> {
        let Self::Check(check) = self;
        check.run(settings).await
    }
}

impl Check {
    async fn run(self, settings: &Settings) -> Result<(), Failure> {
        let orders: Result<Vec<OrderId>, _> =
            self.orders.iter().map(|id| OrderId::parse(id)).collect();
        let orders = orders.map_err(|error| Failure::configuration(error.to_string()))?;
        let store = setup::store(settings)?;
        let mut report = Report::default();
        for effect in self.effects(settings)?.values() {
            report.effects.push(check(&store, effect, &orders).await?);
        }
        self.output.print(&report)?;
        match report.failed() {
            None => Ok(()),
            Some(reason) => Err(Failure::failed(reason)),
        }
    }

    fn effects(&self, settings: &Settings) -> Result<BTreeMap<String, Effect>, Failure> {
        match &self.name {
            Some(name) => Ok([(name.clone(), setup::named_effect(settings, name)?)].into()),
            None => setup::effects(settings, &setup::topology(settings)?),
        }
    }
}

async fn check(store: &Store, effect: &Effect, orders: &[OrderId]) -> Result<Checked, Failure> {
    let plan = store.effect_plan(effect).await?;
    let ids = match orders {
        [] => overdue(store, effect).await?,
        orders => orders.to_vec(),
    };
    let outcomes = store.rehearse(effect, &ids).await?;
    let open = open(store, effect).await?;
    Ok(Checked::new(effect, &plan, &ids, &outcomes, open))
}

/// None where nobody can ask for them.
async fn open(store: &Store, effect: &Effect) -> Result<Option<OpenOrders>, Failure> {
    let Some(sql) = &effect.overdue_sql else { return Ok(None) };
    match store.open_orders(effect, sql, &OverdueKey::first()).await {
        // Its shape was compared before: it is the older one.
        Err(error) if error.is_misfit() => Ok(None),
        open => Ok(Some(open?)),
    }
}

async fn overdue(store: &Store, effect: &Effect) -> Result<Vec<OrderId>, Failure> {
    let page = store.overdue_page(effect, &OverdueKey::first(), TRIED, Duration::ZERO).await?;
    Ok(page.map_or_else(Vec::new, |page: OverduePage| page.ids))
}
