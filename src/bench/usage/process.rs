//! What a process has used, from `/proc`.

use std::{fs, iter::Sum, time::Duration};

/// Of `/proc/<pid>/stat`: `USER_HZ` is 100 on every architecture that servers have.
///
/// <https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html>
const TICK: Duration = Duration::from_millis(10);

/// What a process has used so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProcessUsage {
    /// User and system time of all its threads, those that have ended as well; exact to 10 ms.
    pub cpu: Duration,
    /// Resident memory at this moment, in bytes.
    pub resident_bytes: u64,
    /// The most there was of it.
    pub peak_bytes: u64,
}

impl ProcessUsage {
    /// `None` where there is no such process, or no `/proc`.
    pub(crate) fn of(process: u32) -> Option<Self> {
        let read = |file: &str| fs::read_to_string(format!("/proc/{process}/{file}")).ok();
        Self::parse(&read("stat")?, &read("status")?)
    }

    fn parse(stat: &str, status: &str) -> Option<Self> {
        // The name of the program is in parentheses, and may have anything in it.
        let (_, after_name) = stat.rsplit_once(')')?;
        let field = |place: usize| after_name.split_whitespace().nth(place)?.parse::<u32>().ok();
        // Fields 14 and 15, the first after the name being field 3.
        let ticks = field(11)?.saturating_add(field(12)?);
        let kilobytes = |name: &str| -> Option<u64> {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().next()?.parse().ok()
        };
        Some(Self {
            cpu: TICK * ticks,
            resident_bytes: kilobytes("VmRSS:")? * 1_024,
            peak_bytes: kilobytes("VmHWM:")? * 1_024,
        })
    }
}

impl Sum for ProcessUsage {
    /// Of processes that run beside each other.
    fn sum<I: Iterator<Item = Self>>(usages: I) -> Self {
        usages.fold(Self::default(), |all, one| Self {
            cpu: all.cpu + one.cpu,
            resident_bytes: all.resident_bytes + one.resident_bytes,
            peak_bytes: all.peak_bytes + one.peak_bytes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_memory_are_read_whatever_the_program_is_called() {
        let stat = "4711 (a ) b) S 1 2 3 0 -1 4194560 11 0 0 0 250 31 7 8 20 0 4 0 3496839 1 2";
        let status = "Name:\ta ) b\nVmPeak:\t   900 kB\nVmHWM:\t    44 kB\nVmRSS:\t      40 kB\n";
        let usage = ProcessUsage {
            cpu: Duration::from_millis(2_810),
            resident_bytes: 40_960,
            peak_bytes: 45_056,
        };
        assert_eq!(ProcessUsage::parse(stat, status), Some(usage));
        assert_eq!(ProcessUsage::parse("", status), None);
        assert_eq!(ProcessUsage::parse(stat, ""), None);
    }
}
