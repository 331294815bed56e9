//! Planning parameters of a goal: each within its range and the limits of the installation.

use goalmill_common::config::PlanningStrategy;
use goalmill_common::goal::Planning;
use goalmill_common::number::{to_u32, to_usize};
use goalmill_common::planning::{CANDIDATES_MAX, PlanFeature, ReadGoal, TEMPERATURE_MAX};
use serde_json::Value;

use super::policy;
use crate::document::{Fields, Table, Unit, shorten, wrong_type};

/// Longest time until a fallback, in milliseconds.
const FALLBACK_MS_MAX: u64 = 3_600_000;

const PLANNING: &Table = &[
    ("planner", &[]),
    ("planner_only", &["only"]),
    ("model", &[]),
    ("model_only", &[]),
    ("strategy", &["planning_strategy", "hierarchical"]),
    ("max_depth", &["depth", "max_decomposition_depth", "depth_max"]),
    ("max_steps", &["max_subtasks", "steps_max"]),
    ("prompt", &["prompt_template", "planning_prompt", "template"]),
    ("temperature", &[]),
    ("candidates", &["n_best"]),
    ("review", &["verify"]),
    ("read_goal", &[]),
    ("features", &[]),
    ("require_approval", &["approval", "requires_approval", "approval_required"]),
    ("require_dependencies", &[]),
    ("require_fallbacks", &[]),
    ("fallback_after_ms", &[]),
    ("fallback_after", &[]),
    ("revision", &[]),
];

/// The canonical name of a field of a goal's `planning`, whatever it is called in a document.
pub fn planning_field(key: &str) -> Option<&'static str> {
    crate::document::canonical(key, PLANNING)
}

/// Reads `planning: {…}`.
pub(super) fn planning(fields: &Fields<'_, '_>) -> Planning {
    let Some(field) = fields.get("planning") else { return Planning::default() };
    let at = fields.at.key(field.key);
    let Value::Object(map) = field.value else {
        wrong_type(fields.context, &at, field.value, "an object with `planner`, `model`, `revision`");
        return Planning::default();
    };
    let inner = Fields::from_map(fields.context, &at, map, PLANNING);
    let limits = fields.context.limits;
    let after = inner
        .duration("fallback_after_ms", Unit::Milliseconds, 0, FALLBACK_MS_MAX, "INVALID_VALUE")
        .or_else(|| inner.duration("fallback_after", Unit::Seconds, 0, FALLBACK_MS_MAX, "INVALID_VALUE"));
    Planning {
        planner: inner.text("planner"),
        planner_only: inner.flag("planner_only").unwrap_or(false),
        model: inner.text("model"),
        model_only: inner.flag("model_only").unwrap_or(false),
        strategy: strategy(&inner),
        max_depth: inner.count("max_depth", 0, u64::from(limits.depth_max)).map(to_u32),
        max_steps: inner.count("max_steps", 1, limits.planned_steps_max as u64).map(to_usize),
        prompt: prompt(&inner),
        temperature: temperature(&inner),
        candidates: inner.count("candidates", 1, u64::from(CANDIDATES_MAX)).map(to_u32),
        review: inner.flag("review"),
        read_goal: policy::word(
            &inner,
            "read_goal",
            &ReadGoal::ALL.iter().map(|mode| (mode.as_str(), *mode)).collect::<Vec<_>>(),
        ),
        features: features(&inner),
        require_approval: inner.flag("require_approval").unwrap_or(false),
        require_dependencies: inner.flag("require_dependencies").unwrap_or(false),
        require_fallbacks: inner.flag("require_fallbacks").unwrap_or(false),
        fallback_after_ms: after,
        revision: policy::revision(&inner),
    }
}

fn strategy(fields: &Fields<'_, '_>) -> Option<PlanningStrategy> {
    // A flag, as some formats have it, says whether a plan may hold plans.
    if let Some(hierarchical) = fields.get("strategy").and_then(|field| field.value.as_bool()) {
        return Some(if hierarchical { PlanningStrategy::Hierarchical } else { PlanningStrategy::Flat });
    }
    let words = [
        ("flat", PlanningStrategy::Flat),
        ("hierarchical", PlanningStrategy::Hierarchical),
        ("iterative", PlanningStrategy::Iterative),
    ];
    policy::word(fields, "strategy", &words)
}

/// A list of words; an empty one allows steps with an action only.
fn features(fields: &Fields<'_, '_>) -> Option<Vec<PlanFeature>> {
    let field = fields.get("features")?;
    let at = fields.at.key(field.key);
    let Value::Array(items) = field.value else {
        wrong_type(fields.context, &at, field.value, "a list of words");
        return None;
    };
    let feature = |(place, item): (usize, &Value)| {
        let feature = item.as_str().and_then(PlanFeature::parse);
        if feature.is_none() {
            let known: Vec<String> = PlanFeature::ALL.iter().map(|feature| format!("`{feature}`")).collect();
            let hint = format!("use {}", known.join(", "));
            let detail = format!("`{}` is no feature of plans", shorten(&item.to_string()));
            fields.context.error("INVALID_VALUE", &at.item(place), detail, hint);
        }
        feature
    };
    Some(items.iter().enumerate().filter_map(feature).collect())
}

fn prompt(fields: &Fields<'_, '_>) -> Option<String> {
    let prompt = fields.text("prompt")?;
    if prompt.trim().is_empty() {
        let at = fields.at.key(fields.get("prompt")?.key);
        fields.context.error("INVALID_VALUE", &at, "the prompt is empty", "give the id of a template, or a text");
        return None;
    }
    Some(prompt)
}

/// 0 to 2.
pub(super) fn temperature(fields: &Fields<'_, '_>) -> Option<f64> {
    let field = fields.get("temperature")?;
    let at = fields.at.key(field.key);
    let Some(temperature) = field.value.as_f64() else {
        wrong_type(fields.context, &at, field.value, "a number");
        return None;
    };
    if !(0.0..=TEMPERATURE_MAX).contains(&temperature) {
        let detail = format!("`{temperature}` is not in 0..={TEMPERATURE_MAX}");
        fields.context.error("OUT_OF_RANGE", &at, detail, "give a number in that range");
        return None;
    }
    Some(temperature)
}

#[cfg(test)]
mod tests {
    use goalmill_common::goal::Goal;
    use goalmill_common::limits::Limits;
    use goalmill_common::problem::Issue;
    use goalmill_common::revision::RevisionStrategy;
    use serde_json::json;

    use super::*;
    use crate::validate::goal;

    fn of(planning: &Value) -> Result<Goal, Vec<Issue>> {
        goal(&json!({"description": "x", "planning": planning}), &Limits::default())
    }

    #[test]
    fn every_parameter_reads_back() {
        let given = json!({
            "planner": "llm", "only": true, "model": "m", "model_only": true, "strategy": "Hierarchical", "max_depth": 2, "max_steps": 9,
            "prompt": "plan-short", "temperature": 0.7, "candidates": 3, "review": true, "approval": true,
            "require_dependencies": true, "require_fallbacks": true, "fallback_after": "5s",
            "revision": {"max": 2, "threshold": 0.5, "strategy": "workaround", "model": "strong"},
        });
        let goal = of(&given).expect("it is valid");
        let planning = &goal.planning;
        assert_eq!(planning.strategy, Some(PlanningStrategy::Hierarchical));
        assert_eq!((planning.max_depth, planning.max_steps, planning.candidates), (Some(2), Some(9), Some(3)));
        assert_eq!((planning.temperature, planning.fallback_after_ms), (Some(0.7), Some(5_000)));
        assert!(planning.model_only && planning.planner_only);
        assert!(planning.require_dependencies && planning.require_fallbacks && planning.require_approval);
        let policy = planning.revision.as_ref().expect("it is given");
        assert_eq!((policy.strategy, policy.model.as_deref()), (Some(RevisionStrategy::Workaround), Some("strong")));
        let written = serde_json::to_value(&goal).expect("it can be written");
        assert_eq!(crate::validate::goal(&written, &Limits::default()).expect("it is valid"), goal);
    }

    #[test]
    fn what_is_out_of_range_is_located() {
        for (planning, pointer, code) in [
            (json!({"strategy": "deep"}), "strategy", "INVALID_VALUE"),
            (json!({"max_depth": 4}), "max_depth", "OUT_OF_RANGE"),
            (json!({"max_steps": 0}), "max_steps", "OUT_OF_RANGE"),
            (json!({"max_steps": 21}), "max_steps", "OUT_OF_RANGE"),
            (json!({"temperature": 2.1}), "temperature", "OUT_OF_RANGE"),
            (json!({"temperature": -1}), "temperature", "OUT_OF_RANGE"),
            (json!({"temperature": "hot"}), "temperature", "WRONG_TYPE"),
            (json!({"candidates": 9}), "candidates", "OUT_OF_RANGE"),
            (json!({"prompt": " "}), "prompt", "INVALID_VALUE"),
            (json!({"fallback_after": "2h"}), "fallback_after", "OUT_OF_RANGE"),
            (json!({"revision": {"strategy": "edit"}}), "revision/strategy", "INVALID_VALUE"),
            (json!({"revision": {"model": ""}}), "revision/model", "INVALID_VALUE"),
        ] {
            let issues = of(&planning).expect_err("it is wrong");
            assert_eq!(issues.len(), 1, "{planning}: {issues:?}");
            let found = (issues[0].pointer.as_str(), issues[0].code.as_str());
            assert_eq!(found, (format!("/planning/{pointer}").as_str(), code), "{planning}");
        }
    }
}
