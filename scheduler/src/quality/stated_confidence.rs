//! The confidence that a planner states in its plan.

use goalmill_common::event::{PlanCreated, PlanEvent};
use goalmill_common::json::Json;
use serde::Deserialize;

/// A planner and its confidence in a plan, 0 to 1.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StatedConfidence {
    pub(crate) planner: String,
    pub(crate) value: f64,
}

impl StatedConfidence {
    /// The confidence in a plan that begins; `None` for plans of clients and forks.
    pub(crate) fn from_created(created: &PlanCreated) -> Option<Self> {
        let provenance = created.provenance.as_ref().filter(|_| created.fork.is_none())?;
        Some(Self { planner: created.planner.clone(), value: said_in(provenance).unwrap_or(created.confidence) })
    }

    /// Takes the confidence of the last part of a streamed plan.
    pub(crate) fn observe(&mut self, event: &PlanEvent) {
        if let PlanEvent::Extended(extended) = event
            && let Some(confidence) = extended.confidence
        {
            self.value = extended.provenance.as_ref().and_then(said_in).unwrap_or(confidence);
        }
    }
}

/// What a model said itself, before it was calibrated.
fn said_in(provenance: &Json) -> Option<f64> {
    #[derive(Deserialize)]
    struct Said {
        said: Option<f64>,
    }
    serde_json::from_str::<Said>(provenance.text()).ok()?.said
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_part_of_a_streamed_plan_states_its_confidence() {
        let samples = PlanEvent::samples();
        let created = samples.iter().find_map(|event| {
            let PlanEvent::PlanCreated(created) = event else { return None };
            let provenance = Some(Json::from_value(&serde_json::json!({"said": 0.75})));
            Some(PlanCreated { provenance, confidence: 0.5, fork: None, ..(**created).clone() })
        });
        let mut stated = StatedConfidence::from_created(&created.expect("there is a sample")).expect("a planner");
        assert_eq!(stated.value, 0.75);
        for event in &samples {
            stated.observe(event);
        }
        let mut parts = samples.iter().filter_map(|event| {
            let PlanEvent::Extended(extended) = event else { return None };
            extended.provenance.as_ref().and_then(said_in).or(extended.confidence)
        });
        assert_eq!(Some(stated.value), parts.next_back().or(Some(0.75)));
    }
}
