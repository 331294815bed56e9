//! One step, from its fields.

use goalmill_common::id::{AUTO, AgentType, StepId, is_id};
use goalmill_common::json::Json;
use goalmill_common::number::to_u32;
use goalmill_common::plan::{ForEach, Join, Step, StepKind};
use goalmill_common::stored_plan::{REF_FORM, StoredPlanRef};
use serde_json::{Map, Value};

use super::origin::{Dependency, StepOrigin};
use super::outputs::expected_outputs;
use super::step_failure::{fallback, on_failure, on_partial, retry_delay};
use super::step_fields::STEP;
use super::step_id::{id, id_hint};
use super::{cleanup, dependency, for_each, plan_inputs, policy, repeat, retry, schema, shape, wait};
use crate::document::{DocumentPath, Field, Fields, ValidationContext, shorten, text, wrong_type};

/// Reads a step; `None` when it has no usable id, which is noted.
///
/// - `key`: the step's id, where the steps are an object.
pub(super) fn read_step_fields<'v>(
    context: &ValidationContext<'_>,
    at: &DocumentPath<'_>,
    map: &'v Map<String, Value>,
    key: Option<&'v str>,
    depth: u32,
) -> Option<StepWithUndo<'v>> {
    let fields = Fields::from_map(context, at, map, STEP);
    // An undo step gets its id from the step that it undoes.
    let id = if key == Some("") { Some(String::new()) } else { id(&fields, key) };
    let kind = kind(&fields);
    let mut step = Step::new(id.clone().unwrap_or_default(), agent_type(&fields, kind));
    step.kind = kind;
    describe(&fields, &mut step);
    // With an action, the step goes only to an agent type that has it; `auto` alone lets words choose.
    if kind.needs_worker() && step.agent_type.is_open() && step.action.is_empty() {
        step.agent_type = AUTO.into();
    }
    step.inputs = inputs(&fields);
    step.phase = fields.text("phase");
    expected_outputs(&fields, &mut step);
    if let Some(field) = fields.get("output_schema") {
        step.output_schema = schema::read_schema(context, &at.key(field.key), field.value);
    }
    step.when = when(&fields);
    step.join = join(&fields);
    // That of a wait is the end of the wait.
    step.timeout_ms = if kind == StepKind::Wait { None } else { timeout(&fields) };
    if let Some(field) = fields.get("retry") {
        step.retry = retry::retry(context, &at.key(field.key), field.value);
    }
    retry_delay(&fields, &mut step);
    step.fallback = fallback(&fields);
    step.on_failure = on_failure(&fields);
    step.on_partial = on_partial(&fields);
    step.approve = policy::approval(&fields);
    step.priority = policy::priority(&fields);
    step.resource = fields.text("resource");
    step.estimates = policy::estimates(&fields);
    step.ask = policy::ask(&fields);
    answered_by_person(&fields, &mut step);
    if let Some(field) = fields.get("cache") {
        step.cache = policy::cache(context, &at.key(field.key), field.value);
    }
    step.judges = judges(&fields);
    step.always = fields.flag("always").unwrap_or(false);
    step.undoes = fields.text("undoes").map(StepId::from);
    step.callback = callback(&fields, kind);
    for_each::read_for_each(&fields, &mut step);
    repeat::read_repeat(&fields, &mut step);
    // A map puts a plan of its own around the plan of each item.
    let depth = depth + u32::from(step.for_each.is_some());
    sub_plan(&fields, &mut step, depth);
    wait::read_wait(&fields, &mut step);
    let dependencies = dependency::read_dependencies(&fields, &mut step);
    let origin = origin_of(&fields, dependencies);
    let undo = undo(&fields, &step, depth);
    id.map(|_| ((step, origin), undo))
}

/// The keys and places of a step in the document.
fn origin_of<'v>(fields: &Fields<'v, '_>, dependencies: Vec<Dependency<'v>>) -> StepOrigin<'v> {
    StepOrigin {
        at: fields.at.pointer(),
        action_key: fields.get("action").or_else(|| fields.get("task")).map_or("action", |f| f.key),
        agent_key: fields.get("agent_type").map_or("", |f| f.key),
        id_key: fields.get("id").or_else(|| fields.get("name")).map_or("", |f| f.key),
        inputs_key: fields.get("inputs").map_or("inputs", |f| f.key),
        repeat_key: fields.get("repeat").map_or("repeat", |f| f.key),
        when_key: fields.get("when").map_or("when", |f| f.key),
        wait_key: fields.get("wait").map_or("", |f| f.key),
        join_key: fields.get("join").map_or("join", |f| f.key),
        phase_key: fields.get("phase").map_or("", |f| f.key),
        cache_key: fields.get("cache").map_or("cache", |f| f.key),
        cache_is_text: fields.get("cache").is_some_and(|f| f.value.is_string()),
        dependencies,
        inputs: fields.get("inputs").map(|f| f.value),
        for_each: fields.get("for_each").map(|f| (f.key, f.value)),
    }
}

/// A step, and the step that undoes it, each with its place in the document.
pub(super) type StepWithUndo<'v> = ((Step, StepOrigin<'v>), Option<(Step, StepOrigin<'v>)>);

/// Reads the undo step of a step.
///
/// - `depth`: plans around this one.
fn undo<'v>(fields: &Fields<'v, '_>, target: &Step, depth: u32) -> Option<(Step, StepOrigin<'v>)> {
    let field = fields.get("undo")?;
    let (context, at) = (fields.context, fields.at.key(field.key));
    let Value::Object(map) = field.value else {
        wrong_type(context, &at, field.value, "an object with the `action` that undoes the step");
        return None;
    };
    if target.for_each.is_some() && map.contains_key("for_each") {
        let detail = "the undo step of a map runs once for each item";
        context.error("CONFLICTING_FIELDS", &at.key("for_each"), detail, "remove `for_each` here");
        return None;
    }
    let (mut undo, origin) = read_step_fields(context, &at, map, Some(""), depth)?.0;
    if undo.agent_type.is_open() && target.kind.needs_worker() && target.plan.is_none() {
        undo.agent_type = target.agent_type.clone();
    }
    undo.id = cleanup::undo_id(&target.id);
    undo.undoes = Some(target.id.clone());
    if target.for_each.is_some() {
        undo.for_each = Some(Box::new(ForEach::of_undo()));
    }
    Some((undo, origin))
}

/// A question whose answer is the outputs of the step needs no worker: no agent type is chosen.
fn answered_by_person(fields: &Fields<'_, '_>, step: &mut Step) {
    let is_whole = step.ask.as_ref().is_some_and(|question| question.into.is_none());
    if !is_whole {
        return;
    }
    let instead = ["repeat", "plan", "use"].into_iter().find_map(|name| fields.get(name));
    if let Some(field) = instead {
        let detail = format!("the answer of a person is the outputs of this step; its `{}` would never run", field.key);
        fields.context.error("INVALID_VALUE", &fields.at.key(field.key), &detail, "remove it, or say `into` in `ask`");
    }
    if !step.kind.needs_worker() {
        return;
    }
    if let Some(field) = fields.get("action") {
        let detail = "the answer of a person is the outputs of this step; its action is ignored";
        fields.context.warn("UNUSED_FIELD", &fields.at.key(field.key), detail, "remove it, or say `into` in `ask`");
        step.action.clear();
    }
    if step.agent_type.is_open() {
        step.kind = StepKind::Internal;
        step.agent_type = "".into();
    }
}

/// Whether the agent may report later.
fn callback(fields: &Fields<'_, '_>, kind: StepKind) -> bool {
    let is_set = fields.flag("callback").unwrap_or(false);
    if let Some(field) = fields.get("callback").filter(|_| is_set && !kind.needs_worker()) {
        let detail = "a step of this kind has no agent that could report later";
        let hint = "remove it; a step of kind `wait` waits for an event from outside";
        fields.context.error("INVALID_VALUE", &fields.at.key(field.key), detail, hint);
    }
    is_set
}

/// Ids of success criteria.
fn judges(fields: &Fields<'_, '_>) -> Vec<String> {
    let Some(field) = fields.get("judges") else { return Vec::new() };
    let at = fields.at.key(field.key);
    if let Value::Array(items) = field.value {
        items.iter().enumerate().filter_map(|(i, item)| text(fields.context, &at.item(i), item)).collect()
    } else {
        text(fields.context, &at, field.value).into_iter().collect()
    }
}

fn kind(fields: &Fields<'_, '_>) -> StepKind {
    let words = [
        ("tool", StepKind::Tool),
        ("tool_call", StepKind::Tool),
        ("function", StepKind::Tool),
        ("function_call", StepKind::Tool),
        ("action", StepKind::Tool),
        ("agent", StepKind::Tool),
        ("llm", StepKind::Llm),
        ("llm_call", StepKind::Llm),
        ("message", StepKind::Message),
        ("finish", StepKind::Finish),
        ("internal", StepKind::Internal),
        ("plan", StepKind::Plan),
        ("sub_plan", StepKind::Plan),
        ("subplan", StepKind::Plan),
        ("wait", StepKind::Wait),
        ("sleep", StepKind::Wait),
        ("delay", StepKind::Wait),
        ("timer", StepKind::Wait),
    ];
    let inner = if fields.get("plan").or_else(|| fields.get("use")).is_some() {
        StepKind::Plan
    } else if wait::is_wait(fields) {
        StepKind::Wait
    } else {
        StepKind::Tool
    };
    policy::word(fields, "kind", &words).unwrap_or(inner)
}

pub(super) fn agent_type(fields: &Fields<'_, '_>, kind: StepKind) -> AgentType {
    let missing = || AgentType::from("");
    let Some(field) = fields.get("agent_type") else { return missing() };
    let at = fields.at.key(field.key);
    let Some(given) = text(fields.context, &at, field.value) else { return missing() };
    let given = given.trim();
    if given.eq_ignore_ascii_case("tbd") || given.eq_ignore_ascii_case(AUTO) {
        return AgentType::from(if kind.needs_worker() { AUTO } else { "" });
    }
    if given.is_empty() {
        return missing();
    }
    if !is_id(given) {
        let detail = format!("`{}` is not the name of an agent type", shorten(given));
        fields.context.error("INVALID_ID", &at, detail, id_hint(given));
        return missing();
    }
    if !kind.needs_worker() {
        let detail = "a step of this kind needs no worker; its agent type is ignored";
        fields.context.warn("UNUSED_FIELD", &at, detail, "remove it, or give another `kind`");
        return missing();
    }
    given.into()
}

/// Action and description. `task` is either, whichever it looks like.
fn describe(fields: &Fields<'_, '_>, step: &mut Step) {
    step.description = fields.text("description").unwrap_or_default();
    step.action = fields.text("action").unwrap_or_default();
    if step.action.chars().any(char::is_control) {
        let detail =
            format!("the action `{}` has control characters", shorten(&step.action.escape_default().to_string()));
        let at = fields.at.key(fields.get("action").map_or("action", |field| field.key));
        fields.context.error("INVALID_ID", &at, detail, "name the action as the agent's card does");
    }
    let mut spare = Vec::new();
    if let Some(task) = fields.text("task") {
        if step.action.is_empty() && !task.contains(char::is_whitespace) {
            step.action = task;
        } else {
            spare.push(task);
        }
    }
    if let Some(field) = fields.get("name")
        && field.value.as_str() != Some(step.id.as_str())
        && let Some(name) = fields.text("name")
    {
        spare.push(name);
    }
    for text in spare {
        if step.description.is_empty() {
            step.description = text;
        }
    }
}

fn inputs(fields: &Fields<'_, '_>) -> Json {
    let Some(field) = fields.get("inputs") else { return Json::empty_object() };
    let inputs = Json::from_value(field.value);
    let limit = fields.context.limits.payload_bytes_max;
    if inputs.text().len() > limit {
        let detail = format!("the inputs have {} bytes, at most {limit} are allowed", inputs.text().len());
        fields.context.error("INPUT_TOO_LARGE", &fields.at.key(field.key), detail, "pass large data by reference");
        return Json::empty_object();
    }
    inputs
}

fn when(fields: &Fields<'_, '_>) -> Option<String> {
    match fields.get("when") {
        Some(Field { value: Value::Bool(flag), .. }) => Some(flag.to_string()),
        Some(_) => fields.text("when"),
        None => None,
    }
}

fn join(fields: &Fields<'_, '_>) -> Join {
    let Some(field) = fields.get("join") else { return Join::All };
    let at = fields.at.key(field.key);
    let at_least = |at: &DocumentPath<'_>, value: &Value| {
        crate::document::count(fields.context, at, value, 0, u64::from(u32::MAX))
            .map_or(Join::All, |k| Join::AtLeast(to_u32(k)))
    };
    match field.value {
        Value::Object(map) => match map.iter().next() {
            Some((key, value)) if map.len() == 1 && matches!(key.as_str(), "at_least" | "atLeast" | "at-least") => {
                at_least(&at.key(key), value)
            }
            _ => {
                fields.context.error(
                    "INVALID_VALUE",
                    &at,
                    "a join has no such form",
                    "use `all`, `any` or `{\"at_least\": 2}`",
                );
                Join::All
            }
        },
        Value::Number(_) => at_least(&at, field.value),
        Value::Null | Value::Bool(_) | Value::String(_) | Value::Array(_) => {
            policy::word(fields, "join", &[("all", Join::All), ("any", Join::Any)]).unwrap_or_default()
        }
    }
}

pub(super) fn timeout(fields: &Fields<'_, '_>) -> Option<u64> {
    policy::timeout_within(fields, fields.context.limits.timeout_ms_max)
}

/// The stored plan that a step uses. Its document stands in `plan` where stored plans are known.
fn stored(fields: &Fields<'_, '_>) -> Option<String> {
    let field = fields.get("use")?;
    let (context, at) = (fields.context, fields.at.key(field.key));
    let given = text(context, &at, field.value)?;
    if StoredPlanRef::parse(&given).is_none() {
        let detail = format!("`{}` does not name a stored plan", shorten(&given));
        context.error("INVALID_VALUE", &at, detail, format!("give {REF_FORM}"));
    } else if fields.get("plan").is_none() {
        let detail = format!("the stored plan `{given}` is not known here");
        let hint = "submit or validate the plan at the server that stores it, or write the steps under `plan`";
        context.error("STORED_PLAN_NOT_FOUND", &at, detail, hint);
    }
    Some(given)
}

fn sub_plan(fields: &Fields<'_, '_>, step: &mut Step, depth: u32) {
    step.stored = stored(fields);
    let Some(field) = fields.get("plan") else {
        if step.stored.is_some() {
            return;
        }
        if step.kind == StepKind::Plan && step.description.is_empty() {
            let hint = "give the inner plan, or a description to plan from";
            fields.context.error("MISSING_FIELD", &fields.at.key("plan"), "a `plan` step needs `plan`", hint);
        } else if step.kind == StepKind::Plan && depth >= fields.context.limits.depth_max {
            let at = fields.at.key(fields.get("kind").map_or("kind", |f| f.key));
            let detail = format!("the plan of step `{}` would be nested deeper than `depth_max` allows", step.id);
            fields.context.error("PLAN_TOO_DEEP", &at, detail, "write its steps in place of it, each with an agent");
        }
        return;
    };
    let at = fields.at.key(field.key);
    if step.kind != StepKind::Plan {
        fields.context.error(
            "INVALID_VALUE",
            &at,
            "only a step of kind `plan` has a plan inside",
            "set `kind` to `plan`",
        );
        return;
    }
    let read = || shape::document(fields.context, &at, field.value, depth + 1);
    step.plan = fields.context.inside(step.stored.is_some(), read).map(Box::new);
    // The answer of a person may add inputs.
    let given = given_names(step).filter(|_| step.ask.is_none());
    plan_inputs::check_read(fields.context, step.plan.as_deref(), given.as_deref());
}

/// The names of the inputs of a step; `None` when an expression gives them.
fn given_names(step: &Step) -> Option<Vec<String>> {
    match step.inputs.value() {
        Value::Object(inputs) => Some(inputs.keys().cloned().collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => None,
    }
}
