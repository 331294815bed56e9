//! Unit vectors as 16-bit integers.

/// The integer for 1.0. The dot product of two unit vectors fits into an `i32`.
pub(super) const UNIT: f32 = 16_384.0;
/// Partial sums of a dot product: with so many, the compiler vectorizes the loop.
const LANES: usize = 16;

/// Scales a vector to length 1; a vector without a finite length becomes zero.
pub(super) fn normalize(vector: &mut [f32]) {
    let length = vector.iter().map(|cell| cell * cell).sum::<f32>().sqrt();
    if length > 0.0 && length.is_finite() {
        vector.iter_mut().for_each(|cell| *cell /= length);
    } else {
        vector.fill(0.0);
    }
}

/// The mean of vectors.
pub(super) fn mean(vectors: &[Vec<f32>], columns: usize) -> Vec<f32> {
    let mut mean = vec![0.0; columns];
    for vector in vectors {
        for (sum, cell) in mean.iter_mut().zip(vector) {
            *sum += cell / vectors.len() as f32;
        }
    }
    mean
}

/// Subtracts a share of the mean of all vectors, and scales the rest to length 1; zero stays zero.
pub(super) fn subtract_common(vector: &mut [f32], common: &[f32], share: f32) {
    if vector.iter().all(|cell| *cell == 0.0) {
        return;
    }
    for (cell, common) in vector.iter_mut().zip(common) {
        *cell -= share * common;
    }
    normalize(vector);
}

/// Converts a unit vector to integers.
#[expect(clippy::cast_possible_truncation, reason = "the cells of a unit vector are at most 1")]
pub(super) fn quantize(vector: &[f32]) -> Vec<i16> {
    vector.iter().map(|cell| (cell * UNIT) as i16).collect()
}

/// The dot product of two quantized vectors of equal length.
pub(super) fn dot(a: &[i16], b: &[i16]) -> f32 {
    let product = |(a, b): (&i16, &i16)| i32::from(*a) * i32::from(*b);
    let (chunks_a, rest_a) = a.as_chunks::<LANES>();
    let (chunks_b, rest_b) = b.as_chunks::<LANES>();
    let mut sums = [0_i32; LANES];
    for (a, b) in chunks_a.iter().zip(chunks_b) {
        for (sum, pair) in sums.iter_mut().zip(a.iter().zip(b)) {
            *sum += product(pair);
        }
    }
    let rest: i32 = rest_a.iter().zip(rest_b).map(product).sum();
    (sums.iter().sum::<i32>() + rest) as f32 / (UNIT * UNIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dot_product_covers_whole_lanes_and_the_rest() {
        for length in [0, 1, 15, 16, 17, 128, 259] {
            let mut vector: Vec<f32> = (0..length).map(|at| (at as f32).sin()).collect();
            normalize(&mut vector);
            let vector = quantize(&vector);
            let expected: i32 = vector.iter().map(|cell| i32::from(*cell).pow(2)).sum();
            assert_eq!(dot(&vector, &vector), expected as f32 / (UNIT * UNIT), "{length}");
        }
    }
}
