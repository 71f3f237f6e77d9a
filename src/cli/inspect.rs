//! `overdue inspect`: what order services publish, and what is wrong with it.

use clap::Args;
use tokio::time::timeout;

use super::{
    exit::{self, Failure},
    output::{Output, report},
    setup::{self, now},
};
use crate::{
    config::Settings,
    messaging::{Link, copies::Copies},
    objects::{Binding, Objects},
    text::counted,
    topology::{
        Topology,
        level::{Level, Ttl},
        level_routes::LevelRoutes,
    },
    verify::notices::{Published, Seen},
};

/// Listen to what order services publish, and say what is wrong with it; takes no message away; exits with 2 if it finds something
#[derive(Debug, Args)]
pub(super) struct Inspect {
    /// For how long, at the most
    #[arg(long = "for", value_name = "DURATION", default_value = "1m")]
    time: Ttl,
    /// How many notices, at the most
    #[arg(long, value_name = "NUMBER", default_value_t = 100)]
    notices: usize,
    #[command(flatten)]
    output: Output,
}

impl Inspect {
    pub(super) async fn run(self, settings: &Settings) -> Result<(), Failure> {
        let (topology, management) = setup::broker(settings)?;
        if topology.strategy.needs_exchange_type().is_some() {
            return Err(Failure::failed(
                "the exchange of the delayed message plugin routes a message when its delay is over, so nobody sees what is published",
            ));
        }
        let observed = management.observe().await?;
        let routes = LevelRoutes::of_objects(&topology, &observed.objects);
        let published = Published { topology: &topology, routes: &routes };
        let link = Link::open(management.address(), "overdue inspect").await?;
        // A name that permissions, and `verify`, know.
        let queue = format!("{}.probe.inspect{:08x}", topology.name, rand::random::<u32>());
        let copies = Copies::open(&link, &queue, beside(&topology, &observed.objects)).await?;
        let seen = self.listen(published, copies).await;
        link.close().await;
        let answer = seen?.report(&topology, management.virtual_host());
        self.output.print(&answer)?;
        if answer.is_ok() {
            return Ok(());
        }
        Err(Failure { code: exit::FINDINGS, text: answer.summary().to_owned() })
    }

    /// Until the time is over, or there were enough, or somebody stops it.
    async fn listen(&self, published: Published<'_>, mut copies: Copies) -> Result<Seen, Failure> {
        let stop = setup::stop_on_signals()?;
        let exchanges = published.topology.entries();
        let exchanges: Vec<&str> = exchanges.iter().map(|entry| entry.exchange.as_str()).collect();
        let (time, most) = (Level::of(self.time), counted(self.notices, "notice"));
        report(format!(
            "listening to {} for {time}, or {most}; Ctrl-C ends it",
            exchanges.join(", ")
        ));
        let mut seen = Seen::default();
        let listening = async {
            while seen.notices() < self.notices {
                let message = copies.next().await?;
                if published.is_notice(&message) {
                    seen.add(&message, published.findings(&message, now()));
                }
            }
            Ok(())
        };
        let listening = timeout(self.time.as_duration(), listening);
        tokio::select! {
            done = listening => done.unwrap_or(Ok::<(), Failure>(()))?,
            () = stop.requested() => {}
        }
        Ok(seen)
    }
}

/// The bindings that take what is published, and those of the parking lot, which takes the rest.
fn beside<'a>(topology: &Topology, objects: &'a Objects) -> impl Iterator<Item = &'a Binding> {
    let mut sources: Vec<String> = topology.entries().into_iter().map(|it| it.exchange).collect();
    sources.push(topology.park_exchange());
    let probe = format!("{}.probe.", topology.name);
    objects
        .bindings
        .iter()
        .filter(move |it| sources.contains(&it.source) && !it.destination.starts_with(&probe))
}
