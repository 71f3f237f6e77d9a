//! `overdue verify`: checks whether the broker has the topology, and whether anything is wrong with it.

use std::{collections::BTreeSet, time::Duration};

use clap::Args;

use super::{
    exit::{self, Failure},
    output::Output,
    setup,
};
use crate::{
    administration::{
        apply,
        probe::{self, ProbeError},
    },
    config::Settings,
    messaging::BrokerAddress,
    oncall::drift::found,
    plan::snapshot::Snapshot,
    topology::{
        Topology,
        level::{Level, Ttl},
    },
    verify::{
        self, VerifyReport,
        probe::{Canaries, Probe},
    },
};

/// Compare the broker with the topology file, and list differences
///
/// The command also finds policies that override the topology, and dead letters that are stuck. It exits with 2 if the broker is not as
/// it should be.
#[derive(Debug, Args)]
pub(super) struct Verify {
    #[command(flatten)]
    output: Output,
    /// Send a message through every level, every other exchange that delays, and every timeout as well
    #[arg(long)]
    probe: bool,
    /// Probe only delays up to this time, with --probe
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
        let wrong = "the broker is not as the topology file says: see above";
        match failed {
            None if report.ok => Ok(()),
            None => Err(Failure { code: exit::FINDINGS, text: wrong.to_owned() }),
            Some(failed) if report.ok => Err(failed),
            // The findings may be the cause of the failure.
            Some(Failure { text, .. }) => Err(Failure {
                code: exit::FINDINGS,
                text: format!("{wrong}; no canary was sent: {text}"),
            }),
        }
    }
}

async fn canaries(
    address: &BrokerAddress,
    topology: &Topology,
    observed: &Snapshot,
    within: Duration,
) -> Result<Probe, Failure> {
    // Letters surround the number, so that the word is neither a timeout's name nor a generation's number.
    let word = format!("canary{:08x}", rand::random::<u32>());
    let sent = Canaries::new(topology, &word, within).ok_or_else(|| {
        Failure::usage(format!(
            "no delay ends within {within:?}; give more time with --within, e.g. --within {}",
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
            ProbeError::Queue(error) => error.into(),
        }
    }
}
