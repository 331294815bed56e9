//! Random numbers, from the seed only.

use goalmill_common::random::Random;

/// A random number generator for one part of the simulation.
#[derive(Clone)]
pub struct Rng(Random);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Self(Random::seeded(seed))
    }

    /// A separate generator for another part.
    pub fn split(&self) -> Self {
        Self::new(self.0.draw())
    }

    /// A generator of the kind that the programs under test use.
    pub fn random(&self) -> Random {
        Random::seeded(self.0.draw())
    }

    /// Uniform over `low..=high`.
    pub fn between(&self, low: u64, high: u64) -> u64 {
        low + self.0.below(high - low + 1)
    }

    /// True with probability `share`/1,000.
    pub fn permille(&self, share: u64) -> bool {
        self.0.below(1_000) < share
    }

    pub fn pick<'a, T>(&self, from: &'a [T]) -> &'a T {
        let place = usize::try_from(self.0.below(from.len() as u64)).expect("a small number");
        &from[place]
    }
}
