//! The laws of a plan as a program.
//!
//! [`run()`] says what happens to a plan, by the laws and the pages of the documentation alone. [`generate`] makes random
//! cases, [`check_engine`] compares the engine with the laws, [`shrink`] makes a finding small.

mod case;
mod comparison;
mod confluence;
mod engine_driver;
mod feature;
mod generator;
mod interpreter;
mod law;
mod pairs;
mod quick_cases;
mod run;
mod script;
mod shrinker;
mod survey;

pub use case::{Case, StoredDocument};
pub use comparison::{Difference, Finding, Verdict, check_engine};
pub use confluence::{Confluent, Incomparable, Outcome, add_withdrawn, confluent};
pub use engine_driver::{Stopped, drive};
pub use feature::{FEATURES, features};
pub use generator::generate;
pub use interpreter::{Undecided, run};
pub use law::Law;
pub use pairs::Pairs;
pub use quick_cases::{LEASE_MS, hurry};
pub use run::{Ask, Run, StepEnd, step_ends};
pub use script::{Act, Deed, Does, Forking, Script, SentEvent, Wish};
pub use shrinker::shrink;
pub use survey::{Survey, survey};
