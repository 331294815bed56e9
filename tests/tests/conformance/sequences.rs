//! Random sequences.
