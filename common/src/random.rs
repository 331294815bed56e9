//! The only source of random numbers: the machine, or a seed when a run must be repeatable.

use std::sync::{Arc, Mutex, PoisonError};

use rand::rngs::StdRng;
use rand::{RngCore, SeedableRng};

/// Draws random numbers; cryptographically strong (ChaCha12), also when seeded.
#[derive(Clone)]
pub struct Random(Arc<Mutex<StdRng>>);

impl Random {
    /// Seeded by the machine.
    pub fn system() -> Self {
        Self(Arc::new(Mutex::new(StdRng::from_os_rng())))
    }

    /// The same draws for the same seed.
    pub fn seeded(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(StdRng::seed_from_u64(seed))))
    }

    /// Uniform over `u64`.
    pub fn draw(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).next_u64()
    }

    /// A word of 26 characters that cannot be guessed (128 bits).
    pub fn token(&self) -> String {
        let bits = (u128::from(self.draw()) << 64) | u128::from(self.draw());
        crate::id::base32(bits, 26)
    }

    /// Uniform over `0..bound`; 0 for a bound of 0.
    pub fn below(&self, bound: u64) -> u64 {
        u64::try_from((u128::from(self.draw()) * u128::from(bound)) >> 64).expect("a share of a u64 fits")
    }
}

impl Default for Random {
    fn default() -> Self {
        Self::system()
    }
}

impl std::fmt::Debug for Random {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Random")
    }
}
