//! The tools by which a model builds and revises plans.

use goalmill_llm::Tool;
use serde_json::{Map, Value, json};

use crate::llm::plan_schema::{PlanVocabulary, loose_step, one_of};

/// What the tools are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolSet {
    Plan,
    Revise,
}

/// The tools for a tool_set.
///
/// - `vocabulary`: the agents and actions that steps may name.
/// - `steps`: ids of the running plan; empty when there is none.
pub fn tools(tool_set: ToolSet, vocabulary: &PlanVocabulary, steps: &[String]) -> Vec<Tool> {
    let names = vocabulary.names();
    let [agent, action] = &names;
    let step_schema = loose_step(vocabulary);
    let known = one_of(steps);
    let text = json!({"type": "string"});
    let flag = json!({"type": "boolean"});
    let steps = json!({"type": "array", "items": step_schema});
    let mut tools = match tool_set {
        ToolSet::Plan => vec![tool("create_plan", "Begins the plan.", &[("name", &text)], &[])],
        ToolSet::Revise => vec![
            tool(
                "retry_step",
                "Does a failed step once more, with what is given in place of its own.",
                &[("step", &known), ("agent_type", agent), ("action", action), ("inputs", &json!({"type": "object"}))],
                &["step"],
            ),
            tool(
                "skip_step",
                "Passes a step over; it counts as done.",
                &[("step", &known), ("reason", &text)],
                &["step"],
            ),
            tool(
                "replace_step",
                "Puts other steps in place of one.",
                &[("step", &known), ("with", &steps)],
                &["step", "with"],
            ),
        ],
    };
    let phase = [("id", &text), ("description", &text), ("checkpoint", &flag)];
    let mut after = vec![("after", &text)];
    after.extend(phase);
    tools.extend([
        tool("add_phase", "Adds a phase behind all others. Phases run one after the other.", &phase, &["id"]),
        tool("insert_phase_after", "Adds a phase behind another one.", &after, &["after", "id"]),
        tool("skip_phase", "Passes a phase over with all its steps.", &[("phase", &text)], &["phase"]),
        Tool {
            name: "add_step".into(),
            description: "Adds a step behind all others; it can depend on those before it.".into(),
            parameters: step_schema.clone(),
        },
        Tool {
            name: "modify_step".into(),
            description: "Changes the fields of a step that are given.".into(),
            parameters: changed(step_schema),
        },
        tool("remove_step", "Takes a step out.", &[("id", &text)], &["id"]),
        tool("get_plan_status", "Says what the plan holds and what is wrong with it.", &[], &[]),
        tool("get_phase_results", "Says what the steps of a phase gave.", &[("phase", &text)], &["phase"]),
        tool("abort_plan", "Gives up: there is no way.", &[("reason", &text)], &["reason"]),
    ]);
    let strategy = json!({"type": "string", "enum": ["retry_with_agent", "decompose", "workaround", "adjust",
                          "replan_remaining", "insert_recovery", "skip_and_continue"]});
    tools.push(match tool_set {
        ToolSet::Plan => tool("finalize_plan", "Checks the whole plan, and ends when it holds.", &[], &[]),
        ToolSet::Revise => tool(
            "finalize_plan",
            "Ends the revision.",
            &[("strategy", &strategy), ("summary", &text)],
            &["strategy", "summary"],
        ),
    });
    tools
}

fn tool(name: &str, description: &str, fields: &[(&str, &Value)], required: &[&str]) -> Tool {
    let properties: Map<String, Value> =
        fields.iter().map(|(name, schema)| ((*name).to_owned(), (*schema).clone())).collect();
    Tool {
        name: name.into(),
        description: description.into(),
        parameters: json!({"type": "object", "properties": properties, "required": required}),
    }
}

fn changed(mut schema: Value) -> Value {
    schema["required"] = json!(["id"]);
    schema
}
