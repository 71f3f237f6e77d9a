//! The CPU time of a control group, of either version of these.
//!
//! <https://docs.kernel.org/admin-guide/cgroup-v2.html>, <https://docs.kernel.org/admin-guide/cgroup-v1/cpuacct.html>

use std::time::Duration;

/// The files in which the CPU time may stand, from `/proc/<pid>/cgroup`; the first one that exists has it.
pub(super) fn files(groups: &str) -> Vec<String> {
    let lines = groups.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        Some((parts.next()?, parts.next()?))
    });
    // `/` would be the whole machine: this process is in a namespace of its own.
    let lines = lines.filter(|(_, path)| *path != "/");
    let files = lines.filter_map(|(controllers, path)| {
        if controllers.is_empty() {
            return Some(format!("/sys/fs/cgroup{path}/cpu.stat"));
        }
        let counts = controllers.split(',').any(|controller| controller == "cpuacct");
        counts.then(|| format!("/sys/fs/cgroup/{controllers}{path}/cpuacct.usage"))
    });
    files.collect()
}

/// What such a file says: nanoseconds, or `usage_usec` among others.
pub(super) fn cpu(text: &str) -> Option<Duration> {
    if let Ok(ns) = text.trim().parse() {
        return Some(Duration::from_nanos(ns));
    }
    let us = text.lines().find_map(|line| line.strip_prefix("usage_usec "))?;
    Some(Duration::from_micros(us.trim().parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_are_read_and_the_whole_machine_is_nobodys_group() {
        assert_eq!(
            files("0::/system.slice/docker-ab.scope\n"),
            ["/sys/fs/cgroup/system.slice/docker-ab.scope/cpu.stat"]
        );
        let first =
            "4:memory:/docker/ab\n2:cpu,cpuacct:/docker/ab\n1:cpuacct2:/docker/ab\n0::/docker/ab\n";
        let expected = [
            "/sys/fs/cgroup/cpu,cpuacct/docker/ab/cpuacct.usage",
            "/sys/fs/cgroup/docker/ab/cpu.stat",
        ];
        assert_eq!(files(first), expected);
        assert_eq!(files("0::/\n2:cpuacct:/\nnonsense\n"), Vec::<String>::new());
    }

    #[test]
    fn nanoseconds_and_microseconds_are_each_known_by_their_form() {
        assert_eq!(cpu("1500000000\n"), Some(Duration::from_millis(1_500)));
        assert_eq!(cpu("usage_usec 2500\nuser_usec 1\n"), Some(Duration::from_micros(2_500)));
        assert_eq!(cpu("user_usec 1\n"), None);
    }
}
