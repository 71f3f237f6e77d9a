//! The digits with the fewest hops that a number of queues is enough for.
//!
//! A place with the digits 0 to d costs d queues, multiplies what the ladder can express by d + 1, and is a hop for
//! d of its d + 1 digits. So the order of the places does not matter, and this looks for numbers d with
//!
//! - the sum of d at most the number of queues,
//! - the product of d + 1 above the maximum,
//! - the sum of d / (d + 1) as small as possible: the hops, averaged over all delays that the places can express.
//!
//! It goes through the numbers from the largest to the smallest and keeps, for each number of queues that is left,
//! only what nothing else beats. Sums of hops are added in one order, so that every machine finds the same digits.

/// Digits chosen so far.
#[derive(Clone)]
struct Chosen {
    /// The places still to come have to express so many delays; 1 is done.
    rest: u64,
    hops: f64,
    /// Highest digits, largest first.
    digits: Vec<u32>,
}

impl Chosen {
    fn nothing(all: u64) -> Self {
        Self { rest: all, hops: 0.0, digits: Vec::new() }
    }

    /// The `rest` and the `hops` with one more place.
    fn after(&self, digit: u32) -> (u64, f64) {
        let radix = digit.saturating_add(1);
        let hops = self.hops + f64::from(digit) / f64::from(radix);
        (self.rest.div_ceil(radix.into()), hops)
    }

    fn with(&self, digit: u32) -> Self {
        let (rest, hops) = self.after(digit);
        let digits = self.digits.iter().copied().chain([digit]).collect();
        Self { rest, hops, digits }
    }
}

/// Hops of a message, averaged over all delays that places with these highest digits can express.
pub(super) fn hops(digits: &[u32]) -> f64 {
    digits.iter().fold(Chosen::nothing(1), |chosen, digit| chosen.with(*digit)).hops
}

/// The fewest queues that express every number up to `max`: one per bit.
pub(super) fn least_queues(max: u64) -> u32 {
    u64::BITS - max.leading_zeros()
}

/// The highest digit of each place, largest first; none below [`least_queues`].
pub(super) fn digits(max: u64, queues: u32) -> Option<Vec<u32>> {
    let all = max.saturating_add(1);
    let mut best = first_answer(all, queues)?;
    let bounds = Bounds::new(queues);
    // By the number of queues left.
    let mut open: Vec<Vec<Chosen>> = vec![Vec::new(); index(queues) + 1];
    open.last_mut()?.push(Chosen::nothing(all));
    for digit in (1..=queues).rev() {
        // Downwards, so that a digit is taken several times.
        for left in (0..=queues).rev() {
            let mut here = std::mem::take(open.get_mut(index(left))?);
            here.retain(|chosen| bounds.may_beat(&best, (chosen.rest, chosen.hops), left, digit));
            for chosen in here.iter().filter(|_| left >= digit) {
                let (rest, hops) = chosen.after(digit);
                if rest == 1 && hops < best.hops {
                    best = chosen.with(digit);
                } else if rest > 1 && bounds.may_beat(&best, (rest, hops), left - digit, digit) {
                    keep(open.get_mut(index(left - digit))?, chosen, digit);
                }
            }
            *open.get_mut(index(left))? = here;
        }
    }
    best.digits.sort_unstable_by(|one, other| other.cmp(one));
    Some(best.digits)
}

/// Adds `chosen` with one more place, unless what is kept is as good, and removes what that beats.
///
/// `kept` is in the order of `rest`, and so, backwards, in the order of `hops`.
fn keep(kept: &mut Vec<Chosen>, chosen: &Chosen, digit: u32) {
    let (rest, hops) = chosen.after(digit);
    let not_worse = kept.partition_point(|old| old.rest <= rest);
    if kept.get(..not_worse).and_then(<[Chosen]>::last).is_some_and(|old| old.hops <= hops) {
        return;
    }
    let from = kept.partition_point(|old| old.rest < rest);
    let behind = kept.iter().skip(from);
    let beaten = behind.take_while(|old| old.hops >= hops).count();
    kept.splice(from..from + beaten, [chosen.with(digit)]);
}

/// The best of the ladders whose places are as alike as can be, but for a small one: an answer to measure others by.
fn first_answer(all: u64, queues: u32) -> Option<Chosen> {
    let places = 0..least_queues(all - 1);
    let shapes = places.flat_map(|places| (1..=6).map(move |small| (places, small)));
    let answers = shapes.filter_map(|(places, small)| {
        let last = Chosen::nothing(all).with(small);
        let digits = alike(last.rest, places, queues.checked_sub(small)?)?;
        let chosen = digits.iter().fold(Chosen::nothing(all), |chosen, digit| chosen.with(*digit));
        Some(chosen.with(small))
    });
    answers.min_by(|one, other| one.hops.total_cmp(&other.hops))
}

/// So many digits as alike as can be that express `all`; none where there are too few queues.
fn alike(all: u64, places: u32, queues: u32) -> Option<Vec<u32>> {
    let expressed = |digit: u32, higher: u32| {
        let radix = u64::from(digit).saturating_add(1);
        radix.saturating_pow(places - higher).saturating_mul((radix + 1).saturating_pow(higher))
    };
    let most = queues.checked_div(places).unwrap_or(0);
    let digit = (1..=most).take_while(|digit| expressed(*digit, 0) < all).last().unwrap_or(1);
    let higher = (0..=places).find(|higher| expressed(digit, *higher) >= all)?;
    let digits = (0..places).map(|place| digit.saturating_add(u32::from(place < higher)));
    Some(digits.collect()).filter(|digits: &Vec<u32>| digits.iter().sum::<u32>() <= queues)
}

/// How few hops are possible at best.
struct Bounds {
    /// For each highest digit from 1: queues and hops per e-fold of what is expressed.
    costs: Vec<(f64, f64)>,
}

impl Bounds {
    fn new(largest: u32) -> Self {
        let costs = (1..=largest).map(|digit| {
            let (digit, radix) = (f64::from(digit), f64::from(digit) + 1.0);
            (digit / radix.ln(), digit / radix / radix.ln())
        });
        Self { costs: costs.collect() }
    }

    /// Whether digits up to `largest` can make of this `rest` and these `hops` something better than `best`.
    fn may_beat(&self, best: &Chosen, (rest, hops): (u64, f64), left: u32, largest: u32) -> bool {
        // Only what is surely worse is left out: logarithms differ in the last bit between machines.
        self.hops(rest, left, largest).is_some_and(|more| hops + more < best.hops + 1e-9)
    }

    /// The fewest hops to express `rest` with so many queues and digits up to `largest`, if places could be divided;
    /// none where it is impossible.
    ///
    /// The costs are on a convex curve: larger digits need more queues and fewer hops. So two neighbours are best.
    fn hops(&self, rest: u64, queues: u32, largest: u32) -> Option<f64> {
        if least_queues(rest - 1) > queues {
            return None;
        }
        let (e_folds, queues) = (as_float(rest).ln(), f64::from(queues));
        let costs = self.costs.get(..index(largest))?;
        let affordable = costs.partition_point(|(cost, _)| cost * e_folds <= queues);
        let per_e_fold = match (costs.get(affordable.max(1) - 1)?, costs.get(affordable.max(1))) {
            (below, None) => below.1,
            (below, Some(above)) => {
                let share = (queues / e_folds - below.0) / (above.0 - below.0);
                below.1 + share * (above.1 - below.1)
            }
        };
        Some(per_e_fold * e_folds)
    }
}

/// Exact below 2⁵³.
pub(super) fn as_float(number: u64) -> f64 {
    let half = |half: u64| f64::from(u32::try_from(half).unwrap_or(u32::MAX));
    half(number >> 32) * 4_294_967_296.0 + half(number & 0xffff_ffff)
}

fn index(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
