//! Tests of plans in virtual time: the engine with a clock that jumps, without a store, a scheduler or workers.
//!
//! A [`PlanTest`] says what is submitted, what agents answer and what is expected. [`TestRun`] runs it, and
//! [`check_expectations`] compares the result. [`RecordedPlan`] is the log of a plan that ran, and answers as its agents
//! did.

mod comparison;
mod duration;
mod expectation;
mod mock_agents;
mod recorded_plan;
mod script;
mod test_file;
mod test_run;
mod virtual_shard;

pub use comparison::{LogDifference, first_difference};
pub use duration::spoken;
pub use expectation::check_expectations;
pub use mock_agents::MockAgents;
pub use recorded_plan::RecordedPlan;
pub use test_file::{
    AgentMocks, PlanSource, PlanTest, TestFile, parse_agents, parse_test, parse_test_file, test_schema,
};
pub use test_run::{Progress, RunError, RunOutcome, TestRun, prepare_submission};
