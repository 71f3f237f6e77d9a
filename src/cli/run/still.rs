//! When something that changes has to be tried: once for each state that it stays in.

/// What was seen last, and what was tried last.
#[derive(Debug)]
pub(super) struct Still<T> {
    last: Option<T>,
    tried: Option<T>,
}

impl<T: PartialEq> Still<T> {
    /// Nothing was tried yet.
    pub(super) const fn new() -> Self {
        Self { last: None, tried: None }
    }

    /// Whether what is seen now was seen the time before as well, and is not what was tried last.
    pub(super) fn look(&mut self, seen: T) -> bool {
        let is_new = self.tried.as_ref() != Some(&seen);
        let before = self.last.replace(seen);
        is_new && before == self.last
    }

    /// This one has been tried now.
    pub(super) fn tried(&mut self, seen: T) {
        self.tried = Some(seen);
    }

    /// Whatever is there has to be tried again.
    pub(super) fn forget(&mut self) {
        self.tried = None;
    }

    /// What was tried last.
    pub(super) const fn last_tried(&self) -> Option<&T> {
        self.tried.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Still;

    /// What is tried of a list of states, each seen once.
    fn tried(states: &[u8]) -> Vec<u8> {
        let mut still = Still::new();
        still.tried(0);
        let mut tried = Vec::new();
        for &state in states {
            if still.look(state) {
                still.tried(state);
                tried.push(state);
            }
        }
        tried
    }

    #[test]
    fn a_state_is_tried_once_when_it_has_stood_still() {
        assert_eq!(tried(&[0, 0, 1, 2, 2, 2, 2]), [2]);
        assert!(tried(&[1, 0, 0, 0]).is_empty());
        assert_eq!(tried(&[1, 1, 0, 0, 1, 1]), [1, 0, 1]);
    }

    #[test]
    fn what_was_forgotten_is_tried_again_although_it_is_the_same() {
        let mut still = Still::new();
        still.tried(1);
        assert!(!still.look(1) && !still.look(1));
        still.forget();
        assert!(still.look(1));
    }

    proptest! {
        /// However often it is looked, no state is tried twice in a row, and the last one that stays is in effect.
        #[test]
        fn the_last_state_that_stays_is_in_effect(mut states in prop::collection::vec(0_u8..3, 0..30), last in 0_u8..3) {
            states.extend([last, last]);
            let tried = tried(&states);
            prop_assert!(tried.windows(2).all(|pair| pair[0] != pair[1]));
            prop_assert_eq!(tried.last().copied().unwrap_or(0), last);
        }
    }
}
