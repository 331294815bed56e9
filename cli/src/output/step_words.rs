//! Words for maps, loops, waits and clean-up of a step.

use goalmill_common::id::StepId;
use goalmill_common::plan::{Collect, ForEach, OnItemFailure, OnMax, Plan, Repeat, Step, StepWait};

use super::{seconds, span};

/// The part that a step has in the clean-up; none of other steps.
pub fn cleanup_words(undoes: Option<&StepId>, always: bool) -> Option<String> {
    match undoes {
        Some(undone) => Some(format!("undoes {undone}")),
        None => always.then(|| "always".to_owned()),
    }
}

/// Whether the step is a map, a loop or a wait, what it waits for, and what plan runs in it.
pub fn motion_words(step: &Step) -> Vec<String> {
    let plan = match (&step.stored, &step.plan) {
        (Some(stored), _) => Some(format!("plan {stored}")),
        (None, Some(plan)) => Some(plan_words(plan)),
        (None, None) => None,
    };
    let parts = [
        step.for_each.as_deref().map(map_words),
        step.repeat.as_deref().map(loop_words),
        step.wait.as_deref().map(wait_words),
        step.ask.as_ref().map(|_| "asks a person".to_owned()),
        step.callback.then(|| "outcome by callback".to_owned()),
        plan,
    ];
    parts.into_iter().flatten().collect()
}

/// A map that has expanded is a plan of its items.
fn plan_words(plan: &Plan) -> String {
    let steps = plan.steps.iter().filter(|step| !step.is_cleanup()).count();
    match (plan.collect, steps) {
        (Collect::List, 1) => "map of 1 item".to_owned(),
        (Collect::List, items) => format!("map of {items} items"),
        (Collect::Last, 1) => "plan of 1 step".to_owned(),
        (Collect::Last, steps) => format!("plan of {steps} steps"),
    }
}

fn map_words(map: &ForEach) -> String {
    let items = map.items.value().as_array().map(Vec::len);
    let mut text = match (items, map.items_max, map.batch) {
        (Some(1), _, None) => "for 1 item".to_owned(),
        (Some(items), _, None) => format!("for {items} items"),
        (_, Some(most), None) => format!("for each of at most {most} items"),
        (None, None, None) => "for each item".to_owned(),
        (_, _, Some(batch)) => format!("for each {batch} items"),
    };
    if let Some(most) = map.max_parallel {
        text.push_str(&format!(", {most} at a time"));
    }
    match map.on_item_failure {
        OnItemFailure::Fail => {}
        OnItemFailure::Continue => text.push_str(", items may fail"),
        OnItemFailure::AtMost(most) => text.push_str(&format!(", at most {most} may fail")),
    }
    text
}

fn loop_words(repeat: &Repeat) -> String {
    let Repeat { until, max, delay_ms, on_max } = repeat;
    let delay = match *delay_ms {
        0 => String::new(),
        ms @ 1..=999 => format!(", {} apart", seconds(ms)),
        ms => format!(", {} apart", span(ms)),
    };
    let end = match on_max {
        OnMax::Fail => "at most",
        OnMax::Continue => "then goes on after",
    };
    format!("until {until}{delay}, {end} {max} times")
}

fn wait_words(wait: &StepWait) -> String {
    let StepWait { for_ms, until, tz, event, key, timeout_ms, .. } = wait;
    match (for_ms, until, event) {
        (Some(for_ms), ..) => format!("waits {}", span(*for_ms)),
        (None, Some(until), _) => match tz {
            Some(tz) => format!("waits until {until} ({tz})"),
            None => format!("waits until {until}"),
        },
        (None, None, Some(event)) => {
            let key = key.as_ref().map(|key| format!(" of {key}")).unwrap_or_default();
            let most = timeout_ms.map(|timeout_ms| format!(", {} at most", span(timeout_ms))).unwrap_or_default();
            format!("waits for event {event}{key}{most}")
        }
        (None, None, None) => "waits".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn words(fields: Value) -> Vec<String> {
        let mut step = json!({"id": "a", "agent_type": "x"});
        step.as_object_mut().expect("it is an object").extend(fields.as_object().expect("it is an object").clone());
        motion_words(&serde_json::from_value(step).expect("it is a step"))
    }

    #[test]
    fn a_step_that_runs_once_says_nothing() {
        assert_eq!(words(json!({"retry": {"max": 1}})), Vec::<String>::new());
        assert_eq!(cleanup_words(None, false), None);
    }

    #[test]
    fn maps_loops_waits_and_plans_inside_are_named_with_their_bounds() {
        for (fields, expected) in [
            (json!({"for_each": {"items": "{{ x }}"}}), "for each item"),
            (json!({"for_each": {"items": [1, 2], "max_parallel": 1}}), "for 2 items, 1 at a time"),
            (
                json!({"for_each": {"items": "{{ x }}", "batch": 5, "on_item_failure": "continue"}}),
                "for each 5 items, items may fail",
            ),
            (
                json!({"for_each": {"items": "{{ x }}", "items_max": 9, "on_item_failure": {"at_most": 2}}}),
                "for each of at most 9 items, at most 2 may fail",
            ),
            (
                json!({"repeat": {"until": "outputs.ok", "max": 5, "delay_ms": 90_000}}),
                "until outputs.ok, 90 s apart, at most 5 times",
            ),
            (
                json!({"repeat": {"until": "outputs.ok", "max": 5, "on_max": "continue"}}),
                "until outputs.ok, then goes on after 5 times",
            ),
            (json!({"kind": "wait", "wait": {"for_ms": 259_200_000}}), "waits 3 d"),
            (json!({"kind": "wait", "wait": {"until": "2027-01-31T12:00:00Z"}}), "waits until 2027-01-31T12:00:00Z"),
            (
                json!({"kind": "wait", "wait": {"event": "payment", "key": "{{ t }}", "timeout_ms": 600_000}}),
                "waits for event payment of {{ t }}, 10 min at most",
            ),
            (json!({"ask": {"question": "how?"}}), "asks a person"),
            (json!({"callback": true}), "outcome by callback"),
            (json!({"kind": "plan", "plan": {"steps": [{"id": "b"}, {"id": "c"}]}}), "plan of 2 steps"),
            (json!({"kind": "plan", "plan": {"collect": "list", "steps": [{"id": "a:0"}]}}), "map of 1 item"),
            (json!({"kind": "plan", "use": "trip@3", "plan": {"steps": [{"id": "b"}]}}), "plan trip@3"),
        ] {
            assert_eq!(words(fields.clone()), [expected], "{fields}");
        }
    }
}
