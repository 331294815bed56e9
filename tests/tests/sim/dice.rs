//! Chance, from the seed only.

use goalmill_common::random::Random;

/// Draws for one part of the simulation.
#[derive(Clone)]
pub struct Dice(Random);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(Random::seeded(seed))
    }

    /// Chance of its own for another part.
    pub fn split(&self) -> Self {
        Self::new(self.0.draw())
    }

    /// The same as the programs under test draw from.
    pub fn random(&self) -> Random {
        Random::seeded(self.0.draw())
    }

    /// Uniform over `low..=high`.
    pub fn between(&self, low: u64, high: u64) -> u64 {
        low + self.0.below(high - low + 1)
    }

    /// True in so many of a thousand cases.
    pub fn permille(&self, share: u64) -> bool {
        self.0.below(1_000) < share
    }

    pub fn pick<'a, T>(&self, from: &'a [T]) -> &'a T {
        let place = usize::try_from(self.0.below(from.len() as u64)).expect("a small number");
        &from[place]
    }
}
