//! `overdue verify`: whether the broker has the topology and nothing is wrong with it.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use clap::Args;

use super::{
    exit::{self, Failure},
    output::Output,
    setup,
};
use crate::{
    administration::{
        Management, ManagementError, apply,
        probe::{self, ProbeError},
    },
    config::Settings,
    diagnostic::Diagnostic,
    messaging::BrokerAddress,
    plan::snapshot::{QueueStats, Snapshot},
    topology::{
        Topology,
        level::{Level, Ttl},
    },
    verify::{
        self, VerifyReport, dead_letters,
        probe::{Canaries, Probe},
    },
};

/// How often is looked whether the broker has numbers of new queues.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Look for differences from the topology, policies that override it, and dead letters that are stuck; exits with 2 if it
/// finds one
#[derive(Debug, Args)]
pub(super) struct Verify {
    #[command(flatten)]
    output: Output,
    /// Also send a message through every level, every other exchange that delays, and every timeout
    #[arg(long)]
    probe: bool,
    /// With --probe: only what lets go within this time
    #[arg(long, value_name = "DURATION", default_value = "10s", requires = "probe")]
    within: Ttl,
}

impl Verify {
    pub(super) async fn run(self, settings: &Settings) -> Result<(), Failure> {
        let (topology, management) = setup::broker(settings)?;
        let (_, mut observed) = apply::plan(&management, &topology, &BTreeSet::new()).await?;
        let slots = settings.broker.dead_letter_slots;
        let (found, _) = found(&management, &topology, &mut observed, slots).await?;
        let within = self.within.as_duration();
        let probe = if self.probe {
            Some(canaries(management.address(), &topology, &observed, within).await)
        } else {
            None
        };
        let (probe, failed) = match probe.transpose() {
            Ok(probe) => (probe, None),
            Err(failed) => (None, Some(failed)),
        };
        let vhost = management.virtual_host();
        let report = VerifyReport::new(&topology, vhost, &observed, found, probe);
        self.output.print(&report)?;
        let wrong = "the broker is not as it should be: see above";
        match failed {
            None if report.ok => Ok(()),
            None => Err(Failure { code: exit::FINDINGS, text: wrong.to_owned() }),
            Some(failed) if report.ok => Err(failed),
            // What is wrong may be why.
            Some(Failure { text, .. }) => Err(Failure {
                code: exit::FINDINGS,
                text: format!("{wrong}; no canary was sent: {text}"),
            }),
        }
    }
}

/// Everything that is found without sending anything, and the numbers that it is about, as far as the broker has some;
/// `observed` gets the consumers of others.
pub(super) async fn found(
    management: &Management,
    topology: &Topology,
    observed: &mut Snapshot,
    slots: u64,
) -> Result<(Vec<Diagnostic>, BTreeMap<String, QueueStats>), ManagementError> {
    let mut stats = management.stats_and_policies().await?;
    management.add_foreign_consumers(topology, observed, &stats).await?;
    let mut found = verify::findings(topology, observed, &stats);
    let policies = management.exchange_policies().await?;
    found.extend(verify::policies::exchange_policies(topology, observed, &policies));
    found.extend(dead_letters(management, topology, observed, &mut stats, slots).await?);
    found.sort_by_key(|finding| Reverse(finding.severity));
    Ok((found, stats))
}

/// A second reading is taken only where the first one gives a reason. Of queues that were just made the broker has no
/// numbers yet.
async fn dead_letters(
    management: &Management,
    topology: &Topology,
    observed: &Snapshot,
    first: &mut BTreeMap<String, QueueStats>,
    slots: u64,
) -> Result<Vec<Diagnostic>, ManagementError> {
    // Two readings so far apart are of different counts.
    let apart = management.statistics_interval().counts_settle();
    let until = Instant::now() + apart;
    let mut unknown = dead_letters::unknown(topology, observed, first);
    while !unknown.is_empty() && Instant::now() < until {
        tokio::time::sleep(LOOK_EVERY).await;
        *first = management.stats_and_policies().await?;
        unknown = dead_letters::unknown(topology, observed, first);
    }
    let mut found: Vec<Diagnostic> = dead_letters::not_known(&unknown).into_iter().collect();
    if !dead_letters::suspects(topology, observed, first).is_empty() {
        tokio::time::sleep(apart).await;
        let second = management.stats_and_policies().await?;
        found.extend(dead_letters::stuck(topology, observed, first, &second, apart, slots));
    }
    Ok(found)
}

async fn canaries(
    address: &BrokerAddress,
    topology: &Topology,
    observed: &Snapshot,
    within: Duration,
) -> Result<Probe, Failure> {
    // Letters around the number: it must be neither a timeout's name nor a generation's number.
    let word = format!("canary{:08x}", rand::random::<u32>());
    let sent = Canaries::new(topology, &word, within).ok_or_else(|| {
        Failure::usage(format!(
            "nothing lets go within {within:?}; give more time with --within, e.g. --within {}",
            topology.delays_to_try().first().map_or("", Level::name)
        ))
    })?;
    let sent = sent.with_taken_over(topology, observed, &word, within);
    let mut needed = sent.list.iter().flat_map(|it| [&it.route.exchange, &it.comes_out_at]);
    let missing = needed.find(|name| !observed.objects.exchanges.contains_key(*name));
    if let Some(missing) = missing {
        return Err(Failure::failed(format!(
            "exchange {missing} does not exist, so there is nothing to probe; run overdue apply first"
        )));
    }
    let fates = probe::send(address, &sent, within).await?;
    Ok(verify::probe::judge(topology, observed, &sent, &fates, within))
}

impl From<ProbeError> for Failure {
    fn from(error: ProbeError) -> Self {
        match error {
            ProbeError::Connect(error) => error.into(),
            error @ ProbeError::Queue { .. } => {
                let denied = error.is_permission();
                let code = if denied { exit::NOT_PERMITTED } else { exit::FAILED };
                Self { code, text: crate::text::error_chain(&error) }
            }
        }
    }
}
