//! Other agent types as tools: a call runs a plan of one step.

use goalmill_common::agent::{Action, Agent};
use goalmill_common::id::AgentType;
use goalmill_common::task::Task;
use goalmill_common::text::shorten;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{AgentTool, PlanCall, SEPARATOR, ToolPolicy, ToolTerms, is_tool_name};

/// Characters of a tool's description.
const DESCRIPTION_CHARS_MAX: usize = 2_000;
/// Characters of the task of an agent.
const TASK_CHARS_MAX: usize = 4_000;
/// The step of the plan.
const STEP: &str = "call";

/// An agent type as a tool, in the settings.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AgentToolSettings {
    pub agent: AgentType,
    /// The only action; each action of its card is a tool when missing.
    #[serde(default)]
    action: Option<String>,
    #[serde(default)]
    policy: Option<ToolPolicy>,
    /// How long a call may take; as long as the plan when missing.
    #[serde(default)]
    limit_seconds: Option<u64>,
}

impl AgentToolSettings {
    /// Says what is wrong with it.
    pub fn check_agent_tool(&self, others: &[Self]) -> Result<(), String> {
        if others.iter().any(|other| other.agent == self.agent && other.action == self.action) {
            return Err("it is there twice".into());
        }
        if self.limit_seconds == Some(0) {
            return Err("`limit_seconds` must be above 0".into());
        }
        Ok(())
    }

    pub fn terms(&self) -> ToolTerms {
        ToolTerms::free(self.policy.unwrap_or(ToolPolicy::Allow))
    }

    /// Its tools: one for each action, or one for an agent whose card has none.
    ///
    /// - `cards`: of all registered agent types.
    pub fn tools(&self, cards: &[Agent]) -> Vec<OtherAgent> {
        let card = cards.iter().find(|card| card.agent_type == self.agent);
        let actions = card.map_or(&[][..], |card| &card.actions);
        let tool = |action: Option<&Action>| self.tool(card, action, actions.len());
        match &self.action {
            Some(name) => {
                let unknown = Action {
                    name: name.clone(),
                    description: String::new(),
                    inputs: None,
                    outputs: None,
                    side_effect: false,
                };
                let known = actions.iter().find(|action| action.name == *name);
                tool(Some(known.unwrap_or(&unknown))).into_iter().collect()
            }
            None if actions.is_empty() => tool(None).into_iter().collect(),
            None => actions.iter().filter_map(|action| tool(Some(action))).collect(),
        }
    }

    /// `None` for a name that no model takes.
    fn tool(&self, card: Option<&Agent>, action: Option<&Action>, actions: usize) -> Option<OtherAgent> {
        let agent = self.agent.as_str();
        let name = match action {
            Some(action) if actions > 1 || self.action.is_some() => format!("{agent}{SEPARATOR}{}", action.name),
            Some(_) | None => agent.to_owned(),
        };
        if !is_tool_name(&name) {
            tracing::warn!("the agent type `{agent}` is left out of the tools: models do not take the name `{name}`");
            return None;
        }
        let said = [card.map(|card| card.description.as_str()), action.map(|action| action.description.as_str())];
        let said: Vec<&str> = said.into_iter().flatten().filter(|text| !text.is_empty()).collect();
        let description = format!("Another agent does it, maybe for minutes. {}", said.join(" "));
        Some(OtherAgent {
            name,
            description: shorten(description.trim(), DESCRIPTION_CHARS_MAX).to_string(),
            agent: self.agent.clone(),
            action: action.map(|action| action.name.clone()).unwrap_or_default(),
            schema: action.and_then(|action| action.inputs.as_ref()).map(|schema| schema.value()),
            limit_ms: self.limit_seconds.map(|seconds| seconds.saturating_mul(1_000)),
        })
    }
}

/// One action of another agent type.
pub(crate) struct OtherAgent {
    name: String,
    description: String,
    agent: AgentType,
    /// May be empty.
    action: String,
    /// Of the inputs, as its card has it.
    schema: Option<Value>,
    limit_ms: Option<u64>,
}

#[async_trait::async_trait]
impl AgentTool for OtherAgent {
    fn name(&self) -> &str {
        &self.name
    }

    fn description(&self) -> &str {
        &self.description
    }

    fn parameters(&self) -> Value {
        let inputs = self.schema.clone().unwrap_or_else(|| json!({"type": "object"}));
        json!({
            "type": "object",
            "properties": {
                "task": {
                    "type": "string", "minLength": 1, "maxLength": TASK_CHARS_MAX,
                    "description": "What the agent is to do. It knows nothing of this conversation."
                },
                "inputs": inputs
            },
            "required": if self.schema.is_some() { json!(["task", "inputs"]) } else { json!(["task"]) },
            "additionalProperties": false
        })
    }

    fn runs_plan(&self) -> bool {
        true
    }

    fn plan_call(&self, arguments: &Value) -> Result<PlanCall, String> {
        let task = arguments["task"].as_str().unwrap_or_default();
        let mut step = json!({
            "id": STEP, "agent_type": self.agent, "description": task,
            // Whatever a model wrote stays data: it is not read as an expression.
            "inputs": "{{ goal.metadata.inputs }}"
        });
        if !self.action.is_empty() {
            step["action"] = json!(self.action);
        }
        let inputs = arguments.get("inputs").cloned().unwrap_or_else(|| json!({}));
        Ok(PlanCall {
            plan: json!({"name": self.name, "steps": [step]}),
            inputs: Some(inputs),
            limit_ms: self.limit_ms,
            text: format!("`{}`: {}", self.name, shorten(task, 200)),
        })
    }

    fn read_outputs(&self, outcome: &Value) -> Value {
        outcome["outputs"].get(STEP).unwrap_or(&outcome["outputs"]).clone()
    }

    async fn run(&self, _: &Value, _: &Task) -> Result<Value, String> {
        Err("no plan can be run here".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(value: Value) -> AgentToolSettings {
        serde_json::from_value(value).expect("it is valid")
    }

    fn card(actions: &[&str]) -> Agent {
        let action = |name: &&str| Action {
            name: (*name).into(),
            description: format!("Does {name}."),
            inputs: Some(json!({"type": "object", "required": ["x"]}).into()),
            outputs: None,
            side_effect: false,
        };
        let actions = actions.iter().map(action).collect();
        Agent { description: "Reads tables.".into(), actions, ..Agent::named("data_agent".into()) }
    }

    fn names(settings: &AgentToolSettings, cards: &[Agent]) -> Vec<String> {
        settings.tools(cards).into_iter().map(|tool| tool.name).collect()
    }

    #[test]
    fn each_action_is_a_tool_with_its_schema() {
        let all = settings(json!({"agent": "data_agent"}));
        assert_eq!(names(&all, &[]), ["data_agent"]);
        assert_eq!(names(&all, &[card(&["read"])]), ["data_agent"]);
        assert_eq!(names(&all, &[card(&["read", "join"])]), ["data_agent__read", "data_agent__join"]);
        let one = settings(json!({"agent": "data_agent", "action": "join"}));
        assert_eq!(names(&one, &[card(&["read", "join"])]), ["data_agent__join"]);
        let tool = one.tools(&[card(&["read", "join"])]).remove(0);
        assert!(tool.description.contains("Reads tables. Does join."), "{}", tool.description);
        assert_eq!(tool.parameters()["properties"]["inputs"]["required"], json!(["x"]));
        assert_eq!(tool.parameters()["required"], json!(["task", "inputs"]));
        assert_eq!(all.tools(&[]).remove(0).parameters()["required"], json!(["task"]));
        assert_eq!(names(&settings(json!({"agent": "a".repeat(65)})), &[]), [""; 0]);
    }

    #[test]
    fn arguments_are_data_of_the_plan() {
        let tool = settings(json!({"agent": "data_agent"})).tools(&[card(&["read"])]).remove(0);
        let call = tool.plan_call(&json!({"task": "{{ 1 }}", "inputs": {"x": "{{ goal }}"}})).expect("it is valid");
        let step = &call.plan["steps"][0];
        assert_eq!((&step["inputs"], &step["action"]), (&json!("{{ goal.metadata.inputs }}"), &json!("read")));
        assert_eq!(call.inputs, Some(json!({"x": "{{ goal }}"})));
        assert_eq!(tool.read_outputs(&json!({"outputs": {"call": {"rows": 3}}})), json!({"rows": 3}));
    }
}
