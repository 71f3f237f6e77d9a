//! How much of this machine's CPU its host gave to others, from `/proc/stat`: figures of such a time say little.

use std::fs;

/// CPU time of all cores so far, in ticks.
///
/// <https://man7.org/linux/man-pages/man5/proc_stat.5.html>
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MachineTime {
    all: u64,
    stolen: u64,
}

impl MachineTime {
    /// `None` where there is no `/proc`.
    pub(super) fn read() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/stat").ok()?)
    }

    fn parse(stat: &str) -> Option<Self> {
        let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
        // user, nice, system, idle, iowait, irq, softirq, steal; what guests use is in the first two.
        let ticks: Vec<u64> =
            line.split_whitespace().take(8).map(str::parse).collect::<Result<_, _>>().ok()?;
        Some(Self { all: ticks.iter().sum(), stolen: *ticks.get(7)? })
    }

    /// The part of all CPU time from then to now that was stolen, in percent; `None` where no time has passed.
    pub(super) fn stolen_until(self, later: Self) -> Option<f64> {
        let between = |before: u64, after: u64| {
            u32::try_from(after.saturating_sub(before)).unwrap_or(u32::MAX)
        };
        let all = between(self.all, later.all);
        (all > 0).then(|| f64::from(between(self.stolen, later.stolen)) / f64::from(all) * 100.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_host_took_is_a_part_of_all_there_was() {
        let of = |stat| MachineTime::parse(stat).unwrap();
        let before = of("cpu  100 0 50 800 40 0 5 5 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\n");
        let after = of("cpu  200 0 100 840 40 0 5 15 70 0\ncpu0 1 2 3 4 5 6 7 8 0 0\n");
        assert_eq!(before.stolen_until(after), Some(5.0));
        assert_eq!(before.stolen_until(before), None);
        assert_eq!(MachineTime::parse("cpu  100 0 50 800\n"), None);
        assert_eq!(MachineTime::parse("intr 1\n"), None);
    }
}
