//! The resource usage of a worker's process, and whether it grows.

use std::{fmt, fs};

/// Fewer samples (two minutes) cannot show growth.
const ENOUGH: usize = 120;
/// Tolerated growth of files: connections of a pool that happen to be open at once.
const FILES: u64 = 16;
/// Tolerated growth of memory: the amount that an allocator keeps varies from hour to hour.
const MEMORY_KIB: u64 = 12 * 1_024;

/// A sample; there is one a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    pub threads: u64,
    pub files: u64,
    pub memory_kib: u64,
}

impl Usage {
    /// Reads the usage of a process; `None` if it has ended.
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

/// The maxima of the second and the last quarter: they differ if the usage grows steadily.
pub fn quarters(samples: &[Usage]) -> Option<[Usage; 2]> {
    let quarter = samples.len() / 4;
    let most = |samples: &[Usage]| {
        let most = |of: fn(&Usage) -> u64| samples.iter().map(of).max().unwrap_or_default();
        Usage {
            threads: most(|usage| usage.threads),
            files: most(|usage| usage.files),
            memory_kib: most(|usage| usage.memory_kib),
        }
    };
    let last = samples.len() - quarter;
    (samples.len() >= ENOUGH).then(|| [&samples[quarter..2 * quarter], &samples[last..]].map(most))
}

/// Returns the resources that grew.
pub fn grown([before, after]: [Usage; 2]) -> Vec<String> {
    let grown = |what: &str, slack: u64, of: fn(&Usage) -> u64| {
        let (before, after) = (of(&before), of(&after));
        (after > before + slack).then(|| format!("{what} grew from {before} to {after}"))
    };
    let all = [
        grown("threads", 0, |usage| usage.threads),
        grown("open files", FILES, |usage| usage.files),
        grown("memory in KiB", MEMORY_KIB, |usage| usage.memory_kib),
    ];
    all.into_iter().flatten().collect()
}

/// `5 threads, 31 files, 22 MiB`.
impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { threads, files, memory_kib } = self;
        write!(f, "{threads} threads, {files} files, {} MiB", memory_kib / 1_024)
    }
}

#[test]
#[ignore = "tests the storm itself: `make chaos`"]
fn what_grows_is_noticed() {
    let flat = Usage { threads: 4, files: 30, memory_kib: 40_000 };
    let mut samples = vec![flat; ENOUGH];
    assert_eq!(quarters(&samples).map(grown), Some(vec![]));
    assert_eq!(quarters(&samples[1..]), None);
    samples[ENOUGH - 1] = Usage { threads: 5, files: 47, memory_kib: 60_000 };
    assert_eq!(
        grown(quarters(&samples).unwrap()),
        [
            "threads grew from 4 to 5",
            "open files grew from 30 to 47",
            "memory in KiB grew from 40000 to 60000"
        ]
    );
}
