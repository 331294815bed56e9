//! Computes the wait before the next attempt. Pure: the caller draws the random number.

use crate::number::whole_u64;
use crate::plan::{Jitter, Retry};

impl Retry {
    /// Returns how long to wait after `attempt` failed, in milliseconds.
    ///
    /// Full jitter: anywhere in `0..=ceiling`, where the ceiling grows by `factor` with each attempt, so that
    /// workers that failed together do not return together. Without jitter it is the ceiling.
    ///
    /// - `attempt`: the attempt that just failed, counted from 1 since the last fallback.
    /// - `random`: uniform over `u64`.
    ///
    /// Source: M. Brooker, "Exponential Backoff and Jitter", AWS Architecture Blog, 2015.
    pub fn wait_ms(&self, attempt: u32, random: u64) -> u64 {
        let ceiling = self.ceiling_ms(attempt);
        match self.jitter {
            Jitter::None => ceiling,
            Jitter::Full => {
                let wide = u128::from(random) * (u128::from(ceiling) + 1);
                u64::try_from(wide >> 64).expect("a share of a u64 fits")
            }
        }
    }

    /// The longest wait after `attempt` failed, in milliseconds.
    pub fn ceiling_ms(&self, attempt: u32) -> u64 {
        let exponent = i32::try_from(attempt.saturating_sub(1)).unwrap_or(i32::MAX);
        let grown = self.initial_ms as f64 * self.factor.max(1.0).powi(exponent);
        if grown >= self.max_ms as f64 { self.max_ms } else { whole_u64(grown) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ceiling_doubles_up_to_its_limit() {
        let retry = Retry { initial_ms: 100, factor: 2.0, max_ms: 1_000, ..Retry::default() };
        let ceilings: Vec<u64> = (1..=6).map(|n| retry.ceiling_ms(n)).collect();
        assert_eq!(ceilings, [100, 200, 400, 800, 1_000, 1_000]);
        assert_eq!(retry.ceiling_ms(u32::MAX), 1_000);
    }

    #[test]
    fn full_jitter_spans_zero_to_the_ceiling() {
        let retry = Retry { initial_ms: 100, factor: 2.0, max_ms: 1_000, ..Retry::default() };
        assert_eq!(retry.wait_ms(1, 0), 0);
        assert_eq!(retry.wait_ms(1, u64::MAX), 100);
        assert_eq!(retry.wait_ms(2, u64::MAX / 2), 100);
        assert_eq!(Retry { jitter: Jitter::None, ..retry }.wait_ms(3, 0), 400);
    }
}
