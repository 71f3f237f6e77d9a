//! The workers as processes: an ended worker is started again, as a supervisor would do.

use std::{
    fs::File,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use tokio::{task::JoinHandle, time::Instant};

use super::usage::{self, Usage};
use crate::support::{until, wait::PATIENCE};

/// Interval of the checks for ended workers.
const LOOK: Duration = Duration::from_millis(100);
/// Interval of the samples of each worker's usage.
const SAMPLE: Duration = Duration::from_secs(1);
/// Delay before a worker that ended by itself is started again.
const RESTART: Duration = Duration::from_secs(1);
/// Exit codes of a worker that could not start: no service, no right.
const MAY_NOT_START: [i32; 3] = [69, 77, 78];

/// Builds the command of the `n`-th worker.
pub type Start = Box<dyn Fn(usize) -> Command + Send + Sync>;

/// Workers that are restarted until [`Fleet::finish`]; drop kills them.
pub struct Fleet {
    slots: Arc<Mutex<Vec<Slot>>>,
    found: Arc<Mutex<Found>>,
    watching: JoinHandle<()>,
    logs: PathBuf,
}

/// Unexpected ends of workers, and their usage.
#[derive(Clone, Default)]
pub struct Found {
    /// Unrequested ends of workers that had been ready.
    pub ends: Vec<String>,
    /// Exit codes of workers that could not start.
    pub not_started: Vec<i32>,
    /// Resources of a worker that grew until the end.
    pub grown: Vec<String>,
    /// Each worker's highest usage, at first and in the end.
    pub used: Vec<String>,
}

struct Slot {
    worker: usize,
    generation: usize,
    child: Option<Child>,
    start: Arc<Start>,
    logs: PathBuf,
    asked: Asked,
    again: Instant,
    /// Samples, once a second since the start.
    used: Vec<Usage>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Nothing,
    Kill,
    Terminate,
}

impl Fleet {
    /// Starts `count` workers; their logs are in the folder `logs`.
    pub fn start(count: usize, logs: &Path, start: Start) -> Self {
        let start = Arc::new(start);
        let slot = |worker| {
            let mut slot = Slot {
                worker,
                generation: 0,
                child: None,
                start: Arc::clone(&start),
                logs: logs.to_owned(),
                asked: Asked::Nothing,
                again: Instant::now(),
                used: Vec::new(),
            };
            slot.spawn();
            slot
        };
        let slots = Arc::new(Mutex::new((0..count).map(slot).collect::<Vec<_>>()));
        let found = Arc::new(Mutex::new(Found::default()));
        let watching = tokio::spawn(watch(Arc::clone(&slots), Arc::clone(&found)));
        Self { slots, found, watching, logs: logs.to_owned() }
    }

    /// Waits until each worker consumes.
    pub async fn until_ready(&self) {
        let ready = async || self.slots().iter().filter(|slot| slot.is_ready()).count();
        let count = self.slots().len();
        until("every worker is ready", ready, |ready| *ready == count).await;
    }

    /// Kills the worker with SIGKILL; another one is started.
    pub fn kill(&self, victim: usize) {
        self.with(victim, Slot::kill);
    }

    /// Kills each worker with SIGKILL.
    pub fn kill_all(&self) {
        self.slots().iter_mut().for_each(Slot::kill);
    }

    /// Sends SIGSTOP or SIGCONT.
    pub fn signal(&self, victim: usize, signal: &str) {
        self.with(victim, |slot| slot.signal(signal));
    }

    /// Sends SIGTERM, and waits until the worker has ended and another one runs.
    pub async fn terminate(&self, victim: usize) -> Result<(), String> {
        let generation = self.with(victim, |slot| {
            slot.asked = Asked::Terminate;
            slot.signal("TERM");
            slot.generation
        });
        let began = Instant::now();
        while self.with(victim, |slot| slot.generation) == generation {
            if began.elapsed() > PATIENCE {
                self.found.lock().unwrap().ends.push(format!(
                    "worker {} was terminated and did not end within {PATIENCE:?}",
                    victim % self.slots().len()
                ));
                self.kill(victim);
                return Err(format!("did not end within {PATIENCE:?}"));
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    /// Sends SIGTERM to all workers, and waits for their ends; none is started again.
    pub async fn finish(&self) -> Found {
        self.watching.abort();
        for slot in self.slots().iter_mut() {
            if let Some([before, after]) = usage::quarters(&slot.used) {
                let of_worker = |what: String| format!("worker {}: {what}", slot.worker);
                let mut found = self.found.lock().unwrap();
                found.grown.extend(usage::grown([before, after]).into_iter().map(of_worker));
                found.used.push(of_worker(format!("{before}, then {after}")));
            }
            slot.asked = Asked::Terminate;
            slot.signal("TERM");
        }
        let running = async || {
            let mut found = self.found.lock().unwrap();
            self.slots()
                .iter_mut()
                .map(|slot| usize::from(!slot.has_ended(&mut found)))
                .sum::<usize>()
        };
        until("every worker has ended", running, |running| *running == 0).await;
        self.found.lock().unwrap().clone()
    }

    /// Lines of all logs that contain `text`.
    pub fn logged(&self, text: &str) -> Vec<String> {
        let files = std::fs::read_dir(&self.logs).unwrap();
        let logs = files.filter_map(|file| std::fs::read_to_string(file.unwrap().path()).ok());
        let lines = logs.flat_map(|log| log.lines().map(str::to_owned).collect::<Vec<_>>());
        lines.filter(|line| line.contains(text)).collect()
    }

    fn with<T>(&self, victim: usize, act: impl FnOnce(&mut Slot) -> T) -> T {
        let mut slots = self.slots();
        let index = victim % slots.len();
        act(&mut slots[index])
    }

    fn slots(&self) -> MutexGuard<'_, Vec<Slot>> {
        self.slots.lock().unwrap()
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.watching.abort();
        self.slots().iter_mut().for_each(Slot::kill);
    }
}

async fn watch(slots: Arc<Mutex<Vec<Slot>>>, found: Arc<Mutex<Found>>) {
    let mut sampled = Instant::now();
    loop {
        tokio::time::sleep(LOOK).await;
        let is_time = sampled.elapsed() >= SAMPLE;
        if is_time {
            sampled = Instant::now();
        }
        for slot in slots.lock().unwrap().iter_mut() {
            let process = slot.child.as_ref().filter(|_| is_time).map(Child::id);
            slot.used.extend(process.and_then(Usage::of));
            if slot.has_ended(&mut found.lock().unwrap()) && slot.again <= Instant::now() {
                slot.generation += 1;
                slot.spawn();
            }
        }
    }
}

impl Slot {
    fn log(&self) -> PathBuf {
        self.logs.join(format!("worker-{}-{}.log", self.worker, self.generation))
    }

    fn spawn(&mut self) {
        let mut command = (*self.start)(self.worker);
        command.stdout(Stdio::null()).stderr(File::create(self.log()).unwrap());
        self.child = Some(command.spawn().unwrap());
        self.asked = Asked::Nothing;
        self.used.clear();
    }

    fn said(&self) -> String {
        std::fs::read_to_string(self.log()).unwrap_or_default()
    }

    fn is_ready(&self) -> bool {
        self.said().contains("worker ready")
    }

    /// Notes the end of the process once.
    fn has_ended(&mut self, found: &mut Found) -> bool {
        let Some(child) = &mut self.child else { return true };
        let Some(status) = child.try_wait().unwrap() else { return false };
        self.child = None;
        self.again = Instant::now();
        self.note(status, found);
        true
    }

    fn note(&mut self, status: ExitStatus, found: &mut Found) {
        let expected = match self.asked {
            Asked::Kill => true,
            // 1: unfinished work outlasted `worker.drain`, which may happen in an outage.
            Asked::Terminate => matches!(status.code(), Some(0 | 1)) || !self.is_ready(),
            Asked::Nothing => false,
        };
        if expected {
            return;
        }
        self.again = Instant::now() + RESTART;
        match status.code() {
            Some(code) if MAY_NOT_START.contains(&code) && !self.is_ready() => {
                found.not_started.push(code);
            }
            code => {
                let last = self.said().lines().last().unwrap_or_default().to_owned();
                found.ends.push(format!(
                    "worker {}: exit code {code:?}, signal {:?}, asked {:?}, {}: {last}",
                    self.worker,
                    status.signal(),
                    self.asked,
                    self.log().display(),
                ));
            }
        }
    }

    fn kill(&mut self) {
        self.asked = Asked::Kill;
        if let Some(child) = &mut self.child {
            // It has already ended if it ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    fn signal(&mut self, name: &str) {
        if let Some(child) = &self.child {
            // Fails if the process has just ended.
            let _ = Command::new("kill")
                .args(["-s", name, &child.id().to_string()])
                .stderr(Stdio::null())
                .status();
        }
    }
}
