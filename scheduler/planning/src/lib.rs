//! Planning: planners are tried in order, and the first valid plan that can be routed is taken.

pub mod agent_planner;
pub mod calibration;
pub mod call_log;
pub mod examples;
pub mod extraction;
mod htn;
pub mod llm;
mod load;
mod offered_plans;
mod parse_proposal;
pub mod pipeline;
pub mod planned_rules;
mod planner;
mod proposal_forms;
mod provenance;
pub mod repair;
mod replan_context;
pub mod retriever;
mod revise;
pub mod rules;
pub mod stage;
pub mod tools;

pub use call_log::{CallLog, CallRecorder};
pub use llm::goal_reader::GoalReading;
pub use llm::judge::CriteriaJudge;
pub use llm::{LlmPlanner, plan_schema_of};
pub use load::LoadError;
pub use offered_plans::{OfferedPlans, named_versions, nearest_plans};
pub use pipeline::revise::RevisionRules;
pub use pipeline::slow_model::FirstPlanSink;
pub use pipeline::stream::{SinkClosed, StepSink, StreamOutcome};
pub use pipeline::{Pipeline, RouteSteps, SetupError, route_changes};
pub(crate) use planner::NOT_VALID;
pub use planner::{Part, PlanRequest, Planner, PlannerAnswer, PlanningError, ReviseRequest, Terms};
pub use rules::RulesPlanner;
pub use tools::ToolsPlanner;
