//! The `wait` of a step: a duration, a time, or an event.

use goalmill_common::clock::{TIME_MS_MAX, parse_rfc3339, rfc3339};
use goalmill_common::id::is_id;
use goalmill_common::json::Json;
use goalmill_common::plan::{OnTimeout, Step, StepKind, StepWait};
use goalmill_expression as expression;
use serde_json::Value;

use super::{policy, schema};
use crate::document::{
    DocumentPath, DocumentZone, Field, Fields, Table, Unit, ValidationContext, ZONE_ALIASES, duration, text, time,
};
use crate::schema::Schema;

/// The fields of `wait`; a step of this kind may have them itself.
const WAIT: &Table = &[
    ("for", &["duration"]),
    ("for_ms", &[]),
    ("until", &["at"]),
    ("tz", ZONE_ALIASES),
    ("event", &["signal", "name"]),
    ("key", &["correlation_key"]),
    ("schema", &["data_schema"]),
    ("timeout", &[]),
    ("timeout_ms", &[]),
    ("timeout_seconds", &["timeout_s", "timeout_sec", "timeout_secs"]),
    ("on_timeout", &[]),
];

/// Those that a step may have itself, and that mean nothing in a step of another kind.
const OWN: [&str; 7] = ["for", "for_ms", "until", "tz", "event", "key", "on_timeout"];

/// Those that say what the wait for an event is like.
const OF_EVENTS: [&str; 6] = ["key", "schema", "timeout", "timeout_ms", "timeout_seconds", "on_timeout"];

/// Fields that mean nothing in a `wait` step.
const UNUSED: [&str; 6] = ["inputs", "action", "cache", "fallback", "retry", "resource"];

/// Whether the fields of a step without a `kind` make it a `wait` step.
pub(super) fn is_wait(fields: &Fields<'_, '_>) -> bool {
    ["wait", "for", "for_ms", "event"].iter().any(|name| fields.get(name).is_some())
}

/// Reads `wait: {for}`, `wait: {until}`, `wait: {event}`, `wait: 3d`, or the same fields of the step itself.
pub(super) fn read_wait(fields: &Fields<'_, '_>, step: &mut Step) {
    let own = || OWN.iter().filter_map(|name| fields.get(name));
    let given = fields.get("wait");
    if step.kind != StepKind::Wait {
        for field in given.into_iter().chain(own()) {
            let detail = format!("only a step of kind `wait` has `{}`", field.key);
            let hint = "set `kind` to `wait`, or remove it";
            fields.context.error("INVALID_VALUE", &fields.at.key(field.key), detail, hint);
        }
        return;
    }
    warn_of_unused(fields, step);
    let wait = match given {
        None => of_fields(fields, fields.at),
        Some(field) => {
            let limits = ["timeout", "timeout_ms", "timeout_seconds"].iter().filter_map(|name| fields.get(name));
            if let Some(beside) = own().chain(limits).next() {
                let detail = format!("`wait` and `{}` both say what the step waits for", beside.key);
                fields.context.error("CONFLICTING_FIELDS", &fields.at.key(beside.key), detail, "put it into `wait`");
            }
            let at = fields.at.key(field.key);
            if let Value::Object(map) = field.value {
                of_fields(&Fields::from_map(fields.context, &at, map, WAIT), &at)
            } else {
                StepWait { for_ms: for_ms(fields.context, &at, field.value, Unit::Seconds), ..StepWait::default() }
            }
        }
    };
    // The wait is the duration of the step.
    if let (None, Some(for_ms)) = (step.estimates.seconds, wait.for_ms) {
        step.estimates.seconds = Some(for_ms as f64 / 1_000.0);
    }
    step.wait = Some(Box::new(wait));
}

fn warn_of_unused(fields: &Fields<'_, '_>, step: &mut Step) {
    for field in UNUSED.iter().filter_map(|name| fields.get(name)) {
        if field.key == "action" && !step.action.is_empty() {
            let detail = "a `wait` step has no agent: its action would never be done";
            let hint = "do the action in a step of its own that depends on this one";
            fields.context.error("CONFLICTING_FIELDS", &fields.at.key(field.key), detail, hint);
            continue;
        }
        let detail = format!("`{}` means nothing in a `wait` step", field.key);
        fields.context.warn("UNUSED_FIELD", &fields.at.key(field.key), detail, "remove it");
    }
    if let Some(field) = fields.get("ask") {
        let hint = "ask in a step of its own before it";
        fields.context.error("INVALID_VALUE", &fields.at.key(field.key), "a `wait` step asks nobody", hint);
    }
    let plain = Step::new(step.id.clone(), "");
    (step.inputs, step.action, step.cache, step.fallback) = (plain.inputs, plain.action, None, None);
    (step.retry, step.resource) = (plain.retry, None);
}

fn of_fields(fields: &Fields<'_, '_>, at: &DocumentPath<'_>) -> StepWait {
    let (context, of) = (fields.context, |name| fields.get(name));
    let read_for = |field: Field<'_>, unit| for_ms(context, &at.key(field.key), field.value, unit);
    let ways: Vec<Field<'_>> = [of("for").or(of("for_ms")), of("until"), of("event")].into_iter().flatten().collect();
    match ways[..] {
        [_] => {}
        [] => {
            let hint =
                "give `for`, as in `3d`, `until`, as in `2027-01-31T12:00:00Z`, or `event`, the name of an event";
            context.error("MISSING_FIELD", &at.key("for"), "nothing says what the step waits for", hint);
        }
        [first, second, ..] => {
            let detail = format!("a step waits for one thing, and has `{}` and `{}`", first.key, second.key);
            context.error("CONFLICTING_FIELDS", &at.key(second.key), detail, "keep one of them");
        }
    }
    let zone = DocumentZone::from_fields(fields);
    if let (Some(field), None) = (of("tz"), of("until")) {
        context.warn("UNUSED_FIELD", &at.key(field.key), "`tz` is the zone of `until`, which is missing", "remove it");
    }
    let until = of("until").and_then(|field| until(context, &at.key(field.key), field.value, &zone));
    StepWait {
        for_ms: of("for")
            .and_then(|field| read_for(field, Unit::Seconds))
            .or_else(|| of("for_ms").and_then(|field| read_for(field, Unit::Milliseconds))),
        tz: until.as_deref().filter(|until| !expression::is_plain(until)).and(zone.name().map(ToOwned::to_owned)),
        until,
        ..of_event(fields, at)
    }
}

/// What is said about the event that is awaited.
fn of_event(fields: &Fields<'_, '_>, at: &DocumentPath<'_>) -> StepWait {
    let context = fields.context;
    let Some(field) = fields.get("event") else {
        for field in OF_EVENTS.iter().filter_map(|name| fields.get(name)) {
            let detail = format!("`{}` means nothing in a wait without `event`", field.key);
            context.warn("UNUSED_FIELD", &at.key(field.key), detail, "remove it, or name the `event`");
        }
        return StepWait::default();
    };
    let event = fields.text("event");
    if event.as_ref().is_some_and(|name| !is_id(name)) {
        let hint = "use a letter or digit, then up to 127 of letters, digits, `.`, `_`, `:`, `-`";
        context.error("INVALID_ID", &at.key(field.key), "it is no name of an event", hint);
    }
    let schema = fields.get("schema").and_then(|field| schema::read_schema(context, &at.key(field.key), field.value));
    StepWait {
        event,
        key: fields.text("key").filter(|key| !key.is_empty()),
        on_timeout: on_timeout(fields, at, schema.as_ref()),
        schema,
        timeout_ms: policy::timeout_within(fields, context.limits.plan_ms_max),
        ..StepWait::default()
    }
}

fn on_timeout(fields: &Fields<'_, '_>, at: &DocumentPath<'_>, schema: Option<&Json>) -> OnTimeout {
    let Some(field) = fields.get("on_timeout") else { return OnTimeout::default() };
    let Value::Object(map) = field.value else {
        let words = [("fail", OnTimeoutWord::Fail), ("skip", OnTimeoutWord::Skip)];
        return match policy::word(fields, "on_timeout", &words) {
            Some(OnTimeoutWord::Skip) => OnTimeout::Skip,
            Some(OnTimeoutWord::Fail) | None => OnTimeout::Fail,
        };
    };
    let at = at.key(field.key);
    let inner = Fields::from_map(fields.context, &at, map, &[("default", &["outputs"])]);
    let Some(default) = inner.get("default") else {
        let hint = "write `fail`, `skip`, or `{\"default\": …}` with the outputs of the step";
        fields.context.error("MISSING_FIELD", &at.key("default"), "nothing says what happens", hint);
        return OnTimeout::default();
    };
    let outputs = Json::from_value(default.value);
    if schema.is_some_and(|schema| !fits(schema, default.value)) {
        let hint = "give a `default` that fits the `schema`";
        fields.context.error("INVALID_VALUE", &at.key(default.key), "it does not fit the `schema` of the event", hint);
    }
    OnTimeout::Default(outputs)
}

#[derive(Clone, Copy)]
enum OnTimeoutWord {
    Fail,
    Skip,
}

/// Whether a value fits a schema; one that cannot be checked has its own issue.
fn fits(schema: &Json, value: &Value) -> bool {
    let Ok(schema) = Schema::cached_outputs(schema) else { return true };
    schema.for_value(value).is_ok_and(|validator| validator.is_valid(value))
}

fn for_ms(context: &ValidationContext<'_>, at: &DocumentPath<'_>, value: &Value, unit: Unit) -> Option<u64> {
    let for_ms = duration(context, at, value, unit, 1, TIME_MS_MAX, "INVALID_VALUE")?;
    let most = context.limits.plan_ms_max;
    if for_ms > most {
        let detail = format!("the step waits {for_ms} ms, and a plan ends after {most} ms (`limits.plan_ms_max`)");
        let hint = "wait for a shorter time, or raise `limits.plan_ms_max`";
        context.error("WAIT_TOO_LONG", at, detail, hint);
        return None;
    }
    Some(for_ms)
}

/// A text with expressions, or a time: a local one becomes one of UTC.
fn until(context: &ValidationContext<'_>, at: &DocumentPath<'_>, value: &Value, zone: &DocumentZone) -> Option<String> {
    if let Value::String(given) = value {
        let given = given.trim();
        let is_of_utc = zone.name().is_none() && parse_rfc3339(given).is_some();
        if let Some(until_ms) = parse_rfc3339(given).filter(|_| is_of_utc) {
            check_time(context, at, until_ms);
        }
        if is_of_utc || !expression::is_plain(given) {
            return text(context, at, value).map(|text| text.trim().to_owned());
        }
    }
    let until_ms = time(context, at, value, zone, ", or an expression in `{{ }}`")?;
    check_time(context, at, until_ms);
    Some(rfc3339(until_ms))
}

/// A literal time is in the time that a plan which starts now may last.
fn check_time(context: &ValidationContext<'_>, at: &DocumentPath<'_>, until_ms: u64) {
    let Some((rules, now_ms)) = context.rules.and_then(|rules| Some((rules, rules.now_ms?))) else { return };
    let most = context.limits.plan_ms_max;
    if until_ms <= now_ms {
        let detail = format!("the time is in the past, so the step waits for nothing; it is {} now", rfc3339(now_ms));
        context.weigh(rules.weights.outputs, "WAIT_PASSED", at, detail, "give a later time, or remove the step");
    } else if until_ms - now_ms > most {
        let detail = format!("the step waits until after the last end of the plan, {most} ms after its start");
        let hint = "wait for an earlier time, or raise `limits.plan_ms_max`";
        context.weigh(rules.weights.outputs, "WAIT_TOO_LONG", at, detail, hint);
    }
}

#[cfg(test)]
mod tests {
    use goalmill_common::limits::Limits;
    use goalmill_common::problem::Issue;
    use serde_json::json;

    use super::*;
    use crate::validate::validate_plan;

    fn read_step(step: &Value) -> Result<(Step, Vec<String>), Vec<String>> {
        let told = |issues: &[Issue]| issues.iter().map(|i| format!("{} {}", i.code, i.pointer)).collect();
        match validate_plan(&json!({ "steps": [step] }), &Limits::default()) {
            Ok(valid) => Ok((valid.plan().steps[0].clone(), told(valid.warnings()))),
            Err(issues) => Err(told(&issues)),
        }
    }

    #[test]
    fn a_wait_has_many_spellings_and_one_meaning() {
        let days = StepWait { for_ms: Some(3 * 86_400_000), ..StepWait::default() };
        for step in [
            json!({"id": "pause", "kind": "wait", "wait": {"for": "3d"}}),
            json!({"id": "pause", "kind": "wait", "wait": "3 days"}),
            json!({"id": "pause", "wait": {"for_ms": 259_200_000}}),
            json!({"id": "pause", "kind": "wait", "for": "3d"}),
            json!({"id": "pause", "for": 259_200}),
        ] {
            let (read, warnings) = read_step(&step).expect("it is a wait");
            assert_eq!((read.kind, read.wait.as_deref()), (StepKind::Wait, Some(&days)), "{step}");
            assert_eq!((read.estimates.seconds, read.agent_type.as_str()), (Some(259_200.0), ""), "{step}");
            assert_eq!(warnings, Vec::<String>::new(), "{step}");
        }
        let at = |until: &str| Some(StepWait { until: Some(until.into()), ..StepWait::default() });
        for (until, expected) in [
            (json!("2027-01-31T12:00:00+01:00"), at("2027-01-31T12:00:00+01:00")),
            (json!(1_801_393_200_000_u64), at("2027-01-31T11:00:00.000Z")),
            (json!("{{ goal.metadata.start }}"), at("{{ goal.metadata.start }}")),
        ] {
            let (read, _) = read_step(&json!({"id": "pause", "kind": "wait", "until": until})).expect("a time");
            assert_eq!(read.wait.map(|wait| *wait), expected);
        }
    }

    #[test]
    fn a_wait_for_an_event_has_its_fields_inside_or_in_the_step() {
        let schema = json!({"type": "object", "required": ["paid"]});
        let expected = StepWait {
            event: Some("payment".into()),
            key: Some("{{ goal.metadata.order }}".into()),
            schema: Some(Json::from_value(&schema)),
            timeout_ms: Some(172_800_000),
            on_timeout: OnTimeout::Default(json!({"paid": false}).into()),
            ..StepWait::default()
        };
        let (key, default) = ("{{ goal.metadata.order }}", json!({"default": {"paid": false}}));
        let inside = json!({"id": "a", "kind": "wait", "wait": {
            "event": "payment", "key": key, "schema": schema, "timeout": "2d", "on_timeout": default
        }});
        let (read, warnings) = read_step(&inside).expect("it is a wait");
        assert_eq!((read.wait.as_deref(), warnings), (Some(&expected), Vec::new()));
        let own = json!({"id": "a", "event": "payment", "key": key, "timeout": "2d", "on_timeout": default});
        let (read, warnings) = read_step(&own).expect("it is a wait");
        assert_eq!((read.wait.as_deref(), warnings), (Some(&StepWait { schema: None, ..expected }), Vec::new()));
        assert_eq!((read.kind, read.timeout_ms), (StepKind::Wait, None));
    }

    #[test]
    fn a_wait_that_cannot_be_is_refused_with_its_place() {
        for (step, expected) in [
            (json!({"id": "a", "kind": "wait"}), "MISSING_FIELD /steps/0/for"),
            (json!({"id": "a", "wait": {}}), "MISSING_FIELD /steps/0/wait/for"),
            (json!({"id": "a", "wait": {"for": "8d"}}), "WAIT_TOO_LONG /steps/0/wait/for"),
            (json!({"id": "a", "wait": {"for": "soon"}}), "INVALID_VALUE /steps/0/wait/for"),
            (json!({"id": "a", "wait": {"until": "tomorrow"}}), "INVALID_VALUE /steps/0/wait/until"),
            (json!({"id": "a", "wait": {"until": "{{ 1 + }}"}}), "INVALID_EXPRESSION /steps/0/wait/until"),
            (
                json!({"id": "a", "wait": {"for": "1s", "until": "2027-01-31T12:00:00Z"}}),
                "CONFLICTING_FIELDS /steps/0/wait/until",
            ),
            (json!({"id": "a", "wait": "1s", "for": "2s"}), "CONFLICTING_FIELDS /steps/0/for"),
            (json!({"id": "a", "wait": "1s", "ask": "When?"}), "INVALID_VALUE /steps/0/ask"),
            (json!({"id": "a", "wait": "1s", "action": "x"}), "CONFLICTING_FIELDS /steps/0/action"),
            (json!({"id": "a", "event": "two words"}), "INVALID_ID /steps/0/event"),
            (json!({"id": "a", "event": "x", "key": "{{ steps.b.outputs }}"}), "REF_UNKNOWN_STEP /steps/0/key"),
            (json!({"id": "a", "event": "x", "on_timeout": "explode"}), "INVALID_VALUE /steps/0/on_timeout"),
            (json!({"id": "a", "event": "x", "timeout": "8d"}), "OUT_OF_RANGE /steps/0/timeout"),
            (
                json!({"id": "a", "wait": {"event": "x", "schema": {"type": "object"}, "on_timeout": {"default": 1}}}),
                "INVALID_VALUE /steps/0/wait/on_timeout/default",
            ),
            (json!({"id": "a", "kind": "message", "for": "2s"}), "INVALID_VALUE /steps/0/for"),
            (json!({"id": "a", "agent_type": "x", "kind": "tool", "until": "2s"}), "INVALID_VALUE /steps/0/until"),
        ] {
            assert_eq!(read_step(&step).map(drop), Err(vec![expected.to_owned()]), "{step}");
        }
        let (read, warnings) = read_step(&json!({"id": "a", "wait": "1s", "resource": "r"})).expect("ok");
        assert_eq!((warnings, read.resource), (vec!["UNUSED_FIELD /steps/0/resource".to_owned()], None));
    }

    #[test]
    fn a_local_time_has_a_zone_beside_it() {
        for (step, until, tz) in [
            (
                json!({"id": "a", "wait": {"until": "2027-07-31T12:00", "tz": "Europe/Berlin"}}),
                "2027-07-31T10:00:00.000Z",
                None,
            ),
            (
                json!({"id": "a", "kind": "wait", "until": "2027-01-31", "timezone": "UTC"}),
                "2027-01-31T00:00:00.000Z",
                None,
            ),
            (
                json!({"id": "a", "wait": {"until": "{{ goal.metadata.at }}", "time_zone": "Asia/Tokyo"}}),
                "{{ goal.metadata.at }}",
                Some("Asia/Tokyo"),
            ),
        ] {
            let (read, warnings) = read_step(&step).expect("it is a time");
            let expected = StepWait { until: Some(until.into()), tz: tz.map(Into::into), ..StepWait::default() };
            assert_eq!((read.wait.as_deref(), warnings), (Some(&expected), Vec::new()), "{step}");
            let again = serde_json::to_value(&read).expect("it is JSON");
            assert_eq!(read_step(&again).map(|(step, _)| step.wait), Ok(read.wait), "{again}");
        }
        let wait = |wait: Value| json!({"id": "a", "wait": wait});
        for (step, expected) in [
            (wait(json!({"until": "2027-01-31T12:00"})), "INVALID_VALUE /steps/0/wait/until"),
            (wait(json!({"until": "2027-01-31T12:00Z", "tz": "UTC"})), "CONFLICTING_FIELDS /steps/0/wait/until"),
            (wait(json!({"until": 1_801_393_200_000_u64, "tz": "UTC"})), "CONFLICTING_FIELDS /steps/0/wait/until"),
            (wait(json!({"until": "2027-01-31T12:00", "tz": "Europe/Berln"})), "INVALID_VALUE /steps/0/wait/tz"),
            (wait(json!({"until": "{{ goal.metadata.at }}", "tz": 1})), "WRONG_TYPE /steps/0/wait/tz"),
            (wait(json!({"until": "soon", "tz": "UTC"})), "INVALID_VALUE /steps/0/wait/until"),
            (json!({"id": "a", "agent_type": "x", "tz": "UTC"}), "INVALID_VALUE /steps/0/tz"),
        ] {
            assert_eq!(read_step(&step).map(drop), Err(vec![expected.to_owned()]), "{step}");
        }
        let (_, warnings) = read_step(&wait(json!({"for": "1s", "tz": "UTC"}))).expect("it waits");
        assert_eq!(warnings, ["UNUSED_FIELD /steps/0/wait/tz"]);
    }
}
