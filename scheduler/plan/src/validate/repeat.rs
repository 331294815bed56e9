//! The fields of a loop.

use goalmill_common::number::to_u32;
use goalmill_common::plan::{OnMax, Repeat, Step};
use serde_json::Value;

use super::policy;
use crate::document::{Fields, Table, Unit, wrong_type};

const REPEAT: &Table = &[
    ("until", &["condition"]),
    ("max", &["max_iterations", "limit"]),
    ("delay", &["interval", "wait"]),
    ("delay_ms", &[]),
    ("on_max", &[]),
];

/// Reads `repeat: {until, max, delay, on_max}`.
pub(super) fn read_repeat(fields: &Fields<'_, '_>, step: &mut Step) {
    let Some(field) = fields.get("repeat") else { return };
    let at = fields.at.key(field.key);
    let Value::Object(map) = field.value else {
        return wrong_type(fields.context, &at, field.value, "an object with `until` and `max`");
    };
    let inside = Fields::from_map(fields.context, &at, map, REPEAT);
    let wrong = |detail: &str, hint: &str| fields.context.error("INVALID_VALUE", &at, detail, hint);
    // That the answer of a person is the outputs is refused already.
    let is_answer = step.ask.as_ref().is_some_and(|ask| ask.into.is_none());
    if step.kind.is_inline() && !is_answer {
        wrong("a step that the engine computes gives the same each time", "repeat the step whose outputs it reads");
    } else if step.for_each.is_some() {
        let hint = "remove one of them; a map of `plan` steps may have a loop in its plan";
        wrong("a step cannot be a map and a loop", hint);
    } else if step.cache.is_some() {
        wrong("a step with `cache` gives the same each time", "remove `cache`, or `repeat`");
    }
    let until = inside.text("until").filter(|until| !until.trim().is_empty());
    if until.is_none() && inside.get("until").is_none() {
        let hint = "give the condition, as in `until: outputs.score > 0.8`";
        fields.context.error("MISSING_FIELD", &at.key("until"), "a loop needs `until`", hint);
    }
    let most = u64::from(fields.context.limits.iterations_max);
    let max = inside.count("max", 1, most);
    if inside.get("max").is_none() {
        let hint = "say how often it runs at most, as in `max: 5`";
        fields.context.error("MISSING_FIELD", &at.key("max"), "a loop needs `max`", hint);
    }
    let limit = fields.context.limits.plan_ms_max;
    let delay_ms = inside
        .duration("delay", Unit::Seconds, 0, limit, "INVALID_TIMEOUT")
        .or_else(|| inside.duration("delay_ms", Unit::Milliseconds, 0, limit, "INVALID_TIMEOUT"))
        .unwrap_or(0);
    let words = [("fail", OnMax::Fail), ("abort", OnMax::Fail), ("continue", OnMax::Continue)];
    let on_max = policy::word(&inside, "on_max", &words).unwrap_or_default();
    if let (Some(until), Some(max)) = (until, max) {
        step.repeat = Some(Box::new(Repeat { until, max: to_u32(max), delay_ms, on_max }));
    }
}
