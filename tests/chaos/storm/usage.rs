//! What a worker's process uses, and whether that grows.

use std::fs;

/// Fewer samples, two minutes of them, say nothing of growth.
const ENOUGH: usize = 120;
/// Files more: connections of a pool that happen to be open at once.
const FILES: u64 = 16;
/// Memory more: what an allocator keeps differs from hour to hour.
const MEMORY_KIB: u64 = 12 * 1_024;

/// At one moment, once a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    pub threads: u64,
    pub files: u64,
    pub memory_kib: u64,
}

impl Usage {
    /// Of a process that runs.
    pub fn of(process: u32) -> Option<Self> {
        let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
        let field = |name: &str| {
            let line =
                status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
            line.split_whitespace().next()?.parse().ok()
        };
        let files = fs::read_dir(format!("/proc/{process}/fd")).ok()?.count();
        Some(Self {
            threads: field("Threads")?,
            files: u64::try_from(files).ok()?,
            memory_kib: field("VmRSS")?,
        })
    }
}

/// The most of the last quarter against the most of the second one: what grows all the time differs.
pub fn grown(samples: &[Usage]) -> Vec<String> {
    if samples.len() < ENOUGH {
        return Vec::new();
    }
    let quarter = samples.len() / 4;
    let (before, after) = (&samples[quarter..2 * quarter], &samples[samples.len() - quarter..]);
    let grown = |what: &str, slack: u64, of: fn(&Usage) -> u64| {
        let most = |samples: &[Usage]| samples.iter().map(of).max().unwrap_or_default();
        let (before, after) = (most(before), most(after));
        (after > before + slack).then(|| format!("{what} grew from {before} to {after}"))
    };
    let all = [
        grown("threads", 0, |usage| usage.threads),
        grown("open files", FILES, |usage| usage.files),
        grown("memory in KiB", MEMORY_KIB, |usage| usage.memory_kib),
    ];
    all.into_iter().flatten().collect()
}

#[test]
#[ignore = "tests the storm itself: `make chaos`"]
fn what_grows_is_noticed() {
    let flat = Usage { threads: 4, files: 30, memory_kib: 40_000 };
    let mut samples = vec![flat; ENOUGH];
    assert_eq!(grown(&samples), [""; 0]);
    assert_eq!(grown(&samples[1..]), [""; 0]);
    samples[ENOUGH - 1] = Usage { threads: 5, files: 47, memory_kib: 60_000 };
    assert_eq!(
        grown(&samples),
        [
            "threads grew from 4 to 5",
            "open files grew from 30 to 47",
            "memory in KiB grew from 40000 to 60000"
        ]
    );
}
