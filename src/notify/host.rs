//! The name of this machine, in messages.

/// As the operating system has it; in a container the one of the container.
pub(super) fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
