//! A goal, from a sentence or an object.

use goalmill_common::goal::{GOAL_TYPES, Goal, INPUTS, START_MS_MAX, is_goal_type};
use goalmill_common::id::{Namespace, is_id};
use goalmill_common::limits::Limits;
use goalmill_common::problem::Issue;
use serde_json::{Map, Value};

use super::planning::planning;
use super::shape::is_foreign;
use super::{goal_context, goal_contract, policy};
use crate::document::{
    DocumentPath, DocumentZone, Fields, Table, Unit, ValidationContext, ZONE_ALIASES, shorten, text, time, wrong_type,
};
use goalmill_common::suggest::nearest;

const GOAL: &Table = &[
    ("description", &["goal", "query", "job", "text", "prompt"]),
    ("type", &["goal_type", "kind"]),
    ("constraints", &["constraint"]),
    ("success_criteria", &["success_criterion", "acceptance_criteria"]),
    ("criteria", &["criteria_policy"]),
    ("deadline_ms", &["deadline", "due", "due_at"]),
    ("start_at_ms", &["start_at", "scheduled_for"]),
    ("tz", ZONE_ALIASES),
    ("start_in", &[]),
    ("start_in_ms", &[]),
    ("priority", &[]),
    ("execution", &[]),
    ("budget", &["budgets"]),
    ("namespace", &["tenant"]),
    ("planning", &[]),
    ("context", &[]),
    ("inputs", &[]),
    ("metadata", &["meta"]),
];

/// The canonical name of a goal's field, whatever it is called in a document.
pub fn goal_field(key: &str) -> Option<&'static str> {
    crate::document::canonical(key, GOAL)
}

/// Checks a goal: a sentence, or an object with `description`.
pub fn goal(draft: &Value, limits: &Limits) -> Result<Goal, Vec<Issue>> {
    let context = ValidationContext::new(limits);
    let goal = read_goal_fields(&context, draft);
    context.finish()?;
    Ok(goal)
}

fn read_goal_fields(context: &ValidationContext<'_>, draft: &Value) -> Goal {
    let at = DocumentPath::ROOT;
    if is_foreign(context, draft, "a goal") {
        return Goal::default();
    }
    let map = match draft {
        Value::Object(map) => map,
        Value::String(_) => {
            let description = text(context, &at, draft).map(|t| t.trim().to_owned());
            described(context, &at, description.as_deref());
            return Goal { description: description.unwrap_or_default(), ..Goal::default() };
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => {
            wrong_type(context, &at, draft, "a sentence, or an object with `description`,");
            return Goal::default();
        }
    };
    // `{"goal": {"description": …}}`
    if let Some(inner @ Value::Object(_)) = map.get("goal").filter(|_| map.len() == 1) {
        return nested(context, &at, inner);
    }
    object(context, &at, map)
}

fn nested(context: &ValidationContext<'_>, at: &DocumentPath<'_>, inner: &Value) -> Goal {
    inner.as_object().map_or_else(Goal::default, |map| object(context, &at.key("goal"), map))
}

fn object(context: &ValidationContext<'_>, at: &DocumentPath<'_>, map: &Map<String, Value>) -> Goal {
    let fields = Fields::from_map(context, at, map, GOAL);
    let description = fields.text("description").map(|t| t.trim().to_owned());
    match fields.get("description") {
        Some(field) => described(context, &at.key(field.key), description.as_deref()),
        None if fields.slips.contains(&"description") => {}
        None => {
            let hint = "describe in plain language what the plan shall achieve";
            context.error("MISSING_FIELD", &at.key("description"), "a goal needs a `description`", hint);
        }
    }
    let zone = zone_of_times(&fields);
    let time_of = |name: &str| {
        let field = fields.get(name)?;
        time(context, &at.key(field.key), field.value, &zone, "")
    };
    Goal {
        description: description.unwrap_or_default(),
        goal_type: goal_type(&fields),
        constraints: goal_contract::read_constraints(&fields),
        success_criteria: goal_contract::read_criteria(&fields),
        criteria: goal_contract::read_policy(&fields),
        deadline_ms: time_of("deadline_ms"),
        start_at_ms: time_of("start_at_ms"),
        start_in_ms: start_in(&fields),
        priority: policy::priority(&fields).unwrap_or_default(),
        execution: super::execution::read_execution(&fields),
        budget: policy::budget(&fields),
        namespace: namespace(&fields),
        planning: planning(&fields),
        context: goal_context::context(&fields),
        metadata: metadata(&fields),
    }
}

/// The metadata, with the inputs of the plan among them.
fn metadata(fields: &Fields<'_, '_>) -> Map<String, Value> {
    let (mut metadata, inputs) = (goal_contract::free(fields, "metadata"), goal_contract::free(fields, INPUTS));
    if fields.get(INPUTS).is_some() {
        match metadata.get_mut(INPUTS).and_then(Value::as_object_mut) {
            Some(own) => own.extend(inputs),
            None => drop(metadata.insert(INPUTS.into(), Value::Object(inputs))),
        }
    }
    metadata
}

fn goal_type(fields: &Fields<'_, '_>) -> String {
    let given = fields.text("type").unwrap_or_default().trim().to_owned();
    let Some(field) = fields.get("type").filter(|_| !given.is_empty()) else { return given };
    let spelled = given.to_lowercase().replace([' ', '-'], "_");
    if let Some(known) = GOAL_TYPES.iter().find(|known| **known == spelled) {
        return (*known).to_owned();
    }
    if is_goal_type(&given) {
        return given;
    }
    let known = GOAL_TYPES.map(|name| format!("`{name}`")).join(", ");
    let hint = match nearest(&given, GOAL_TYPES).or_else(|| of_one_word(&spelled)) {
        Some(near) => format!("did you mean `{near}`? Types: {known}; `custom:NAME` for a rule of your own"),
        None => format!("use one of {known}; `custom:NAME` for a rule of your own"),
    };
    let detail = format!("there is no goal type `{}`", shorten(&given));
    fields.context.error("INVALID_VALUE", &fields.at.key(field.key), detail, hint);
    String::new()
}

/// The type that one of its words stands for: `travel`, `analysis`, `automation`.
fn of_one_word(given: &str) -> Option<&'static str> {
    let is_part = |known: &&&str| known.split('_').any(|part| nearest(given, [part]).is_some());
    GOAL_TYPES.iter().find(is_part).copied()
}

fn described(context: &ValidationContext<'_>, at: &DocumentPath<'_>, description: Option<&str>) {
    if description == Some("") {
        context.error(
            "INVALID_VALUE",
            at,
            "the description is empty",
            "describe in plain language what the plan shall achieve",
        );
    }
    let is_control = |c: char| c.is_control() && !matches!(c, '\n' | '\r' | '\t');
    if let Some(found) = description.and_then(|text| text.chars().find(|c| is_control(*c))) {
        let detail = format!("the description has the control character U+{:04X}", u32::from(found));
        context.error("INVALID_VALUE", at, detail, "leave out control characters other than line ends and tabs");
    }
}

/// The zone of deadline and start.
fn zone_of_times(fields: &Fields<'_, '_>) -> DocumentZone {
    let has_time = ["deadline_ms", "start_at_ms"].iter().any(|name| fields.get(name).is_some());
    if let Some(field) = fields.get("tz").filter(|_| !has_time) {
        let detail = "`tz` is the zone of `deadline` or `start_at`, and both are missing";
        let hint = "put it beside the time that it is for, as beside `until` of a wait, or remove it";
        fields.context.error("MISSING_FIELD", &fields.at.key(field.key), detail, hint);
    }
    DocumentZone::from_fields(fields)
}

fn start_in(fields: &Fields<'_, '_>) -> Option<u64> {
    let given = [("start_in", Unit::Seconds), ("start_in_ms", Unit::Milliseconds)];
    let mut read =
        given.into_iter().filter_map(|(name, unit)| fields.duration(name, unit, 1, START_MS_MAX, "INVALID_VALUE"));
    let start_in_ms = read.next();
    if let (Some(field), Some(_)) = (fields.get("start_at_ms"), start_in_ms) {
        let detail = "this and `start_in` say different things about the start";
        fields.context.error("CONFLICTING_FIELDS", &fields.at.key(field.key), detail, "keep one of them");
    }
    start_in_ms
}

fn namespace(fields: &Fields<'_, '_>) -> Option<Namespace> {
    let name = fields.text("namespace").filter(|name| !name.is_empty())?;
    if let Some(field) = fields.get("namespace")
        && !is_id(&name)
    {
        let detail = format!("`{}` is not the name of a namespace", shorten(&name));
        let hint = "use a letter or digit, then up to 127 of letters, digits, `.`, `_`, `:`, `-`";
        fields.context.error("INVALID_ID", &fields.at.key(field.key), detail, hint);
    }
    Some(name.as_str().into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_description_has_no_control_characters_but_line_ends_and_tabs() {
        let limits = Limits::default();
        let described = |text: &str| goal(&json!({ "description": text }), &limits);
        assert!(described("Plan a trip,\n\tto Paris").is_ok());
        for bad in ["Plan\u{1b}[2J a trip", "Plan\u{0}", "Pl\u{85}an"] {
            let issues = described(bad).expect_err("it steers a terminal");
            assert_eq!((issues[0].code.as_str(), issues[0].pointer.as_str()), ("INVALID_VALUE", "/description"));
        }
    }

    #[test]
    fn deadline_and_start_may_be_local_times_of_a_zone() {
        let limits = Limits::default();
        let given = json!({"description": "x", "deadline": "2027-03-28T02:30", "start_at": "2027-01-31", "tz": "Europe/Berlin"});
        let read = goal(&given, &limits).expect("it is valid");
        assert_eq!((read.deadline_ms, read.start_at_ms), (Some(1_806_197_400_000), Some(1_801_350_000_000)));
        for (fields, place) in [
            (json!({"deadline": "2027-03-28T02:30:00Z", "tz": "UTC"}), "CONFLICTING_FIELDS /deadline"),
            (json!({"start_at": 1_801_350_000_000_u64, "tz": "UTC"}), "CONFLICTING_FIELDS /start_at"),
            (json!({"deadline": "2027-03-28T02:30:00"}), "INVALID_VALUE /deadline"),
            (json!({"deadline": "2027-03-28", "start_at": "2027-03-27", "tz": "Berlin"}), "INVALID_VALUE /tz"),
            (json!({"start_in": "1h", "tz": "UTC"}), "MISSING_FIELD /tz"),
            (json!({"deadline": true}), "WRONG_TYPE /deadline"),
        ] {
            let mut document = json!({"description": "x"});
            document.as_object_mut().expect("an object").extend(fields.as_object().expect("an object").clone());
            let issues = goal(&document, &limits).expect_err(place);
            let told: Vec<String> = issues.iter().map(|issue| format!("{} {}", issue.code, issue.pointer)).collect();
            assert_eq!(told, [place]);
        }
    }

    #[test]
    fn a_goal_type_that_nobody_knows_is_refused_with_a_suggestion() {
        let limits = Limits::default();
        let typed = |name: &str| goal(&json!({"description": "x", "type": name}), &limits);
        let known = |name: &str| typed(name).expect("it is known").goal_type;
        assert_eq!(known("travel_planning"), "travel_planning");
        assert_eq!(known("Task Automation"), "task_automation");
        assert_eq!((known("custom"), known("custom:tea")), ("custom".into(), "custom:tea".into()));
        for (slip, meant) in
            [("travel_planing", "travel_planning"), ("travel", "travel_planning"), ("reserch", "research")]
        {
            let issue = &typed(slip).expect_err("it is a slip")[0];
            assert_eq!((issue.code.as_str(), issue.pointer.as_str()), ("INVALID_VALUE", "/type"));
            assert!(issue.hint.contains(&format!("`{meant}`?")), "{slip}: {}", issue.hint);
        }
        assert!(typed("no_such_type").is_err() && typed("custom:").is_err() && typed("custom:a b").is_err());
    }

    #[test]
    fn how_a_plan_may_be_revised_is_checked_and_spelled_out() {
        let limits = Limits::default();
        let said = json!({"description": "x", "planning": {"revision": {"min_confidence": 0.1, "approve": {}}}});
        let policy = goal(&said, &limits).expect("it is valid").planning.revision.expect("it is given");
        assert_eq!(policy.confidence_floor, 0.1);
        assert!(policy.approve.is_some(), "an empty object has the defaults");
        let place = |planning: Value| {
            let said = json!({"description": "x", "planning": planning});
            goal(&said, &limits).expect_err("it is wrong")[0].pointer.clone()
        };
        assert_eq!(place(json!({"revision": {"confidence_floor": 2}})), "/planning/revision/confidence_floor");
        assert_eq!(place(json!({"planner": 5})), "/planning/planner");
        assert_eq!(place(json!({"planner_only": "perhaps"})), "/planning/planner_only");
        assert_eq!(place(json!({"plannner": "rules"})), "/planning/plannner");
        assert_eq!(place(json!("rules")), "/planning");
    }
}
