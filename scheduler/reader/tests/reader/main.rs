//! What the reader promises, from outside.

mod broken;
mod calls;
mod indented;
mod notations;
mod properties;
mod stream;
mod truncation;
