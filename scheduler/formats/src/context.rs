//! The context of the conversion of a document.

use goalmill_common::document_format::DocumentFormat;
use goalmill_common::limits::Limits;
use serde_json::{Map, Value, json};

use super::DraftKind;
use super::rewrite::{Rewrite, STATE};
use goalmill_plan::document::snake;

/// What is handed down while a document is converted.
pub(super) struct Conversion<'a> {
    pub format: Option<DocumentFormat>,
    pub limits: &'a Limits,
    pub kind: DraftKind,
    pub rewrite: &'a mut Rewrite,
}

/// Keys under which plans keep their steps.
pub(super) const LISTS: [&str; 5] = ["steps", "subtasks", "sub_tasks", "tasks", "nodes"];

impl Conversion<'_> {
    pub(super) fn drop_state(&mut self, map: &mut Map<String, Value>, at: &str, kind: &str, names: &[&str]) {
        let keys: Vec<String> = map.keys().filter(|key| names.contains(&snake(key).as_ref())).cloned().collect();
        for key in keys {
            self.rewrite.drop_field(map, at, kind, &key, STATE);
        }
    }

    pub(super) fn is(&self, format: DocumentFormat) -> bool {
        self.format == Some(format)
    }
}

/// The goal of a plan as an object with a description, whatever it was before; made when there is none.
///
/// Returns the key that it stands under.
pub(super) fn goal_object(rewrite: &mut Rewrite, map: &mut Map<String, Value>, at: &str) -> &'static str {
    let key = ["goal", "query", "job"].into_iter().find(|key| map.get(*key).is_some_and(|goal| !goal.is_null()));
    let key = key.unwrap_or("goal");
    let was = map.get(key).cloned().unwrap_or(Value::Null);
    match was {
        Value::Object(_) => {}
        Value::String(_) => {
            rewrite.moved(format!("{at}/{key}/description"), rewrite.original(&format!("{at}/{key}")));
            map.insert(key.into(), json!({ "description": was }));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => {
            let text = ["description", "name", "plan_name", "title"].iter().find_map(|name| map.get(*name));
            let text = text.and_then(Value::as_str).filter(|text| !text.trim().is_empty());
            map.insert(key.into(), json!({ "description": text.unwrap_or("a plan") }));
        }
    }
    key
}

/// The object under a key; made when there is none.
pub(super) fn object_under<'m>(map: &'m mut Map<String, Value>, key: &str) -> Option<&'m mut Map<String, Value>> {
    map.entry(key).or_insert_with(|| json!({})).as_object_mut()
}
