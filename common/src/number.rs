//! Conversions between kinds of numbers. Each says what becomes of a number that does not fit.

use std::time::Duration;

/// Converts a count, a length or an index, none of which is negative; a larger one becomes `u32::MAX`.
pub fn to_u32(n: impl TryInto<u32>) -> u32 {
    n.try_into().unwrap_or(u32::MAX)
}

/// Converts a count, a length or an index, none of which is negative; a larger one becomes `usize::MAX`.
pub fn to_usize(n: impl TryInto<usize>) -> usize {
    n.try_into().unwrap_or(usize::MAX)
}

/// Returns the whole part of a float: 0 for a negative one and for NaN, `u64::MAX` for a larger one.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast ends at the ends of the type")]
pub fn whole_u64(value: f64) -> u64 {
    value as u64
}

/// Returns the whole part of a float: 0 for NaN, an end of the type for a float beyond it.
#[expect(clippy::cast_possible_truncation, reason = "the cast ends at the ends of the type")]
pub fn whole_i64(value: f64) -> i64 {
    value as i64
}

/// Returns the nearest number of microdollars: 0 for less than nothing and for NaN.
pub fn microdollars(dollars: f64) -> u64 {
    whole_u64((dollars * 1e6).round())
}

/// Returns the whole milliseconds of a duration; `u64::MAX` for a longer one.
pub fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_becomes_the_nearest_that_does() {
        assert_eq!((to_u32(7_usize), to_u32(u64::MAX), to_usize(7_u32)), (7, u32::MAX, 7));
        assert_eq!((whole_u64(2.9), whole_u64(-2.9), whole_u64(f64::NAN), whole_u64(1e30)), (2, 0, 0, u64::MAX));
        assert_eq!((whole_i64(-2.9), whole_i64(f64::NAN), whole_i64(-1e30)), (-2, 0, i64::MIN));
        assert_eq!((microdollars(0.000_001_6), microdollars(-1.0)), (2, 0));
        assert_eq!((milliseconds(Duration::from_micros(1_999)), milliseconds(Duration::MAX)), (1, u64::MAX));
    }
}
