//! `overdue effect check`: runs an effect on the live schema, in a transaction that is rolled back.

mod described;
mod trial;
mod watch;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use clap::{ArgGroup, Args, Subcommand};
use serde::Serialize;

use super::{
    exit::{self, Failure},
    output::{Confirm, Output, print},
    setup,
};
use crate::{
    config::Settings,
    doctor::effect_plan::{EffectPlan, RowLocks, Scan},
    order::OrderId,
    store::{Store, effects::Effect, overdue::OpenOrders},
    text::counted,
};
use described::WouldDo;
use trial::Trial;
use watch::Watch;

/// Check, show, watch or accept the SQL that closes orders
#[derive(Debug, Subcommand)]
pub(super) enum EffectCommand {
    /// Run an effect on orders, roll it back, and explain its plan
    ///
    /// The command exits with 2 if something is wrong.
    Check(Check),
    /// Print the statements of an effect, its index, and the rights of the worker's role
    Show(Named),
    /// Compare an effect with the program that closes rows today
    ///
    /// The command closes nothing. It reports when each row was closed, and when the effect would have closed it.
    Watch(Watch),
    /// Let an effect close rows that were overdue before it was used
    ///
    /// A new or changed description without `since` closes nothing while more than ten rows are overdue, until a person accepts them.
    Accept(Accept),
}

#[derive(Debug, Args)]
pub(super) struct Named {
    /// The effect
    name: String,
}

#[derive(Debug, Args)]
pub(super) struct Accept {
    /// The effect
    name: String,
    #[command(flatten)]
    confirm: Confirm,
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("which").args(["name", "all"]).required(true))]
pub(super) struct Check {
    /// The effect
    name: Option<String>,
    /// Every effect that the topology file names
    #[arg(long)]
    all: bool,
    /// Try the effect on this order, instead of up to 20 open orders and 20 that are not due; may be repeated
    #[arg(long = "order", value_name = "ORDER_ID")]
    orders: Vec<String>,
    #[command(flatten)]
    output: Output,
}

impl EffectCommand {
    pub(super) async fn run(self, settings: &Settings) -> Result<(), Failure> {
        match self {
            Self::Check(check) => check.run(settings).await,
            Self::Show(Named { name }) => {
                let effect = setup::named_effect(settings, &name)?;
                print(described::show(&setup::store(settings)?, &effect).await?)
            }
            Self::Watch(watch) => watch.run(settings).await,
            Self::Accept(accept) => accept.run(settings).await,
        }
    }
}

impl Accept {
    async fn run(self, settings: &Settings) -> Result<(), Failure> {
        let Self { name, confirm } = self;
        let effect = setup::named_effect(settings, &name)?;
        let store = setup::store(settings)?;
        let Some((since, lines)) = described::backlog(&store, &effect).await? else {
            return print(format_args!(
                "effect `{name}` waits for nothing: it closes what is overdue"
            ));
        };
        for line in &lines {
            print(line)?;
        }
        print(format_args!(
            "to leave them open instead, write {since} below [effects.{name}], and start the workers again"
        ))?;
        confirm.ask(&format!("close them with effect `{name}`?"))?;
        store.accept(&effect).await?;
        print(format_args!("accepted: workers close them within a minute"))
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
            Some(text) => Err(Failure { code: exit::FINDINGS, text }),
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
    if let Some(index) = described::needs_index_first(store, effect).await? {
        return Ok(Checked::without_index(effect, &plan, index));
    }
    let open = store.open_orders(effect, MOST_COUNTED).await?;
    let trial = Trial::of(store, effect, orders).await?;
    let would_do = match WouldDo::of(store, effect, &trial.open, open.as_ref()).await {
        // The trial names the row that cannot be closed, whatever SQLSTATE its trigger raises, and the outcomes of the other
        // rows.
        Err(error) if error.is_answer() => Some(WouldDo::unknown(&error)),
        would_do => would_do?,
    };
    Ok(Checked::new(effect, &plan, trial, open, would_do))
}

const MOST_COUNTED: i64 = 100_000;

#[derive(Debug, Default, Serialize)]
struct Report {
    effects: Vec<Checked>,
}

/// The result of the check of an effect.
#[derive(Debug, Serialize)]
struct Checked {
    effect: String,
    file: String,
    /// Orders that the effect was tried on.
    orders: usize,
    /// Orders that are open, overdue or not, and the last deadline: what `overdue rebuild` publishes.
    #[serde(skip_serializing_if = "Option::is_none")]
    open: Option<Open>,
    /// Number of orders by outcome.
    outcomes: BTreeMap<String, usize>,
    /// The reason of the first failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<String>,
    /// A part of the effect that the check could not try.
    #[serde(skip_serializing_if = "Option::is_none")]
    untried: Option<String>,
    /// Index scans: `table by index`.
    finds: Vec<String>,
    /// Locks: `table in the order of columns`.
    locks: Vec<String>,
    warnings: Vec<String>,
    /// Only for a described effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    would_do: Option<WouldDo>,
}

#[derive(Debug, Serialize)]
struct Open {
    orders: u64,
    /// Whether counting stopped before the last order.
    more: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_due: Option<String>,
}

impl Report {
    fn failed(&self) -> Option<String> {
        self.effects.iter().find_map(|Checked { effect, failure, untried, would_do, .. }| {
            let failed = failure.as_ref().map(|why| format!("effect `{effect}` fails: {why}"));
            let not_tried = || untried.as_ref().map(|why| format!("effect `{effect}`: {why}"));
            let findings = would_do.as_ref().map_or(0, |would| would.findings.len());
            let found = || {
                (findings > 0)
                    .then(|| format!("effect `{effect}`: {}", counted(findings, "finding")))
            };
            failed.or_else(not_tried).or_else(found)
        })
    }
}

impl Checked {
    /// The result for a large table without the index for overdue rows: any trial would read the whole table, so nothing is
    /// tried.
    fn without_index(effect: &Effect, plan: &EffectPlan, finding: String) -> Self {
        let untried = "nothing was tried, because a look for open rows would read too many of them"
            .to_owned();
        let trial = Trial { untried: Some(untried), ..Trial::default() };
        let would_do = WouldDo { findings: vec![finding], ..WouldDo::default() };
        Self::new(effect, plan, trial, None, Some(would_do))
    }

    fn new(
        effect: &Effect,
        plan: &EffectPlan,
        trial: Trial,
        open: Option<OpenOrders>,
        would_do: Option<WouldDo>,
    ) -> Self {
        let Trial { orders, outcomes, failure, bad_order, guarded, untried, .. } = trial;
        let mut warnings = warnings(effect, plan);
        warnings.extend(bad_order.map(|order| format!("others can be closed, and not {order}")));
        warnings.extend(guarded.map(|order| {
            format!(
                "order {order} is overdue, and the effect says not_due: its SQL guards it, or a trigger keeps its state"
            )
        }));
        Self {
            effect: effect.name.clone(),
            file: effect.places()[0].to_owned(),
            orders,
            open: open.map(|open| Open {
                orders: open.orders,
                more: open.is_more(MOST_COUNTED),
                last_due: open.due.map(|(_, last)| last.to_second()),
            }),
            outcomes,
            failure,
            untried,
            finds: plan
                .indexes
                .iter()
                .map(|(table, index)| format!("{table} by {index}"))
                .collect(),
            locks: plan.locks.iter().map(locked).collect(),
            warnings,
            would_do,
        }
    }
}

fn locked(RowLocks { table, order }: &RowLocks) -> String {
    match order {
        Some(order) => format!("{table} in the order of {order}"),
        None => format!("{table} in no order"),
    }
}

fn warnings(effect: &Effect, plan: &EffectPlan) -> Vec<String> {
    let mut warnings: Vec<String> =
        plan.scans.iter().filter(|it| it.is_large()).map(scan).collect();
    let unordered = plan.locks.iter().filter(|it| it.order.is_none()).map(|it| &it.table);
    // A described effect orders its rows by joins that no plan shows; benchmarks and tests check its locks.
    let changed = plan.unordered.iter().filter(|_| effect.description().is_none());
    let unordered: BTreeSet<&String> = unordered.chain(changed).collect();
    warnings.extend(unordered.into_iter().map(|table| {
        format!(
            "the rows of {table} are locked in no order, so two of these can deadlock: SELECT … FROM {table} … ORDER BY its \
             key FOR NO KEY UPDATE before they are changed"
        )
    }));
    // The program wrote the joins of a described effect.
    let pairs = plan.pairs.iter().filter(|_| effect.description().is_none());
    warnings.extend(pairs.map(|condition| {
        format!(
            "it compares each row with each by {condition}, which takes long for large batches: write `= ANY (ARRAY[…])`, \
             `NOT IN (SELECT …)` of what is never NULL, or LATERAL with OFFSET 0 where there is an index, as in \
             docs/your-own-tables.md"
        )
    }));
    if !effect.finds_overdue() {
        warnings.push(format!(
            "there is no overdue_sql: an order whose message is lost stays open; set effects.{}.overdue_sql",
            effect.name
        ));
    }
    warnings
}

fn scan(scan: &Scan) -> String {
    let Scan { table, rows } = scan;
    let rows = rows.map_or_else(|| "never analysed".to_owned(), |rows| format!("{rows} rows"));
    format!("{table} is read from end to end ({rows}): {}", scan.fix())
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.effects.iter().try_for_each(|checked| checked.fmt(f))
    }
}

impl fmt::Display for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match (&self.failure, &self.untried) {
            (None, None) => "fits the tables",
            (None, Some(_)) => "fits the tables, as far as it was tried",
            (Some(_), _) => "fails",
        };
        writeln!(f, "effect `{}` ({}) {verdict}", self.effect, self.file)?;
        match self.orders {
            0 => writeln!(f, "  tried on     no order")?,
            orders => {
                let ended = ended(&self.outcomes);
                writeln!(f, "  tried on     {}, rolled back: {ended}", counted(orders, "order"))?;
            }
        }
        if let Some(Open { orders, more, last_due }) = &self.open {
            let more = if *more { " or more" } else { "" };
            let last =
                last_due.as_ref().map_or_else(String::new, |due| format!(", the last due {due}"));
            writeln!(f, "  open         {}{more}{last}", counted(*orders, "order"))?;
        }
        writeln!(f, "  finds        {}", listed(&self.finds))?;
        writeln!(f, "  locks        {}", listed(&self.locks))?;
        if let Some(would) = &self.would_do {
            would.fmt(f)?;
        }
        self.warnings.iter().try_for_each(|warning| writeln!(f, "  warning      {warning}"))
    }
}

fn ended(outcomes: &BTreeMap<String, usize>) -> String {
    let ended = outcomes.iter().map(|(word, orders)| format!("{orders} {word}"));
    ended.collect::<Vec<_>>().join(", ")
}

fn listed(items: &[String]) -> String {
    if items.is_empty() { "nothing".to_owned() } else { items.join("; ") }
}
