//! Indices of compiled problems are narrow, so that more of them fit a cache line.

/// An object of a problem.
pub(crate) type Object = u32;

/// Converts a length or a place. The search calls it often, and a list of 2^32 does not fit the memory.
#[expect(clippy::cast_possible_truncation, reason = "longer lists do not fit the memory")]
pub(crate) fn to_u32(n: usize) -> u32 {
    debug_assert!(u32::try_from(n).is_ok(), "{n} is no index");
    n as u32
}

/// Converts the place of a variable: the compiler refuses rules with more than 128.
#[expect(clippy::cast_possible_truncation, reason = "a rule has at most 128 variables")]
pub(crate) fn to_u16(n: usize) -> u16 {
    debug_assert!(u16::try_from(n).is_ok(), "{n} is no variable");
    n as u16
}
