//! Percentiles of measured durations.

use goalmill_common::number::{to_usize, whole_u64};

/// Durations kept of one kind.
pub(super) const DURATIONS_MAX: usize = 100_000;

/// The smallest value that is not below this share of all, and how many there are.
pub(super) fn percentile(values: &mut [f64], share: f64) -> (Option<f64>, u64) {
    values.sort_by(f64::total_cmp);
    let place = to_usize(whole_u64((values.len() as f64 * share).ceil())).max(1) - 1;
    (values.get(place).copied(), values.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_a_value_that_was_measured() {
        let mut values = vec![5.0, 1.0, 3.0, 2.0, 4.0];
        assert_eq!(percentile(&mut values, 0.5), (Some(3.0), 5));
        assert_eq!(percentile(&mut values, 0.95), (Some(5.0), 5));
        assert_eq!(percentile(&mut [], 0.95), (None, 0));
    }
}
