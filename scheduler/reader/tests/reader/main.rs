//! Tests of the guarantees of the reader, from outside.

mod broken;
mod calls;
mod notations;
mod properties;
mod stream;
mod truncation;
mod written_calls;
