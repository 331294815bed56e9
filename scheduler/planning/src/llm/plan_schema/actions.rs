//! The actions of agents and the stored plans that steps can use, with their outputs.

use std::collections::BTreeSet;

use goalmill_common::agent::Agent;
use goalmill_common::json::Json;
use goalmill_common::stored_plan::StoredPlanView;
use serde_json::Value;

use super::KnownStep;
use super::schema_parts::{alternatives, is_name};

/// A path into a value that nothing is known of, of one part at least.
const ANY_PATH: &str = r"\.[a-zA-Z_][a-zA-Z0-9_]{0,30}(?:\.[a-zA-Z_][a-zA-Z0-9_]{0,30}|\[[0-9]{1,3}\]){0,4}";
/// Objects inside each other whose fields references name.
const NESTED_MAX: usize = 3;
/// Characters of an action in the id of a step.
const SUFFIX_CHARS_MAX: usize = 40;

/// What a step can do: an action of an agent, or a stored plan.
pub struct OfferedAction {
    pub agent: String,
    /// None is any action, of an agent that declares none.
    pub action: Option<String>,
    /// What the id of a step says of it.
    pub suffix: String,
    /// The schema of its inputs. None when any fit, or when the schema refers to parts of itself.
    pub inputs: Option<Value>,
    pub outputs: OutputPaths,
    /// The version, `trip@3`; then there is neither agent nor action.
    pub stored_plan: Option<String>,
}

/// What references to a step can name behind `outputs`.
#[derive(Clone, Debug, Default)]
pub struct OutputPaths(Vec<OutputPath>);

#[derive(Clone, Debug)]
struct OutputPath {
    /// A pattern.
    path: String,
    /// None is any type.
    kind: Option<String>,
    /// It is a list of texts.
    is_texts: bool,
}

impl OutputPaths {
    pub fn any() -> Self {
        Self(vec![OutputPath { path: ANY_PATH.to_owned(), kind: None, is_texts: false }])
    }

    /// An answer of a person.
    pub fn answer() -> Self {
        Self(vec![OutputPath { path: String::new(), kind: None, is_texts: false }])
    }

    /// The outputs of a map.
    pub fn list() -> Self {
        Self(vec![OutputPath { path: String::new(), kind: Some("array".to_owned()), is_texts: false }])
    }

    fn declared(schema: &Value) -> Self {
        if !schema.get("properties").is_some_and(Value::is_object) {
            return Self::any();
        }
        let mut outputs = Self::default();
        outputs.gather(schema, "", 0);
        outputs
    }

    /// The fields of an object, and of objects in it.
    fn gather(&mut self, schema: &Value, prefix: &str, depth: usize) {
        let fields = schema.get("properties").and_then(Value::as_object);
        for (name, field) in fields.into_iter().flatten().filter(|(name, _)| is_name(name)) {
            let path = format!(r"{prefix}\.{name}");
            let kind = field.get("type").and_then(Value::as_str).map(str::to_owned);
            let is_texts =
                kind.as_deref() == Some("array") && field.pointer("/items/type").is_some_and(|kind| kind == "string");
            if kind.as_deref() == Some("object") && depth < NESTED_MAX {
                self.gather(field, &path, depth + 1);
            }
            self.0.push(OutputPath { path, kind, is_texts });
        }
    }

    /// The paths to values of one of the types. An object or a list is a text as JSON.
    pub fn paths(&self, kinds: &[&str]) -> Vec<String> {
        let path = |output: &OutputPath| match output.kind.as_deref() {
            None => Some(output.path.clone()),
            Some(kind) if kinds.contains(&kind) => Some(output.path.clone()),
            Some("array" | "object") if kinds.contains(&"string") => Some(format!(r"{} \| tojson", output.path)),
            Some(_) => None,
        };
        self.0.iter().filter_map(path).collect()
    }

    /// Conditions about outputs, each behind `outputs`. A value of any type counts as a truth value or a text.
    pub fn conditions(&self) -> Vec<String> {
        let outputs = |kinds: &[&str], takes_any: bool| {
            let is_meant =
                |output: &&OutputPath| output.kind.as_deref().map_or(takes_any, |kind| kinds.contains(&kind));
            let paths: Vec<String> = self.0.iter().filter(is_meant).map(|output| output.path.clone()).collect();
            (!paths.is_empty()).then(|| alternatives(paths))
        };
        let number = outputs(&["integer", "number"], false)
            .map(|path| format!(r"{path} (?:>|>=|<|<=|==) -?[0-9]{{1,9}}(?:\.[0-9]{{1,3}})?"));
        let flag = outputs(&["boolean"], true);
        let text = outputs(&["string"], true).map(|path| format!(r#"{path} [!=]= '[^'{{}}"\\\x00-\x1f]{{1,60}}'"#));
        [number, flag, text].into_iter().flatten().collect()
    }

    /// Whether one of them is a list of other values than texts.
    pub fn has_list_of_objects(&self) -> bool {
        self.0.iter().any(|output| output.kind.as_deref() == Some("array") && !output.is_texts)
    }
}

/// What the steps of a plan can do.
pub fn works(agents: &[Agent], plans: &[StoredPlanView]) -> Vec<OfferedAction> {
    let mut works = Vec::new();
    let mut taken = BTreeSet::from(["plan", "wait", "until", "event", "ask", "each"].map(str::to_owned));
    let shared = |name: &str| agents.iter().flat_map(|agent| &agent.actions).filter(|a| a.name == name).count() > 1;
    let mut suffix = |text: &str| {
        let letters = text.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' });
        let text: String = letters.take(SUFFIX_CHARS_MAX).collect();
        let others = (2..).map(|number| format!("{text}_{number}"));
        let free = std::iter::once(text.clone()).chain(others).find(|text| !taken.contains(text));
        let free = free.unwrap_or(text);
        taken.insert(free.clone());
        free
    };
    for agent in agents {
        let name = agent.agent_type.to_string();
        if agent.actions.is_empty() {
            let suffix = suffix(&name);
            works.push(OfferedAction {
                agent: name.clone(),
                action: None,
                suffix,
                inputs: None,
                outputs: OutputPaths::any(),
                stored_plan: None,
            });
        }
        for action in &agent.actions {
            let unique = if shared(&action.name) { format!("{name}_{}", action.name) } else { action.name.clone() };
            let outputs = action.outputs.as_ref().map(Json::value).unwrap_or_default();
            works.push(OfferedAction {
                agent: name.clone(),
                action: Some(action.name.clone()),
                suffix: suffix(&unique),
                inputs: usable_schema(action.inputs.as_ref().map(Json::value)),
                outputs: OutputPaths::declared(&outputs),
                stored_plan: None,
            });
        }
    }
    for plan in plans {
        works.push(OfferedAction {
            agent: String::new(),
            action: None,
            suffix: suffix(&plan.name),
            inputs: usable_schema(plan.input_schema.clone()),
            outputs: OutputPaths::any(),
            stored_plan: Some(plan.reference().to_string()),
        });
    }
    works
}

fn usable_schema(schema: Option<Value>) -> Option<Value> {
    let schema = schema?;
    let is_usable = schema.get("properties").is_some_and(Value::is_object) && !refers_to_itself(&schema);
    is_usable.then_some(schema)
}

/// What a step that exists gives.
pub fn outputs_of(step: &KnownStep, works: &[OfferedAction]) -> OutputPaths {
    let does = |work: &&OfferedAction| work.agent == step.agent_type && work.action.as_ref() == Some(&step.action);
    match works.iter().find(does) {
        Some(_) if step.is_map => OutputPaths::list(),
        Some(work) => work.outputs.clone(),
        None => OutputPaths::any(),
    }
}

/// Whether a schema has references or names, which lead elsewhere when it stands inside another schema.
fn refers_to_itself(schema: &Value) -> bool {
    let text = schema.to_string();
    ["\"$ref\"", "\"$dynamicRef\"", "\"$id\"", "\"$anchor\""].iter().any(|word| text.contains(word))
}
