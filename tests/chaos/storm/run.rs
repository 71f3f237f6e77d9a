//! One storm from beginning to end.

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::Duration,
};

use futures_util::future::join_all;
use tokio::time::{Instant, sleep};

use super::{
    evidence::{self, AUDIT, STOCK, SUBSCRIBER},
    fleet::{Fleet, Found},
    judge::{Evidence, judge},
    kind::{Kind, Place},
    orders::{COLD_SKUS, HOT_SKUS},
    report::{Late, LateOrder, Report, Struck, blame, counts},
    schedule::{Schedule, Strike},
    service::Service,
    site::Site,
    strike::strike,
    watch::{LATE, Watch},
};
use crate::support::{Services, overdue};

const WORKERS: usize = 3;
/// After so long the next strike comes all the same.
const STALL: Duration = Duration::from_mins(1);
/// After the storm, until the order service is done; and then how long nothing may become less of what is left.
const AFTERMATH: Duration = Duration::from_mins(3);
/// What a storm is made of.
pub struct Storm {
    /// The nodes of the broker, all with the same database.
    pub services: Vec<Services>,
    pub seed: u64,
    /// No strike begins later.
    pub length: Duration,
    pub kinds: Vec<Kind>,
    pub longest_hold: Duration,
    pub orders_per_second: u32,
    /// So long nothing may be late before the next strike.
    pub quiet: Duration,
    /// How often workers sweep, and what they leave to the messages.
    pub sweep: &'static str,
    /// What repeats it.
    pub command: String,
}

impl Storm {
    /// Runs it, and judges what is left. The report is printed and written to `target/chaos`.
    pub async fn run(&self) -> Report {
        eprintln!("storm: seed {}", self.seed);
        let site = Site::on(self.services.clone()).await;
        let logs = self.folder();
        prepare(&site).await;
        let service =
            Service::new(self.seed, site.store.clone(), &site.world.topology, &site.addresses());
        let fleet = start_workers(&site, &logs, self.sweep);
        fleet.until_ready().await;
        let watch = {
            let (url, schema) = (site.world.services.database_url(None), &site.world.schema);
            Watch::start(&url, schema, Arc::clone(&service))
        };
        service.start(self.orders_per_second);
        // Asked twice: the first time may have to connect.
        evidence::clock(&site.store).await;
        let (began, clock) = (Instant::now(), evidence::clock(&site.store).await);
        let mut strikes = self.strikes(began, &site, &fleet, &service, &watch).await;
        let (evidence, found) = aftermath(&site, &fleet, &service, &strikes).await;
        blame(&mut strikes, &late_orders(&site, &service, began, clock).await);
        let report = self.report(strikes, &evidence, &found, &service);
        report.write(&logs.join("report.jsonl"));
        eprintln!("{}\nlogs and report.jsonl: {}", report.text(), logs.display());
        report
    }

    /// Emptied of what an earlier run with the same seed left.
    fn folder(&self) -> PathBuf {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
        let folder = target.join("chaos").join(format!("seed-{}", self.seed));
        // Not there the first time.
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    async fn strikes(
        &self,
        began: Instant,
        site: &Site,
        fleet: &Fleet,
        service: &Service,
        watch: &Watch,
    ) -> Vec<Struck> {
        let mut kinds = self.kinds.clone();
        if site.nodes.len() > 1 {
            kinds.extend(Kind::OF_A_CLUSTER);
        }
        let mut struck = Vec::new();
        // Some orders have to come due first.
        sleep(Duration::from_secs(3)).await;
        for next in Schedule::new(self.seed, &kinds, self.longest_hold) {
            sleep(next.pause).await;
            if began.elapsed() >= self.length {
                break;
            }
            struck.push(self.one(began, &next, site, fleet, service, watch).await);
        }
        struck
    }

    async fn one(
        &self,
        began: Instant,
        next: &Strike,
        site: &Site,
        fleet: &Fleet,
        service: &Service,
        watch: &Watch,
    ) -> Struck {
        let name = |fault: &super::schedule::Fault| match fault.kind.place() {
            Place::Workers => format!("{} ({})", fault.kind, fault.victim % WORKERS),
            Place::Broker if site.nodes.len() > 1 => {
                format!("{} ({})", fault.kind, fault.victim % site.nodes.len())
            }
            _ => fault.kind.to_string(),
        };
        let faults: Vec<String> = next.faults.iter().map(name).collect();
        let start = Instant::now();
        eprintln!("storm: {:>6.1} s  {}", (start - began).as_secs_f64(), faults.join(" + "));
        let made = next.faults.iter().map(|fault| async {
            let made = strike(site, fleet, service, fault).await;
            made.err().map(|error| format!("{}: {error}", fault.kind))
        });
        let failed = join_all(made).await.into_iter().flatten().collect();
        let healed = Instant::now();
        let calmed = watch.until_calm(self.quiet, STALL).await;
        Struck {
            at: start - began,
            faults,
            healed: healed - began,
            calmed,
            late: Late::default(),
            failed,
        }
    }

    fn report(
        &self,
        strikes: Vec<Struck>,
        evidence: &Evidence,
        found: &Found,
        service: &Service,
    ) -> Report {
        let mut counts = counts(evidence, &service.known().promises);
        counts.push(("strikes", strikes.len().to_string()));
        counts.push(("workers that could not start", found.not_started.len().to_string()));
        let command = self.command.clone();
        Report { seed: self.seed, command, strikes, violations: judge(evidence), counts }
    }
}

/// Orders that were late although their notice was confirmed in time. `clock` is what the database's said when
/// the storm began.
async fn late_orders(site: &Site, service: &Service, began: Instant, clock: f64) -> Vec<LateOrder> {
    let promises = service.known().promises;
    let since = |moment: f64| Duration::from_secs_f64((moment - clock).max(0.0));
    let late = |closing: &evidence::Closing| {
        let promise = promises.get(&closing.id)?.saturating_duration_since(began);
        let (due, closed) = (since(closing.due), since(closing.committed));
        let from = due.max(promise) + LATE;
        (closed > from).then_some(LateOrder { due, from, closed })
    };
    evidence::closings(&site.store).await.iter().filter_map(late).collect()
}

/// Stock, the audit of every change, and a subscriber of the events.
async fn prepare(site: &Site) {
    let world = &site.world;
    world.sql(&AUDIT.replace("$schema", &world.schema)).await;
    let stock = format!(
        "INSERT INTO stock (sku, available)
         SELECT 'hot-' || n, {STOCK} FROM generate_series(0, {}) n
         UNION ALL SELECT 'cold-' || n, {STOCK} FROM generate_series(0, {}) n",
        HOT_SKUS - 1,
        COLD_SKUS - 1
    );
    world.sql(&stock).await;
    let wire = world.wire().await;
    wire.queue(SUBSCRIBER, &[("x-queue-type", crate::support::text("quorum"))]).await;
    wire.bind(SUBSCRIBER, &world.topology.events_exchange(), "order.*").await;
}

fn start_workers(site: &Site, logs: &Path, sweep: &'static str) -> Fleet {
    let (urls, database) = (site.worker_urls.clone(), site.worker_database.clone());
    let (dir, schema) = (site.world.dir.path().to_owned(), site.world.schema.clone());
    let start = move |worker: usize| -> Command {
        // Until `broker.url` takes several nodes, each worker has one.
        let [broker, management] = &urls[worker % urls.len()];
        let mut command = overdue(&["run"]);
        command
            .current_dir(&dir)
            .env("OVERDUE_BROKER__URL", broker)
            .env("OVERDUE_BROKER__MANAGEMENT_URL", management)
            .env("OVERDUE_DATABASE__URL", &database)
            .env("OVERDUE_DATABASE__SEARCH_PATH", &schema)
            .env("OVERDUE_WORKER__SWEEP_EVERY", sweep)
            .env("OVERDUE_WORKER__SWEEP_GRACE", sweep)
            .env("OVERDUE_LOG__FILTER", "info,overdue=debug");
        command
    };
    Fleet::start(WORKERS, logs, Box::new(start))
}

/// The load ends; what is due is closed, and what is garbage is parked; then the workers end.
async fn aftermath(
    site: &Site,
    fleet: &Fleet,
    service: &Service,
    strikes: &[Struck],
) -> (Evidence, Found) {
    eprintln!("storm: over; {} orders", service.created());
    service.finish(AFTERMATH).await;
    settle(site, service).await;
    let found = fleet.finish().await;
    let known = service.known();
    let evidence = Evidence {
        orders: evidence::orders(&site.store).await,
        created: known.created,
        answers: known.answers,
        shelves: evidence::shelves(&site.store).await,
        trash: known.trash,
        parked: evidence::take_parked(&site.world).await,
        events: evidence::take_events(&site.world).await,
        ends: found.ends.clone(),
        panics: fleet.logged("panicked"),
        left: evidence::left(&site.world).await,
        outbox: evidence::outbox(&site.store).await,
        interruptions: strikes.len(),
    };
    (evidence, found)
}

/// Waits until nothing is unpaid, in a queue, with a worker or still to be parked; for as long as it becomes less.
/// Several times in a row: the broker's counts are a few seconds old.
async fn settle(site: &Site, service: &Service) {
    let (mut least, mut since, mut settled) = (u64::MAX, Instant::now(), 0);
    while settled < 4 && since.elapsed() < AFTERMATH {
        if let Some(rest) =
            evidence::unfinished(&site.store, &site.world, &service.known().trash).await
        {
            settled = if rest == 0 { settled + 1 } else { 0 };
            if rest < least {
                (least, since) = (rest, Instant::now());
            }
        }
        sleep(Duration::from_secs(1)).await;
    }
}
