//! Reads what models write: JSON, Python literals, calls, prose around them, and says what it had to repair.
//!
//! Nothing is invented, no cut argument is completed, and no change is silent: see [`Edit`] and [`Verdict`].

mod arguments;
mod arithmetic;
mod block;
mod calls;
mod catalogue;
mod edit;
mod escape;
mod find;
mod gather;
mod group;
mod limits;
mod lines;
mod node;
mod number;
mod parse;
mod read;
mod reading;
mod scalar;
mod shape;
mod span;
mod stream;
mod tag;
mod variable;
#[cfg(test)]
mod worst;

pub use calls::calls;
pub use catalogue::{Action, Catalogue, Kind, Parameter};
pub use edit::{Edit, EditKind};
pub use limits::Limits;
pub use read::{read, read_ended};
pub use reading::{Call, CallReading, Ended, Item, Other, Reading, Reason, Verdict};
pub use span::Span;
pub use stream::{Ending, Stream};
