//! Vectors of numbers; loops over many of them are compiled several times, and the one for the widest registers of this
//! processor runs.

use fearless_simd::{Level, Simd, dispatch};

/// What 1 is as a whole number: products of two vectors of length 1 stay within an `i32`.
pub(super) const ONE: f32 = 16_384.0;

/// Runs loops so; what they call must be inlined.
pub(super) fn wide<R>(loops: impl FnOnce() -> R) -> R {
    dispatch!(Level::new(), simd => simd.vectorize(loops))
}

/// Makes a vector's length 1.
pub(super) fn scale(vector: &mut [f32]) {
    let length = vector.iter().map(|cell| cell * cell).sum::<f32>().sqrt();
    if length > 0.0 && length.is_finite() {
        vector.iter_mut().for_each(|cell| *cell /= length);
    } else {
        vector.fill(0.0);
    }
}

/// A vector of length 1 as whole numbers.
pub(super) fn whole(vector: &[f32]) -> Vec<i16> {
    vector.iter().map(|cell| (cell * ONE) as i16).collect()
}

/// The product of two vectors as [`whole`] makes them.
#[expect(clippy::inline_always, reason = "else it is not compiled for the registers of `wide`")]
#[inline(always)]
pub(super) fn dot(a: &[i16], b: &[i16]) -> f32 {
    let sum: i32 = a.iter().zip(b).map(|(a, b)| i32::from(*a) * i32::from(*b)).sum();
    sum as f32 / (ONE * ONE)
}
