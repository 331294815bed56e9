//! The frames of the bridge. Unknown fields and kinds are ignored.

use goalmill_common::agent::Agent;
use goalmill_common::call::{CallBudget, CallWait};
use goalmill_common::callback::TaskCallback;
use goalmill_common::failure::Failure;
use goalmill_common::json::Json;
use goalmill_common::report::TokenSplit;
use goalmill_common::task::Task;
use serde::{Deserialize, Serialize};

/// The version of the frames.
pub const VERSION: u32 = 1;

/// A frame that the program sends.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FromProgram {
    /// The first frame: what the program serves.
    Hello(Box<Hello>),
    /// A durable call begins. The answer is [`ToProgram::Call`].
    Call(CallBegins),
    /// The call was made. The answer is [`ToProgram::Recorded`], once Redis has it.
    Made(Box<CallMade>),
    /// The call failed, and is not recorded.
    Abandoned(CallRef),
    /// A call waits for a person or a plan. The answer is [`ToProgram::Call`] or [`ToProgram::Suspended`].
    Wait(Box<CallWaits>),
    /// The call of this number, which follows, may use up so much. Its share of the budget is held until it is made or
    /// abandoned. The answer is [`ToProgram::Reserved`], [`ToProgram::Suspended`], or
    /// [`ToProgram::Call`] with the failure `BUDGET_EXCEEDED`.
    Reserve(CallReservation),
    Progress(TaskProgress),
    /// The attempt has ended in the program.
    Ended(Box<TaskEnded>),
    /// Read no new tasks, finish those that run, and end. A second one hands back those that run.
    Drain(NoContent),
    /// A test of a plan, for `goalmill test --stdio`. Workers ignore it.
    Run(Json),
    /// A frame about a task that cannot be read: its attempt fails.
    #[serde(skip)]
    Unreadable(UnreadableFrame),
}

/// What is known of a frame that cannot be read.
#[derive(Debug)]
pub struct UnreadableFrame {
    pub task: u64,
    pub reason: String,
}

impl FromProgram {
    /// The kinds of frames.
    pub const KINDS: [&str; 10] =
        ["hello", "call", "made", "abandoned", "wait", "reserve", "progress", "ended", "drain", "run"];
}

/// A frame without content.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct NoContent {}

/// What a program serves.
#[derive(Debug, Deserialize)]
pub struct Hello {
    pub version: u32,
    /// The name and version of the package, for the log.
    #[serde(default)]
    pub package: String,
    /// Cards of the agents.
    pub agents: Vec<Agent>,
    /// Tasks at the same time.
    pub slots: u32,
    /// The id of the worker; made from host and chance when missing.
    #[serde(default)]
    pub name: Option<String>,
    /// How long running tasks may take after a drain began, in milliseconds.
    #[serde(default)]
    pub drain_ms: Option<u64>,
}

/// Names a call: the number of the task, and a number that the program gives.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct CallRef {
    pub task: u64,
    pub call: u64,
}

#[derive(Debug, Deserialize)]
pub struct CallBegins {
    pub task: u64,
    pub call: u64,
    pub name: String,
    /// A text that identifies the inputs.
    pub inputs: String,
}

#[derive(Debug, Deserialize)]
pub struct CallMade {
    pub task: u64,
    pub call: u64,
    #[serde(default)]
    pub outcome: Option<Json>,
    /// The failure that is recorded in place of an outcome.
    #[serde(default)]
    pub error: Option<Failure>,
    /// US dollars.
    #[serde(default)]
    pub cost: f64,
    #[serde(default)]
    pub usage: TokenSplit,
}

#[derive(Debug, Deserialize)]
pub struct CallWaits {
    pub task: u64,
    pub call: u64,
    pub name: String,
    pub inputs: String,
    pub wait: CallWait,
}

#[derive(Clone, Copy, Debug, Deserialize)]
pub struct CallReservation {
    pub task: u64,
    pub call: u64,
    #[serde(default)]
    pub tokens: u64,
    /// US dollars.
    #[serde(default)]
    pub cost: f64,
}

#[derive(Debug, Deserialize)]
pub struct TaskProgress {
    pub task: u64,
    /// 0 to 1.
    pub share: f64,
    #[serde(default)]
    pub message: String,
}

#[derive(Debug, Deserialize)]
pub struct TaskEnded {
    pub task: u64,
    /// The envelope of an answer, as agents without Redis send it. Missing if the attempt was suspended or stopped.
    #[serde(default)]
    pub answer: Option<Json>,
}

/// A frame that the bridge sends.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ToProgram<'a> {
    /// The worker runs.
    Ready(WorkerReady<'a>),
    Task(Box<TaskFrame<'a>>),
    /// What an earlier attempt has recorded of a call, or the key with which the call is to be made now.
    Call(CallAnswer<'a>),
    /// A call is in Redis.
    Recorded(CallRef),
    /// The budget has room.
    Reserved(CallRef),
    /// The call waits: the attempt is over, and the program ends it.
    Suspended(CallRef),
    /// The attempt is over, whatever the program does: stop it.
    Stop(TaskStop<'a>),
    /// The worker reads no new tasks.
    Draining(NoContent),
}

#[derive(Debug, Serialize)]
pub struct WorkerReady<'a> {
    pub worker: &'a str,
    pub frame_bytes_max: usize,
    /// Nested lists and objects that a value may have.
    pub nesting_max: usize,
}

/// A task, without what only the worker needs.
#[derive(Debug, Serialize)]
pub struct TaskFrame<'a> {
    /// Counted by the bridge.
    pub task: u64,
    pub plan: &'a str,
    pub step: &'a str,
    pub attempt: u32,
    pub agent_type: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub action: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub description: &'a str,
    pub inputs: &'a Json,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    pub expected_outputs: &'a [String],
    #[serde(skip_serializing_if = "str::is_empty")]
    pub expected_output: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<&'a Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub callback: Option<&'a TaskCallback>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<CallBudget>,
    pub timeout_ms: u64,
    pub idempotency_key: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<&'a str>,
}

impl<'a> TaskFrame<'a> {
    pub fn new(number: u64, task: &'a Task) -> Self {
        Self {
            task: number,
            plan: task.plan.as_str(),
            step: task.step.as_str(),
            attempt: task.attempt,
            agent_type: task.agent_type.as_str(),
            action: &task.action,
            description: &task.description,
            inputs: &task.inputs,
            expected_outputs: &task.expected_outputs,
            expected_output: &task.expected_output,
            output_schema: task.output_schema.as_ref(),
            callback: task.callback.as_ref(),
            budget: task.budget,
            timeout_ms: task.timeout_ms,
            idempotency_key: &task.idempotency_key,
            traceparent: task.safe_traceparent(),
        }
    }
}

/// The answer to [`FromProgram::Call`], [`FromProgram::Wait`] or a refused [`FromProgram::Reserve`]: one of the fields.
#[derive(Debug, Serialize)]
pub struct CallAnswer<'a> {
    pub task: u64,
    pub call: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<&'a Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<&'a Failure>,
}

#[derive(Debug, Serialize)]
pub struct TaskStop<'a> {
    pub task: u64,
    /// Why a call cannot be recorded, if that is the reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<&'a Failure>,
}
