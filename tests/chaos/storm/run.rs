//! Runs one storm.

use std::{
    ops::RangeInclusive,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::Duration,
};

use futures_util::future::join_all;
use tokio::time::{Instant, sleep};

use super::{
    evidence::{self, SUBSCRIBER},
    fleet::Fleet,
    judge::judge,
    report::{Report, Struck},
    schedule::{Fault, Kind, Place, Schedule, Strike},
    service::Service,
    site::Site,
    strike::strike,
    watch::Watch,
};
use crate::support::{Services, orders::STOCK, overdue, text, until, wait::PATIENCE};

const WORKERS: usize = 3;
/// Time after which the next strike comes although orders are late.
pub const STALL: Duration = Duration::from_mins(1); // data: of the storm
/// The parameters of a storm.
pub struct Storm {
    /// The nodes of the broker, all with the same database.
    pub services: Vec<Services>,
    pub seed: u64,
    /// No strike begins after this time.
    pub length: Duration,
    /// The highest number of strikes.
    pub strikes: usize,
    pub kinds: Vec<Kind>,
    /// Whether each kind strikes alone before two strike at once.
    pub alone_first: bool,
    pub longest_hold: Duration,
    pub pause_ms: RangeInclusive<u64>,
    pub orders_per_second: u32,
    /// Time without a late order before the next strike.
    pub quiet: Duration,
    /// Interval of the sweep, and the age below which it leaves orders to the messages.
    pub sweep: &'static str,
    /// The command that repeats the storm.
    pub command: String,
}

impl Storm {
    /// Runs the storm, and judges its result. The report is printed and written to `target/chaos`.
    pub async fn run(&self) -> Report {
        eprintln!("storm: seed {}", self.seed);
        let site = Site::on(self.services.clone()).await;
        let logs = self.folder();
        let (rate, store) = (self.orders_per_second, site.store.clone());
        let service = Service::new(self.seed, rate, store, &site.addresses());
        prepare(&site, &service).await;
        let fleet = self.start_workers(&site, &logs);
        fleet.until_ready().await;
        let watch = Watch::start(Arc::clone(&service));
        service.start();
        let strikes = self.strikes(&site, &fleet, &service, &watch).await;
        eprintln!("storm: over");
        service.finish().await;
        settle(&site, &service).await;
        let found = fleet.finish().await;
        let mut report = Report {
            seed: self.seed,
            command: self.command.clone(),
            strikes,
            violations: vec!["not judged: what would have been is not there".to_owned()],
            used: found.used,
            grown: found.grown,
            counts: Vec::new(),
        };
        // Written before the judgement, in case it fails.
        std::fs::write(logs.join("report.txt"), report.to_string()).unwrap();
        let mut evidence = evidence::gather(&site, &service).await;
        evidence.ends = found.ends;
        evidence.panics = fleet.logged("panicked");
        evidence.interruptions = report.strikes.len();
        let mut counts = evidence::counts(&site.world.patient_store()).await;
        counts.push(("garbage and ghosts", evidence.trash.len().to_string()));
        counts.push(("parked", evidence.parked.len().to_string()));
        let faults: usize = report.strikes.iter().map(|strike| strike.kinds.len()).sum();
        counts.push(("strikes", report.strikes.len().to_string()));
        counts.push(("faults", faults.to_string()));
        counts.push(("workers that could not start", found.not_started.len().to_string()));
        (report.violations, report.counts) = (judge(&evidence), counts);
        std::fs::write(logs.join("report.txt"), report.to_string()).unwrap();
        eprintln!("{report}\nlogs and report.txt: {}", logs.display());
        report
    }

    /// Empties the folder of an earlier run. Short storms run at the same time with one seed and differ in their kinds.
    fn folder(&self) -> PathBuf {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
        let name = format!("seed-{}-of-{}-kinds", self.seed, self.kinds.len());
        let folder = target.join("chaos").join(name);
        // The folder does not exist in a first run.
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn start_workers(&self, site: &Site, logs: &Path) -> Fleet {
        let sweep = self.sweep;
        // At a high rate, debug logs would take gigabytes.
        let filter = if self.orders_per_second > 100 { "info" } else { "info,overdue=debug" };
        let (urls, database) = (site.worker_urls.clone(), site.worker_database.clone());
        let (dir, schema) = (site.world.dir.path().to_owned(), site.world.search_path.clone());
        let clock = site.worker_clock.clone();
        let start = move |worker: usize| -> Command {
            // `broker.url` takes one node, so each worker gets its own.
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
                .env("OVERDUE_LOG__FILTER", filter);
            if let Some(clock) = &clock {
                clock.is_of(&mut command);
            }
            command
        };
        Fleet::start(WORKERS, logs, Box::new(start))
    }

    async fn strikes(
        &self,
        site: &Site,
        fleet: &Fleet,
        service: &Service,
        watch: &Watch,
    ) -> Vec<Struck> {
        let (began, mut struck) = (Instant::now(), Vec::new());
        until("the first order closed", async || site.world.closed().await, |it| *it > 0).await;
        let schedule = Schedule::new(
            self.seed,
            &self.kinds,
            self.longest_hold,
            self.pause_ms.clone(),
            self.alone_first,
        );
        for Strike { pause, faults } in schedule.take(self.strikes) {
            sleep(pause).await;
            let start = Instant::now();
            if start - began >= self.length {
                break;
            }
            let names: Vec<String> = faults.iter().map(|fault| name(fault, site)).collect();
            let (at, names) = (start - began, names.join(" + "));
            eprintln!("storm: {:>6.1} s  {names}", at.as_secs_f64());
            let made = faults.iter().map(|fault| async {
                let made = strike(site, fleet, service, fault).await;
                made.err().map(|error| format!("{:?}: {error}", fault.kind))
            });
            let failed = join_all(made).await.into_iter().flatten().collect();
            let healed = Instant::now();
            let (last_late, late) = watch.until_calm(start, (self.quiet, STALL)).await;
            struck.push(Struck {
                at,
                kinds: faults.iter().map(|fault| fault.kind).collect(),
                faults: names,
                lasted: healed - start,
                recovered: last_late.map(|last_late| last_late.saturating_duration_since(healed)),
                late,
                failed,
            });
        }
        struck
    }
}

/// The fault's name, with its worker or node.
fn name(Fault { kind, victim, .. }: &Fault, site: &Site) -> String {
    match kind.place() {
        Place::Workers => format!("{kind:?} ({})", victim % WORKERS),
        Place::Broker if site.nodes.len() > 1 => {
            format!("{kind:?} ({})", victim % site.nodes.len())
        }
        _ => format!("{kind:?}"),
    }
}

/// Creates the stock, and the queue that collects the events.
async fn prepare(site: &Site, service: &Service) {
    const FILL: &str = include_str!("../../../sql/service_fill_stock.sql");
    let (world, client) = (&site.world, site.store.client().await.unwrap());
    for shop in service.shops() {
        client.execute(FILL, &[&shop, &STOCK]).await.unwrap();
    }
    let wire = world.wire().await;
    wire.queue(SUBSCRIBER, &[("x-queue-type", text("quorum"))]).await;
    wire.bind(SUBSCRIBER, &world.topology.events_exchange(), "order.*").await;
}

/// Waits until no order is unpaid, queued, unacked or still to be parked; gives up if the count stops falling.
/// Zero must be read several times: the broker's counts are a few seconds old.
async fn settle(site: &Site, service: &Service) {
    let (mut least, mut since, mut settled) = (u64::MAX, Instant::now(), 0);
    while settled < 4 && since.elapsed() < PATIENCE {
        if let Some(rest) = evidence::unfinished(site, service).await {
            settled = if rest == 0 { settled + 1 } else { 0 };
            if rest < least {
                (least, since) = (rest, Instant::now());
            }
        }
        sleep(Duration::from_secs(1)).await;
    }
}
