//! How far a change is.

/// What the order service, which publishes meanwhile, knows of the change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChangePhase {
    /// It is being made.
    Changing,
    /// The queue of a removed timeout stays bound for what waits in the levels.
    Leaving,
    /// Nothing new comes into what is retired; that is draining.
    Changed,
    /// What was retired is gone.
    Gone,
}
