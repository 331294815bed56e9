//! The end of an execution: its result, or the call that waits.

use goalmill_common::call::{CallWait, CallWaitKind, SuspendedCall};
use goalmill_common::callback;
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::json_limits;
use goalmill_common::report::{Report, What};
use goalmill_common::task::Task;

use super::ExecutionResult;

/// How an execution ended.
pub enum ExecutionEnd {
    Ok(ExecutionResult),
    Failed(Failure),
    /// A call waits. The result has what the attempt used up beside its recorded calls.
    Suspended(SuspendedCall, ExecutionResult),
}

impl ExecutionEnd {
    /// - `suspended`: the call that waits. Outputs count more than a call that waits.
    pub fn new(task: &Task, suspended: Option<SuspendedCall>, result: Result<ExecutionResult, Failure>) -> Self {
        let suspended = suspended.filter(|_| result.as_ref().map_or(true, |end| end.failure.is_some()));
        match (suspended, result) {
            (Some(call), result) => Self::Suspended(call, result.unwrap_or_default()),
            (None, Ok(result)) if is_accepted(task, &result) => Self::Suspended(callback_call(), result),
            (None, Ok(result)) => Self::Ok(result),
            (None, Err(failure)) => Self::Failed(failure),
        }
    }

    /// The failure of the attempt, if it has one.
    pub fn failure(&self) -> Option<&Failure> {
        match self {
            Self::Ok(result) => result.failure.as_ref(),
            Self::Failed(failure) => Some(failure),
            Self::Suspended(..) => None,
        }
    }

    /// Completes the final report of the attempt.
    pub fn fill(self, report: &mut Report) {
        match self {
            Self::Ok(result) => {
                set_usage(report, &result);
                report.what = if result.partial { What::PartialSuccess } else { What::Completed };
                match result.failure {
                    Some(failure) => set_failure(report, failure),
                    None => {
                        report.outputs = Some(result.outputs);
                        report.sub_plan = result.sub_plan;
                        report.errors = if result.partial { result.errors } else { Vec::new() };
                    }
                }
                report.suggested_adjustments = result.suggested_adjustments;
                report.currency = result.currency;
                report.measures = result.measures;
                report.adjustments = result.adjustments;
            }
            Self::Failed(failure) => set_failure(report, failure),
            Self::Suspended(call, used) => {
                set_usage(report, &used);
                report.what = What::Suspended;
                report.suspended = Some(Box::new(call));
            }
        }
    }
}

/// Whether the agent has accepted the task, and its callback brings the outcome.
fn is_accepted(task: &Task, result: &ExecutionResult) -> bool {
    task.callback.is_some() && result.failure.is_none() && callback::is_accepted(&result.outputs)
}

/// What waits is the whole attempt, and no call of it.
fn callback_call() -> SuspendedCall {
    let wait = CallWait::new(CallWaitKind::Callback, "");
    SuspendedCall { n: 0, name: "callback".into(), inputs: None, wait }
}

fn set_failure(report: &mut Report, failure: Failure) {
    report.what = if failure.class == FailureClass::Lost { What::Lost } else { What::Failed };
    report.failure = Some(failure);
}

fn set_usage(report: &mut Report, result: &ExecutionResult) {
    report.cost = (result.cost > 0.0).then_some(result.cost);
    report.tokens = (result.tokens > 0).then_some(result.tokens);
    report.usage = result.usage;
}

/// Refuses a result that cannot be read back from the plan's log.
pub fn check_result(result: &ExecutionResult, nesting_max: usize) -> Result<(), Failure> {
    let parts = [
        ("/outputs", Some(&result.outputs)),
        ("/adjustments", result.adjustments.as_ref()),
        ("/sub_plan", result.sub_plan.as_ref()),
    ];
    let invalid = |wrong: &dyn std::fmt::Display| {
        Failure::new(FailureClass::Permanent, "ANSWER_INVALID", format!("the agent's answer is not valid {wrong}"))
    };
    for (field, json) in parts {
        if let Some(Err(wrong)) = json.map(|json| json_limits::check_json(json, nesting_max)) {
            return Err(invalid(&json_limits::JsonLimitError {
                pointer: format!("{field}{}", wrong.pointer),
                ..wrong
            }));
        }
    }
    json_limits::check_split(result.usage).map_err(|wrong| invalid(&wrong))?;
    json_limits::check_measures(&result.measures).map_err(|wrong| invalid(&wrong))?;
    json_limits::check_usage(Some(result.cost), Some(result.tokens)).map_err(|wrong| invalid(&wrong))
}
