//! In place of `src/topology`.

pub(crate) mod route {
    pub(crate) const LONGEST_IN_HAND: std::time::Duration = std::time::Duration::from_secs(600);
}
