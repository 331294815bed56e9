//! Tool `submit_plan`: the model writes a plan; the step waits for its end without a worker.

use std::sync::atomic::{AtomicU32, Ordering};

use goalmill_common::agent::Agent;
use goalmill_common::id::AgentType;
use goalmill_common::limits::Limits;
use goalmill_common::problem::Issue;
use goalmill_common::task::Task;
use goalmill_common::text::shorten;
use goalmill_llm::Usd;
use goalmill_plan::validate::validate_plan;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{AgentTool, PlanCall, SUBMIT_PLAN};

/// Steps that one plan may have at most.
const STEPS_LIMIT: usize = 100;
/// Plans that the calls of one step may submit at most.
const PLANS_LIMIT: u32 = 50;
/// Issues of an invalid plan that the model gets.
const ISSUES_MAX: usize = 8;
/// Characters that describe one agent type.
const AGENT_CHARS_MAX: usize = 600;
/// Characters of one step's description.
const TASK_CHARS_MAX: usize = 4_000;

/// Fields of the tool in the settings.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SubmitPlanSettings {
    /// The agent types that its steps may use.
    #[serde(default)]
    agents: Vec<AgentType>,
    /// Steps of one plan; `limits.planned_steps_max` of the schedulers counts too.
    #[serde(default = "steps_max")]
    steps_max: usize,
    /// Plans that the calls of one step may submit.
    #[serde(default = "plans_max")]
    plans_max: u32,
    /// How long a plan may take; as long as the plan of the step when missing.
    #[serde(default)]
    limit_seconds: Option<u64>,
}

fn steps_max() -> usize {
    10
}

fn plans_max() -> u32 {
    5
}

impl SubmitPlanSettings {
    /// The error is a message for people.
    pub fn from_fields(fields: Value, price: Usd) -> Result<Self, String> {
        let settings: Self = serde_json::from_value(fields).map_err(|error| error.to_string())?;
        let checks = [
            (!settings.agents.is_empty(), "`agents` must name the agent types that its steps may use".to_owned()),
            (
                (1..=STEPS_LIMIT).contains(&settings.steps_max),
                format!("`steps_max` must be within 1 and {STEPS_LIMIT}"),
            ),
            (
                (1..=PLANS_LIMIT).contains(&settings.plans_max),
                format!("`plans_max` must be within 1 and {PLANS_LIMIT}"),
            ),
            (settings.limit_seconds != Some(0), "`limit_seconds` must be above 0".to_owned()),
            (price == Usd::ZERO, "`price` does not apply: what its steps cost is counted".to_owned()),
        ];
        match checks.into_iter().find(|(holds, _)| !holds) {
            Some((_, violation)) => Err(violation),
            None => Ok(settings),
        }
    }
}

/// The tool for one attempt.
pub(super) struct SubmitPlan {
    settings: SubmitPlanSettings,
    description: String,
    /// Plans that the calls of the step have submitted; a replayed call counts too.
    submitted: AtomicU32,
}

impl SubmitPlan {
    /// - `cards`: of all registered agent types.
    pub fn new(settings: &SubmitPlanSettings, cards: &[Agent]) -> Self {
        let mut description =
            "Runs a plan of several steps by other agents and returns the outputs of its last steps, \
            maybe after hours. Steps without a dependency between them run in parallel. A step passes on outputs of \
            its dependencies in its inputs: `{{ steps.ID.outputs.FIELD }}`. Agent types:"
                .to_owned();
        for agent in &settings.agents {
            let card = cards.iter().find(|card| card.agent_type == *agent);
            description.push_str(&format!("\n- {}", shorten(&describe_agent(agent, card), AGENT_CHARS_MAX)));
        }
        Self { settings: settings.clone(), description, submitted: AtomicU32::new(0) }
    }
}

fn describe_agent(agent: &AgentType, card: Option<&Agent>) -> String {
    let Some(card) = card else { return format!("`{agent}`") };
    let mut text = format!("`{agent}`: {}", card.description);
    for action in &card.actions {
        text.push_str(&format!(" Action `{}`: {}", action.name, action.description));
    }
    text
}

#[async_trait::async_trait]
impl AgentTool for SubmitPlan {
    fn name(&self) -> &'static str {
        SUBMIT_PLAN
    }

    fn description(&self) -> &str {
        &self.description
    }

    fn parameters(&self) -> Value {
        let text = |most: usize| json!({"type": "string", "minLength": 1, "maxLength": most});
        json!({
            "type": "object",
            "properties": {
                "name": text(200),
                "steps": {
                    "type": "array",
                    "minItems": 1,
                    "maxItems": self.settings.steps_max,
                    "items": {
                        "type": "object",
                        "properties": {
                            "id": text(64),
                            "description": text(TASK_CHARS_MAX),
                            "agent_type": {"enum": self.settings.agents},
                            "action": text(128),
                            "inputs": {"type": "object"},
                            "dependencies": {"type": "array", "items": text(64)}
                        },
                        "required": ["id", "description", "agent_type"],
                        "additionalProperties": false
                    }
                }
            },
            "required": ["name", "steps"],
            "additionalProperties": false
        })
    }

    fn runs_plan(&self) -> bool {
        true
    }

    fn plan_call(&self, arguments: &Value) -> Result<PlanCall, String> {
        let limits = Limits { steps_max: self.settings.steps_max, ..Limits::default() };
        if let Err(issues) = validate_plan(arguments, &limits) {
            let described =
                |issue: &Issue| format!("{} at `{}`: {}; {}", issue.code, issue.pointer, issue.detail, issue.hint);
            let described: Vec<String> = issues.iter().take(ISSUES_MAX).map(described).collect();
            return Err(format!("the plan is not valid: {}", described.join("; ")));
        }
        let most = self.settings.plans_max;
        if self.submitted.fetch_add(1, Ordering::Relaxed) >= most {
            return Err(format!("no more plans may be submitted: {most} were (`plans_max`)"));
        }
        let name = arguments["name"].as_str().unwrap_or_default();
        let steps = arguments["steps"].as_array().map_or(0, Vec::len);
        Ok(PlanCall {
            plan: arguments.clone(),
            inputs: None,
            limit_ms: self.settings.limit_seconds.map(|seconds| seconds.saturating_mul(1_000)),
            text: format!("{} ({steps} steps)", shorten(name, 200)),
        })
    }

    async fn run(&self, _: &Value, _: &Task) -> Result<Value, String> {
        Err("no plan can be run here".into())
    }
}
