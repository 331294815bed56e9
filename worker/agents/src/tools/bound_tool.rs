//! A tool of an agent, and the terms on which an agent has it.

use async_trait::async_trait;
use goalmill_common::call::CallWait;
use goalmill_common::task::Task;
use goalmill_common::text::shorten;
use goalmill_llm::Usd;
use goalmill_plan::schema::Schema;
use serde::Deserialize;
use serde_json::Value;

/// US dollars of one call of a tool.
const PRICE_MAX: f64 = 1_000_000.0;

/// Tools that are denied unless the settings allow them.
const DENIED: [&str; 2] = ["python", "shell"];

/// What happens to the calls of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ToolPolicy {
    /// The calls are run.
    Allow,
    /// A person must agree to each call. The step waits without a worker.
    Approve,
    /// The calls are refused, and the model does not see the tool.
    Deny,
}

impl ToolPolicy {
    pub fn default_of(tool: &str) -> Self {
        if DENIED.contains(&tool) { Self::Deny } else { Self::Allow }
    }
}

/// One tool. The model gets its errors.
#[async_trait]
pub(crate) trait AgentTool: Send + Sync {
    fn name(&self) -> &str;

    /// The description for the model.
    fn description(&self) -> &str;

    /// JSON Schema of the arguments.
    fn parameters(&self) -> Value;

    /// The question for a person, if the call is a question and is not run.
    fn question(&self, _arguments: &Value) -> Option<CallWait> {
        None
    }

    /// Whether a call only asks a person something ([`AgentTool::question`]).
    fn asks_person(&self) -> bool {
        false
    }

    /// Whether a call has no effect: the calls of one reply to such tools are made at the same time.
    fn is_read_only(&self) -> bool {
        false
    }

    /// Whether a call runs a plan ([`AgentTool::plan_call`]).
    fn runs_plan(&self) -> bool {
        false
    }

    /// The plan that a call runs, or why there is none. The arguments are valid by the schema.
    fn plan_call(&self, _arguments: &Value) -> Result<PlanCall, String> {
        Err("this tool runs no plan".into())
    }

    /// The result of a call whose plan has completed.
    ///
    /// - `outcome`: `plan`, `status` and `outputs`.
    fn read_outputs(&self, outcome: &Value) -> Value {
        outcome.clone()
    }

    /// - `arguments`: valid according to the schema.
    /// - `task`: its `idempotency_key` is the key of the call, the same each time the call is made.
    async fn run(&self, arguments: &Value, task: &Task) -> Result<Value, String>;
}

/// A plan that a call runs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PlanCall {
    pub plan: Value,
    /// What its steps read as `goal.metadata.inputs`.
    pub inputs: Option<Value>,
    /// Milliseconds until it is cancelled.
    pub limit_ms: Option<u64>,
    /// What it is for, in a line.
    pub text: String,
}

/// What one call of a tool may do and costs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ToolTerms {
    pub(super) policy: ToolPolicy,
    pub(super) price: Usd,
}

impl ToolTerms {
    pub fn new(policy: ToolPolicy, price: f64) -> Result<Self, String> {
        if !(0.0..=PRICE_MAX).contains(&price) {
            return Err(format!("`price` must be within 0 and {PRICE_MAX} US dollars"));
        }
        Ok(Self { policy, price: Usd::from_dollars(price) })
    }

    /// A tool that costs nothing.
    pub fn free(policy: ToolPolicy) -> Self {
        Self { policy, price: Usd::ZERO }
    }
}

/// A tool with its compiled schema, its policy and its price.
pub(crate) struct BoundTool {
    pub(super) tool: Box<dyn AgentTool>,
    pub(super) parameters: Value,
    pub(super) schema: Schema,
    pub(super) terms: ToolTerms,
}

impl BoundTool {
    pub fn new(tool: Box<dyn AgentTool>, terms: ToolTerms) -> Result<Self, String> {
        let parameters = tool.parameters();
        let schema = Schema::of_inputs(&parameters).map_err(|unusable| unusable.detail)?;
        Ok(Self { tool, parameters, schema, terms })
    }

    /// What one call costs.
    pub fn price(&self) -> Usd {
        self.terms.price
    }

    /// The plan that a call runs, or why there is none; `None` for a tool that is run here.
    pub fn plan_call(&self, arguments: &Value) -> Option<Result<PlanCall, String>> {
        self.tool
            .runs_plan()
            .then(|| self.check_tool_arguments(arguments).and_then(|()| self.tool.plan_call(arguments)))
    }

    /// The result of a call from what its plan gave.
    pub fn read_outcome(&self, outcome: &Value) -> Result<Value, String> {
        if outcome.get("outputs").is_some() {
            return Ok(self.tool.read_outputs(outcome));
        }
        let error = &outcome["error"];
        let part = |name: &str, otherwise: &str| error[name].as_str().unwrap_or(otherwise).to_owned();
        Err(format!("{} [{}]", part("message", "the plan did not complete"), part("code", "SUB_PLAN_FAILED")))
    }

    pub fn name(&self) -> &str {
        self.tool.name()
    }

    /// Whether a call has no effect, costs nothing, and needs no approval.
    pub fn is_free_read(&self) -> bool {
        self.tool.is_read_only() && self.terms.policy == ToolPolicy::Allow && self.terms.price == Usd::ZERO
    }

    /// Whether a call can change something outside of the conversation. A question to a person cannot.
    pub fn may_act(&self) -> bool {
        !self.tool.is_read_only() && !self.tool.asks_person()
    }

    /// Whether a person must agree to each call.
    pub fn needs_approval(&self) -> bool {
        self.terms.policy == ToolPolicy::Approve
    }

    /// The question for a person, of a call with valid arguments.
    pub fn question(&self, arguments: &Value) -> Option<CallWait> {
        self.check_tool_arguments(arguments).is_ok().then(|| self.tool.question(arguments)).flatten()
    }

    /// Checks the arguments and runs the tool.
    pub async fn run(&self, arguments: &Value, task: &Task) -> Result<Value, String> {
        self.check_tool_arguments(arguments)?;
        self.tool.run(arguments, task).await
    }

    /// Says what is wrong with the arguments.
    pub fn check_tool_arguments(&self, arguments: &Value) -> Result<(), String> {
        let validator = self.schema.for_value(arguments).map_err(|much| much.to_string())?;
        if let Some(error) = validator.iter_errors(arguments).next() {
            let place = error.instance_path().to_string();
            return Err(format!("invalid arguments at `{place}/`: {}", shorten(&error.to_string(), 300)));
        }
        Ok(())
    }
}
