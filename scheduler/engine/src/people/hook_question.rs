//! What the hooks of a point are asked.

use goalmill_common::config::HookPoint;
use goalmill_common::event::HookAsked;
use goalmill_common::goal::Usage;
use goalmill_common::id::StepId;
use goalmill_common::json::Json;
use serde_json::json;

use crate::graph::StepIndex;
use crate::{EngineContext, PlanState};

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

impl PlanState {
    /// The open question to the hooks about the plan, or about a step.
    pub fn hook_question(&self, step: Option<StepIndex>, context: &EngineContext) -> Option<HookQuestion> {
        let asked = match step {
            None => self.waiting.hook()?,
            Some(i) => self.steps.get(i.as_usize())?.run().hooks()?,
        };
        let data = match step {
            None => json!({
                "planner": self.origin.planner, "confidence": self.origin.confidence, "plan": self.live_plan(),
                "goal": self.accepted.goal,
            }),
            Some(i) => self.describe_step(i, asked, context),
        };
        let step = step.map(|i| self.plan.step(i).id.clone());
        Some(HookQuestion { id: asked.id.clone(), point: asked.point, step, data: Json::from_value(&data) })
    }

    fn describe_step(&self, i: StepIndex, asked: &HookAsked, context: &EngineContext) -> serde_json::Value {
        let (spec, step) = (self.plan.step(i), &self.steps[i]);
        let inputs = self.inputs_of_attempt(i, &context.limits).ok().map(|inputs| inputs.value());
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
}
