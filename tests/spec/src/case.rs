//! A case: a document and what happens to it.

use goalmill_common::limits::Limits;
use goalmill_common::plan::Plan;
use goalmill_common::problem::Issue;
use goalmill_plan::validate::validate_plan;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::script::Script;

/// A document and what happens to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// Plans that were stored before, in their order: each is the next version of its name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stored: Vec<StoredDocument>,
    /// A plan in any accepted spelling.
    pub document: Value,
    pub script: Script,
}

/// A plan that is stored under a name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoredDocument {
    pub name: String,
    pub document: Value,
}

impl Case {
    /// The canonical form of the plan, or why it is refused.
    pub fn plan(&self) -> Result<Plan, Vec<Issue>> {
        Ok(validate_plan(&self.whole(), &Limits::default())?.plan().clone())
    }

    /// The document with the stored plans in the places of their uses.
    pub fn whole(&self) -> Value {
        let mut whole = self.document.clone();
        put_stored(&mut whole, &self.stored);
        whole
    }
}

/// A use of a stored plan has the document of its version. One that names none has the newest; later versions change
/// nothing, so a stored plan uses those that were stored before it.
fn put_stored(value: &mut Value, stored: &[StoredDocument]) {
    match value {
        Value::Object(fields) => {
            fields.values_mut().for_each(|field| put_stored(field, stored));
            let Some(used) = fields.get("use").and_then(Value::as_str) else { return };
            let (name, version) = used.split_once('@').unwrap_or((used, ""));
            let mut versions = (0..stored.len()).filter(|n| stored[*n].name == name);
            let all = versions.clone().count();
            let version = version.parse().unwrap_or(all);
            let Some(n) = version.checked_sub(1).and_then(|before| versions.nth(before)) else { return };
            let mut document = stored[n].document.clone();
            put_stored(&mut document, &stored[..n]);
            fields.insert("use".into(), format!("{name}@{version}").into());
            fields.insert("plan".into(), document);
        }
        Value::Array(items) => items.iter_mut().for_each(|item| put_stored(item, stored)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
