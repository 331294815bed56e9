//! What the hooks of a point are asked.

use goalmill_common::config::HookPoint;
use goalmill_common::event::HookAsked;
use goalmill_common::goal::Usage;
use goalmill_common::id::StepId;
use goalmill_common::json::Json;
use serde_json::json;

use crate::graph::StepIndex;
use crate::revise::replan_context;
use crate::{EngineContext, PlanState, render};

/// A question to the hooks of a point.
#[derive(Clone, Debug, PartialEq)]
pub struct HookQuestion {
    /// The same whenever the question is asked again.
    pub id: String,
    pub point: HookPoint,
    pub step: Option<StepId>,
    /// The facts that the hook gets.
    pub data: Json,
}

/// The open question to the hooks about the plan, or about a step.
pub fn hook_question(state: &PlanState, step: Option<StepIndex>, context: &EngineContext) -> Option<HookQuestion> {
    let asked = match step {
        None => state.waiting.hook()?,
        Some(i) => state.steps.get(i.as_usize())?.run().hooks()?,
    };
    let data = match step {
        None => json!({
            "planner": state.origin.planner, "confidence": state.origin.confidence, "plan": replan_context::live_plan(state),
            "goal": state.accepted.goal,
        }),
        Some(i) => describe_step(state, i, asked, context),
    };
    let step = step.map(|i| state.plan.step(i).id.clone());
    Some(HookQuestion { id: asked.id.clone(), point: asked.point, step, data: Json::from_value(&data) })
}

fn describe_step(state: &PlanState, i: StepIndex, asked: &HookAsked, context: &EngineContext) -> serde_json::Value {
    let (spec, step) = (state.plan.step(i), &state.steps[i]);
    let inputs = render::inputs_of_attempt(state, i, &context.limits).ok().map(|inputs| inputs.value());
    let mut data = json!({
        "step": spec.id, "description": spec.description, "agent_type": spec.agent_type, "action": spec.action,
        "attempt": step.attempt(), "inputs": inputs,
    });
    if let Some(completed) = &asked.completed {
        data["outputs"] = completed.outputs.value();
        let mut usage = Usage { cost: completed.cost, tokens: completed.tokens };
        step.calls().recorded().iter().for_each(|call| usage.add(call.cost, call.tokens()));
        data["cost"] = json!(usage.cost);
        data["tokens"] = json!(usage.tokens);
        data["cached"] = json!(completed.cache_key.is_some());
    }
    data
}
