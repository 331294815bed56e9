//! Tests of plans in virtual time: the engine with a clock that jumps, without a store, a scheduler or workers.
//!
//! A [`PlanTest`] says what is submitted, what agents answer and what is expected. [`TestRun`] runs it, and
//! [`check_expectations`] compares the result. [`RecordedPlan`] is the log of a plan that ran, and answers as its agents
//! did.

mod comparison;
mod duration;
mod expectation;
mod mock_agents;
mod parse_test_file;
mod recorded_plan;
mod run_outcome;
mod script;
mod submission;
mod test_file;
mod test_run;
mod value_match;

pub use comparison::{LogDifference, first_difference};
pub use duration::duration_text;
pub use expectation::check_expectations;
pub use mock_agents::MockAgents;
pub use parse_test_file::{parse_agents, parse_test, parse_test_file};
pub use recorded_plan::RecordedPlan;
pub use run_outcome::{RunError, RunOutcome};
pub use submission::prepare_submission;
pub use test_file::{AgentMocks, PlanSource, PlanTest, TestFile, test_schema};
pub use test_run::{RunProgress, TestRun};
