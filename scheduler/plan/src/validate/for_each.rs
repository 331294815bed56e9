//! The fields of a map: `for_each` and what stands beside it.

use goalmill_common::json::Json;
use goalmill_common::number::to_u32;
use goalmill_common::plan::{ForEach, OnItemFailure, Step, StepKind};
use serde_json::{Map, Value};

use crate::document::{DocumentPath, Fields, Table, count, shorten, wrong_type};
use goalmill_expression as expression;

/// Fields that mean something only beside `for_each`.
const BESIDE: [&str; 5] = ["as", "batch", "max_parallel", "items_max", "on_item_failure"];

const FOR_EACH: &Table = &[
    ("items", &["list", "in", "from"]),
    ("as", &["item_name", "loop_var"]),
    ("batch", &["batch_size"]),
    ("max_parallel", &["max_concurrency", "concurrency"]),
    ("items_max", &["max_items"]),
    ("on_item_failure", &[]),
];

const AT_MOST: &Table = &[("at_most", &["max", "max_failures"])];

/// Names that an item cannot have: an expression means something else by them.
const TAKEN: [&str; 12] =
    ["goal", "steps", "inputs", "item", "index", "true", "false", "none", "not", "and", "or", "in"];

/// Reads `for_each`: a list, an expression, or an object with both and the other fields.
pub(super) fn read_for_each(fields: &Fields<'_, '_>, step: &mut Step) {
    let Some(field) = fields.get("for_each") else {
        for name in BESIDE {
            if let Some(other) = fields.get(name) {
                let detail = format!("`{}` says how a map runs, and the step has no `for_each`", other.key);
                let hint = "remove it, or give the list in `for_each`";
                fields.context.error("UNUSED_FIELD", &fields.at.key(other.key), detail, hint);
            }
        }
        return;
    };
    let at = fields.at.key(field.key);
    let inside = match field.value {
        Value::Object(map) => Some(Fields::from_map(fields.context, &at, map, FOR_EACH)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => None,
    };
    let map = match &inside {
        None => read_map(fields, fields, &at, field.value),
        Some(inside) => match inside.get("items") {
            Some(items) => read_map(fields, inside, &at.key(items.key), items.value),
            None => {
                let hint = "give the list, as in `{\"items\": \"{{ steps.find.outputs.cities }}\"}`";
                fields.context.error("MISSING_FIELD", &at.key("items"), "`for_each` needs `items`", hint);
                None
            }
        },
    };
    if step.kind == StepKind::Finish {
        let hint = "use `kind: internal`, and a `finish` step behind it";
        fields.context.error("INVALID_VALUE", &at, "a `finish` step is the last one and cannot be a map", hint);
    }
    if !step.judges.is_empty() {
        let key = fields.get("judges").map_or("judges", |field| field.key);
        let hint = "let a step behind the map judge";
        fields.context.error("INVALID_VALUE", &fields.at.key(key), "a map cannot judge criteria", hint);
    }
    step.for_each = map.map(Box::new);
}

/// - `options`: where the fields beside the list are.
fn read_map(step: &Fields<'_, '_>, options: &Fields<'_, '_>, at: &DocumentPath<'_>, items: &Value) -> Option<ForEach> {
    let context = step.context;
    let steps_max = u64::try_from(context.limits.steps_max).unwrap_or(u64::MAX);
    let map = ForEach {
        items: Json::from_value(items),
        name: name(options),
        batch: options.count("batch", 1, u64::from(u32::MAX)).map(to_u32),
        max_parallel: options.count("max_parallel", 1, u64::from(u32::MAX)).map(to_u32),
        items_max: options.count("items_max", 1, steps_max).map(to_u32),
        on_item_failure: on_item_failure(options),
    };
    match items {
        Value::String(text) if is_expression(text) => Some(map),
        Value::Array(list) => {
            let most = map.items_max.map_or(context.limits.items_max, goalmill_common::number::to_usize);
            let groups = list.len().div_ceil(goalmill_common::number::to_usize(map.batch.unwrap_or(1)));
            if groups > most {
                let detail = format!("the list gives {groups} items, at most {most} are allowed");
                context.error("TOO_MANY_ITEMS", at, detail, "group them with `batch`, or raise `items_max`");
            }
            Some(map)
        }
        Value::String(text) => {
            let detail = format!("`{}` is a text, not a list", shorten(text));
            let hint = "write one expression that gives a list, as in `{{ steps.find.outputs.cities }}`, or the list";
            context.error("WRONG_TYPE", at, detail, hint);
            None
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => {
            wrong_type(context, at, items, "a list, or an expression that gives one,");
            None
        }
    }
}

fn is_expression(text: &str) -> bool {
    let text = text.trim();
    text.starts_with("{{") && text.ends_with("}}") && !expression::is_plain(text)
}

fn name(options: &Fields<'_, '_>) -> Option<String> {
    let name = options.text("as")?;
    let is_name = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if is_name && (!TAKEN.contains(&name.as_str()) || name == "item") {
        return Some(name).filter(|name| name != "item");
    }
    let at = options.at.key(options.get("as").map_or("as", |field| field.key));
    let detail = format!("`{}` cannot name an item", shorten(&name));
    let hint = "use lower-case letters, digits and `_`, and no word that expressions know; for example `city`";
    options.context.error("INVALID_VALUE", &at, detail, hint);
    None
}

/// `fail`, `continue`, or `{"at_most": 3}`.
fn on_item_failure(options: &Fields<'_, '_>) -> OnItemFailure {
    let Some(field) = options.get("on_item_failure") else { return OnItemFailure::Fail };
    let at = options.at.key(field.key);
    if let Value::Object(map) = field.value {
        return at_most(options, &at, map);
    }
    let words = [("fail", OnItemFailure::Fail), ("abort", OnItemFailure::Fail), ("continue", OnItemFailure::Continue)];
    super::policy::word(options, "on_item_failure", &words).unwrap_or_default()
}

fn at_most(options: &Fields<'_, '_>, at: &DocumentPath<'_>, map: &Map<String, Value>) -> OnItemFailure {
    let inside = Fields::from_map(options.context, at, map, AT_MOST);
    match inside.get("at_most") {
        Some(field) => count(options.context, &at.key(field.key), field.value, 0, u64::from(u32::MAX))
            .map_or(OnItemFailure::Fail, |most| OnItemFailure::AtMost(to_u32(most))),
        None => {
            let hint = "write `fail`, `continue`, or `{\"at_most\": 3}`";
            options.context.error("MISSING_FIELD", &at.key("at_most"), "it says how many items may fail", hint);
            OnItemFailure::Fail
        }
    }
}
