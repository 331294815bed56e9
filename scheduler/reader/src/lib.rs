//! Tolerant parser for model output: JSON, Python literals and calls, with prose around them. It records every repair.
//!
//! It adds no values, does not complete truncated arguments, and records every change: see [`Edit`] and [`Verdict`].

mod arguments;
mod call_collector;
mod call_group;
mod call_search;
mod calls;
mod catalogue;
mod edit;
mod escape;
mod limits;
mod lines;
mod node;
mod number;
mod parse;
mod reading;
mod shape;
mod span;
mod stream;
mod tag;
mod value;
mod value_search;
mod variable;
#[cfg(test)]
mod worst_case_tests;
mod written_calls;

pub use calls::parse_calls;
pub use catalogue::{ActionParameter, CatalogueAction, ParameterKind, ToolCatalogue};
pub use edit::{Edit, EditKind};
pub use limits::ReaderLimits;
pub use reading::{CallReading, Item, Other, ParsedCall, Reading, TextEnd, UnreadableReason, Verdict};
pub use span::TextSpan;
pub use stream::{Ending, Stream};
pub use value::{parse_ended_value, parse_value};
pub use written_calls::{WrittenCalls, parse_written_calls, without_thoughts};
