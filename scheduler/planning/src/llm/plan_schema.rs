//! The schema of a plan, built from the catalogue: what it admits is a plan of known agents and actions.
//!
//! ```text
//! step i = id `s<i>`, dependencies among `s1` … `s<i-1>`, and one of agent × action with the inputs of that action
//! ```
//!
//! - *Grammar form.* `steps` is one of the lists of 1, 2, … steps, each with `prefixItems`, because llama.cpp reads
//!   `prefixItems` as a list of exactly that length. Alternatives stand at the step and repeat its fields, because
//!   llama.cpp ignores what stands beside `anyOf`. `uniqueItems` is left out, because xgrammar refuses it.
//! - *Strict form.* One `items` for all steps, ids and dependencies from all ids, no `pattern`, all properties required;
//!   an optional input is nullable.
//! - *Prompt form.* The strict form without the schemas of inputs, which the prompt lists with the agents.
//!
//! A text in the grammar form holds either no braces or whole references such as `{{ steps.s1.outputs.text }}`: to
//! earlier steps only, and to outputs that an action of the catalogue declares. The pattern excludes characters that
//! JSON escapes, apart from their escapes, because grammars apply patterns to the text of the JSON string.
//!
//! Each form has a limit in bytes. A catalogue that does not fit is described in less detail.

use std::collections::BTreeSet;

use goalmill_common::agent::{Action, Agent};
use goalmill_common::json::Json;
use goalmill_common::number::to_usize;
use goalmill_common::revision::RevisionStrategy;
use goalmill_llm::{AnswerSchema, SchemaForm};
use serde_json::{Map, Value, json};

/// Bytes of a schema that a server turns into a grammar.
const GRAMMAR_BYTES_MAX: usize = 384 << 10;
/// Bytes of a schema in the strict subset; services count it as a part of the prompt.
const STRICT_BYTES_MAX: usize = 32 << 10;
/// Bytes of a schema in a prompt.
const PROMPT_BYTES_MAX: usize = 4 << 10;
/// Characters of a description, and of a summary.
const DESCRIPTION_CHARS: [usize; 2] = [3, 160];
/// Tokens of the longest answer for each character of a text of an input: one text is at most about a twentieth of it.
const TOKENS_PER_INPUT_CHAR: u64 = 8;
/// Bounds of the characters of a text of an input. Servers refuse longer repetitions in grammars.
const INPUT_CHARS: [usize; 2] = [60, 500];
/// Changes of one revision.
const CHANGES_MAX: usize = 8;
/// New steps of a correction, and of one change of a revision.
const NEW_STEPS_MAX: usize = 6;
/// A character of a JSON text without braces: itself or an escape.
const CHARACTER: &str = r#"[^{}"\\\x00-\x1f]|\\["\\/bfnrt]"#;
/// The rest of a path into an output that is an object or a list.
const INNER_PATH: &str = r"(?:\.[a-zA-Z_][a-zA-Z0-9_]{0,30}|\[[0-9]{1,3}\]){0,4}";
/// Any name of an output.
const ANY_OUTPUT: &str = "[a-zA-Z_][a-zA-Z0-9_]{0,30}";

/// How much of the catalogue the schema repeats, most first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Detail {
    /// Inputs refer to earlier steps only: one schema for each action and position.
    Positions,
    /// Inputs refer to any step: one schema for each action.
    Inputs,
    /// Any inputs.
    OpenInputs,
    /// Any inputs, and the actions of each agent as one list.
    Agents,
    /// Any inputs, agents and actions as two lists, steps without positions.
    Names,
    /// Any agents, actions and inputs.
    Any,
}

fn bytes_max(form: SchemaForm) -> usize {
    match form {
        SchemaForm::Grammar => GRAMMAR_BYTES_MAX,
        SchemaForm::Strict => STRICT_BYTES_MAX,
        SchemaForm::Prompt => PROMPT_BYTES_MAX,
    }
}

fn details(form: SchemaForm) -> &'static [Detail] {
    use Detail::{Agents, Any, Inputs, Names, OpenInputs, Positions};
    match form {
        SchemaForm::Grammar => &[Positions, Inputs, OpenInputs, Agents, Names, Any],
        SchemaForm::Strict => &[Inputs, OpenInputs, Agents, Names, Any],
        SchemaForm::Prompt => &[Agents, Names, Any],
    }
}

/// What steps may be made of.
#[derive(Clone, Debug)]
pub struct PlanVocabulary {
    /// The shortlist of the catalogue.
    pub agents: Vec<Agent>,
    /// Steps have fallbacks.
    pub fallbacks: bool,
    /// Steps of kind `plan` are allowed.
    pub parts: bool,
    /// Tokens of the longest answer.
    pub output_tokens_max: u64,
}

/// The running plan that a revision changes.
#[derive(Clone, Debug, Default)]
pub struct RevisedPlan {
    /// Ids of all steps.
    pub steps: Vec<String>,
    /// Ids of the steps that may be changed.
    pub open: Vec<String>,
    pub phases: Vec<String>,
    /// A step may become a plan.
    pub may_nest: bool,
}

impl PlanVocabulary {
    /// The schema of a plan.
    ///
    /// - `steps_max`: steps of the plan.
    pub fn plan(self, steps_max: usize) -> AnswerSchema {
        let ids = new_ids("s", &[], steps_max.max(1));
        self.forms(ids.clone(), move |builder| object([("steps", builder.steps(&ids))]))
    }

    /// The schema of the corrected steps of a draft.
    ///
    /// - `ids`: of the draft's steps.
    /// - `frozen`: those that stay as they are.
    pub fn correction(self, ids: &[String], frozen: &[String]) -> AnswerSchema {
        let fresh = new_ids("s", ids, NEW_STEPS_MAX);
        let all: Vec<String> = ids.iter().chain(&fresh).cloned().collect();
        let open: Vec<String> = ids.iter().filter(|id| !frozen.contains(id)).cloned().collect();
        let own: Vec<String> = open.iter().chain(&fresh).cloned().collect();
        self.forms(all, move |builder| {
            let steps = builder.any_steps(&own, builder.all);
            let remove = json!({"type": "array", "items": one_of(&open), "maxItems": open.len()});
            object([("steps", steps), ("remove", remove)])
        })
    }

    /// The schema of a revision.
    pub fn revision(self, plan: RevisedPlan) -> AnswerSchema {
        let fresh = new_ids("s", &plan.steps, NEW_STEPS_MAX);
        let all: Vec<String> = plan.steps.iter().chain(&fresh).cloned().collect();
        self.forms(all, move |builder| {
            let strategies: Vec<String> = RevisionStrategy::ALL
                .iter()
                .filter(|strategy| **strategy != RevisionStrategy::Edit)
                .map(|strategy| strategy.as_str().to_owned())
                .collect();
            let changes =
                json!({"type": "array", "items": {"anyOf": builder.changes(&plan, &fresh)}, "maxItems": CHANGES_MAX});
            let summary = builder.description();
            let question = builder.optional(object([("question", summary.clone())]));
            let mut schema = object([
                ("strategy", one_of(&strategies)),
                ("summary", summary),
                ("changes", changes),
                ("question", question),
            ]);
            if builder.form != SchemaForm::Strict {
                schema["required"] = json!(["strategy", "summary", "changes"]);
            }
            schema
        })
    }

    /// Each form in as much detail as fits.
    ///
    /// - `all`: ids that any step may refer to.
    fn forms(
        self,
        all: Vec<String>,
        build: impl Fn(&mut Builder<'_>) -> Value + Send + Sync + 'static,
    ) -> AnswerSchema {
        AnswerSchema::new(move |form| {
            let mut schema = Value::Null;
            for detail in details(form) {
                let mut builder = Builder { vocabulary: &self, all: &all, form, detail: *detail, defs: Map::new() };
                schema = build(&mut builder);
                if !builder.defs.is_empty() {
                    schema["$defs"] = builder.defs.into();
                }
                if form == SchemaForm::Grammar {
                    write_constants(&mut schema);
                }
                if schema.to_string().len() <= bytes_max(form) {
                    break;
                }
            }
            schema
        })
    }

    /// The schemas of the name of an agent and of the name of an action. Any action may be asked of an agent that
    /// declares none.
    pub fn names(&self) -> [Value; 2] {
        let agents: Vec<String> = self.agents.iter().map(|agent| agent.agent_type.to_string()).collect();
        let actions: BTreeSet<&str> =
            self.agents.iter().flat_map(|agent| &agent.actions).map(|action| action.name.as_str()).collect();
        let actions: Vec<String> = actions.into_iter().map(str::to_owned).collect();
        let has_open_agent = self.agents.iter().any(|agent| agent.actions.is_empty());
        [one_of(&agents), one_of(if has_open_agent { &[] } else { &actions })]
    }
}

/// Ids of a prefix and a number that are not taken.
fn new_ids(prefix: &str, taken: &[String], count: usize) -> Vec<String> {
    (1..).map(|number| format!("{prefix}{number}")).filter(|id| !taken.contains(id)).take(count).collect()
}

/// Builds one form of a schema.
struct Builder<'a> {
    vocabulary: &'a PlanVocabulary,
    all: &'a [String],
    form: SchemaForm,
    detail: Detail,
    defs: Map<String, Value>,
}

impl Builder<'_> {
    /// The steps of a plan: by position where a grammar holds them to it.
    fn steps(&mut self, ids: &[String]) -> Value {
        if self.form != SchemaForm::Grammar || self.detail >= Detail::Names {
            return self.any_steps(ids, ids);
        }
        let steps: Vec<Value> = (0..ids.len())
            .map(|at| {
                let step = self.step(&ids[at..=at], &ids[..at], &at.to_string());
                self.define(&format!("step_{at}"), step)
            })
            .collect();
        let lists: Vec<Value> = (1..=steps.len())
            .map(|count| json!({"type": "array", "prefixItems": steps[..count], "minItems": count, "maxItems": count}))
            .collect();
        json!({ "anyOf": lists })
    }

    /// Steps in any order, with any of their own ids.
    fn any_steps(&mut self, own: &[String], earlier: &[String]) -> Value {
        let step = self.step(own, earlier, "");
        json!({"type": "array", "items": step, "minItems": 1, "maxItems": own.len()})
    }

    /// A step.
    ///
    /// - `own`: ids that it may have.
    /// - `earlier`: ids that it may depend on and refer to.
    /// - `scope`: the name of these two in definitions.
    fn step(&mut self, own: &[String], earlier: &[String], scope: &str) -> Value {
        let dependencies = json!({"type": "array", "items": one_of(earlier), "maxItems": earlier.len()});
        let dependencies = self.define(&format!("after{scope}"), dependencies);
        let fixed = [one_of(own), self.description(), dependencies];
        let mut alternatives: Vec<Value> = self
            .works(earlier, scope)
            .into_iter()
            .map(|[agent, action, inputs]| {
                let [id, description, dependencies] = fixed.clone();
                let mut fields = vec![
                    ("id", id),
                    ("description", description),
                    ("agent_type", agent),
                    ("action", action),
                    ("inputs", inputs),
                    ("dependencies", dependencies),
                ];
                if self.vocabulary.fallbacks {
                    fields.push(("fallback", self.fallback()));
                }
                object(fields)
            })
            .collect();
        if self.vocabulary.parts {
            let [id, description, dependencies] = fixed;
            let kind = one_of(&["plan".to_owned()]);
            alternatives.push(object([
                ("id", id),
                ("kind", kind),
                ("description", description),
                ("dependencies", dependencies),
            ]));
        }
        any_of(alternatives)
    }

    /// Agent, action and inputs that go together.
    fn works(&mut self, earlier: &[String], scope: &str) -> Vec<[Value; 3]> {
        let vocabulary = self.vocabulary;
        let open = || json!({"type": "object"});
        let text = || json!({"type": "string"});
        match self.detail {
            Detail::Positions | Detail::Inputs | Detail::OpenInputs => {
                let mut works = Vec::new();
                for (at, agent) in vocabulary.agents.iter().enumerate() {
                    let name = one_of(&[agent.agent_type.to_string()]);
                    if agent.actions.is_empty() {
                        works.push([name.clone(), text(), open()]);
                    }
                    for (number, action) in agent.actions.iter().enumerate() {
                        let inputs = self.inputs(action, &format!("in{at}_{number}"), earlier, scope);
                        works.push([name.clone(), one_of(std::slice::from_ref(&action.name)), inputs]);
                    }
                }
                works
            }
            Detail::Agents => {
                let actions =
                    |agent: &Agent| agent.actions.iter().map(|action| action.name.clone()).collect::<Vec<_>>();
                let work = |agent: &Agent| [one_of(&[agent.agent_type.to_string()]), one_of(&actions(agent)), open()];
                vocabulary.agents.iter().map(work).collect()
            }
            Detail::Names => {
                let [agents, actions] = vocabulary.names();
                vec![[agents, actions, open()]]
            }
            Detail::Any => vec![[text(), text(), open()]],
        }
    }

    /// The agent and action that take over, in some pair of the catalogue.
    fn fallback(&mut self) -> Value {
        if self.defs.contains_key("fallback") {
            return reference_to("fallback");
        }
        let pair = |agent: &Agent| {
            let actions: Vec<String> = agent.actions.iter().map(|action| action.name.clone()).collect();
            object([("agent_type", one_of(&[agent.agent_type.to_string()])), ("action", one_of(&actions))])
        };
        let pairs = any_of(self.vocabulary.agents.iter().map(pair).collect());
        self.define("fallback", pairs)
    }

    /// The inputs of an action; any where the action declares none, or where its schema refers to parts of itself.
    fn inputs(&mut self, action: &Action, name: &str, earlier: &[String], scope: &str) -> Value {
        let open = json!({"type": "object"});
        if self.detail >= Detail::OpenInputs {
            return open;
        }
        let Some(schema) = action.inputs.as_ref().map(Json::value) else { return open };
        if schema.get("properties").is_none_or(|fields| !fields.is_object()) || refers_to_itself(&schema) {
            return open;
        }
        let all = self.all;
        let (scope, earlier) = if self.detail == Detail::Positions { (scope, earlier) } else { ("", all) };
        let name = format!("{name}_{scope}");
        if !self.defs.contains_key(&name) {
            let inputs = match self.form {
                SchemaForm::Grammar => self.admit(&schema, &References { earlier, scope }, true),
                SchemaForm::Strict | SchemaForm::Prompt => strict(&schema, true).unwrap_or(open),
            };
            return self.define(&name, inputs);
        }
        reference_to(&name)
    }

    /// A schema of an input for a grammar: closed objects, and a reference in place of each value.
    fn admit(&mut self, schema: &Value, references: &References<'_>, is_root: bool) -> Value {
        let Some(map) = schema.as_object() else { return schema.clone() };
        let kind = map.get("type").and_then(Value::as_str).unwrap_or_default();
        let is_limited = ["enum", "const", "format", "pattern"].iter().any(|word| map.contains_key(*word));
        if kind == "string" && !is_limited {
            return self.text(map, references);
        }
        let mut own = keep(map, &GRAMMAR_WORDS);
        if let Some(fields) = map.get("properties").and_then(Value::as_object) {
            let fields: Map<String, Value> =
                fields.iter().map(|(name, field)| (name.clone(), self.admit(field, references, false))).collect();
            own.insert("properties".into(), fields.into());
            own.entry("additionalProperties").or_insert(false.into());
        }
        if let Some(items) = map.get("items") {
            own.insert("items".into(), self.admit(items, references, false));
        }
        if is_root || kind == "object" || own.is_empty() {
            return own.into();
        }
        let reference = self.reference(kind, references);
        any_of(std::iter::once(own.into()).chain(reference).collect())
    }

    /// A text with references in it.
    fn text(&mut self, declared: &Map<String, Value>, references: &References<'_>) -> Value {
        let longest = to_usize(self.vocabulary.output_tokens_max / TOKENS_PER_INPUT_CHAR);
        let longest = longest.clamp(INPUT_CHARS[0], INPUT_CHARS[1]);
        let limit = |word: &str| declared.get(word).and_then(Value::as_u64).map(to_usize);
        let most = limit("maxLength").map_or(longest, |most| most.min(longest));
        let least = limit("minLength").unwrap_or(1).min(most);
        let name = format!("text{}_{least}_{most}", references.scope);
        if self.defs.contains_key(&name) {
            return reference_to(&name);
        }
        let path = self.path(&["string"], references).map(|path| format!("|{path}")).unwrap_or_default();
        self.define(&name, json!({"type": "string", "pattern": format!("^(?:{CHARACTER}{path}){{{least},{most}}}$")}))
    }

    /// A text that is one reference to an output of a type.
    fn reference(&mut self, kind: &str, references: &References<'_>) -> Option<Value> {
        let kinds: &[&str] = match kind {
            "integer" | "number" => &["integer", "number"],
            "" => &["integer", "number", "string", "boolean", "array", "object"],
            _ => &[kind],
        };
        let name = format!("reference{}_{kind}", references.scope);
        if self.defs.contains_key(&name) {
            return Some(reference_to(&name));
        }
        let path = self.path(kinds, references)?;
        Some(self.define(&name, json!({"type": "string", "pattern": format!("^{path}$")})))
    }

    /// The pattern of a reference to an output of one of the types. None when there is no such output.
    fn path(&self, kinds: &[&str], references: &References<'_>) -> Option<String> {
        let steps: Vec<&str> = references.earlier.iter().map(String::as_str).filter(|id| is_name(id)).collect();
        let outputs: Vec<String> = self.outputs(kinds).into_iter().collect();
        let (steps, outputs) = (steps.join("|"), outputs.join("|"));
        (!steps.is_empty() && !outputs.is_empty())
            .then(|| format!(r"\{{\{{ steps\.(?:{steps})\.outputs\.(?:{outputs}) \}}\}}"))
    }

    /// The outputs that actions declare with one of the types, as patterns.
    fn outputs(&self, kinds: &[&str]) -> BTreeSet<String> {
        let mut outputs = BTreeSet::new();
        for agent in &self.vocabulary.agents {
            if agent.actions.is_empty() {
                outputs.insert(ANY_OUTPUT.to_owned());
            }
            for action in &agent.actions {
                let schema = action.outputs.as_ref().map(Json::value).unwrap_or_default();
                let Some(fields) = schema.get("properties").and_then(Value::as_object) else {
                    outputs.insert(ANY_OUTPUT.to_owned());
                    continue;
                };
                for (name, field) in fields.iter().filter(|(name, _)| is_name(name)) {
                    match field.get("type").and_then(Value::as_str) {
                        Some("object" | "array") | None => outputs.insert(format!("{name}{INNER_PATH}")),
                        Some(kind) => kinds.contains(&kind) && outputs.insert(name.clone()),
                    };
                }
            }
        }
        outputs
    }

    /// What a revision can do.
    ///
    /// - `fresh`: ids of new steps.
    fn changes(&mut self, plan: &RevisedPlan, fresh: &[String]) -> Vec<Value> {
        let all = self.all;
        let new = self.step(fresh, all, "");
        let new = self.define("new_step", new);
        let texts = json!({"type": "array", "items": one_of(&plan.open), "maxItems": plan.open.len()});
        let steps = json!({"type": "array", "items": new, "minItems": 1, "maxItems": NEW_STEPS_MAX});
        let mut changes = vec![object([("add_step", object([("step", new.clone()), ("before", texts)]))])];
        if !plan.open.is_empty() {
            let open = self.define("open_step", one_of(&plan.open));
            let reason = self.description();
            let changed = self.step(&plan.open, all, "");
            let retries: Vec<Value> = self
                .works(all, "")
                .into_iter()
                .map(|[agent, action, inputs]| {
                    object([("step", open.clone()), ("agent_type", agent), ("action", action), ("inputs", inputs)])
                })
                .collect();
            changes.extend([
                object([("retry_step", any_of(retries))]),
                object([("modify_step", object([("step", changed)]))]),
                object([("replace_step", object([("step", open.clone()), ("with", steps.clone())]))]),
                object([("remove_step", object([("step", open.clone())]))]),
                object([("skip_step", object([("step", open.clone()), ("reason", reason)]))]),
            ]);
            if plan.may_nest {
                changes.push(object([("decompose_step", object([("step", open)]))]));
            }
        }
        let text = self.description();
        let phase =
            object([("id", one_of(&new_ids("phase_", &plan.phases, 1))), ("checkpoint", json!({"type": "boolean"}))]);
        let mut added = vec![("phase", phase)];
        if !plan.phases.is_empty() {
            added.push(("after", one_of(&plan.phases)));
            changes.push(object([("skip_phase", object([("phase", one_of(&plan.phases)), ("reason", text)]))]));
        }
        added.push(("steps", steps));
        changes.push(object([("add_phase", object(added))]));
        changes
    }

    /// A text for people.
    fn description(&mut self) -> Value {
        let [least, most] = DESCRIPTION_CHARS;
        match self.form {
            SchemaForm::Grammar => {
                self.define("words", json!({"type": "string", "minLength": least, "maxLength": most}))
            }
            SchemaForm::Strict | SchemaForm::Prompt => json!({"type": "string"}),
        }
    }

    /// A field that may be left out: nullable where all fields are required.
    fn optional(&self, schema: Value) -> Value {
        if self.form == SchemaForm::Strict { any_of(vec![schema, json!({"type": "null"})]) } else { schema }
    }

    fn define(&mut self, name: &str, schema: Value) -> Value {
        self.defs.insert(name.to_owned(), schema);
        reference_to(name)
    }
}

/// The steps that inputs may refer to.
struct References<'r> {
    earlier: &'r [String],
    /// Their name in definitions.
    scope: &'r str,
}

/// Keywords of an input's schema that grammars know. Annotations stand in the prompt.
const GRAMMAR_WORDS: [&str; 15] = [
    "type", "enum", "const", "format", "required", "additionalProperties", "minItems", "maxItems", "minimum",
    "maximum", "minLength", "maxLength", "anyOf", "oneOf", "allOf",
];

fn keep(map: &Map<String, Value>, words: &[&str]) -> Map<String, Value> {
    map.iter().filter(|(word, _)| words.contains(&word.as_str())).map(|(w, value)| (w.clone(), value.clone())).collect()
}

/// A schema of an input within the strict subset; none when the subset cannot say it.
fn strict(schema: &Value, is_root: bool) -> Option<Value> {
    let map = schema.as_object()?;
    let text = json!({"type": "string"});
    if let Some(values) = map.get("enum").or_else(|| map.get("const")) {
        let values = values.as_array().cloned().unwrap_or_else(|| vec![values.clone()]);
        return Some(json!({ "enum": values }));
    }
    match map.get("type")?.as_str()? {
        "string" => Some(text),
        "integer" | "number" | "boolean" => Some(any_of(vec![json!({"type": map["type"]}), text])),
        "array" => {
            let items = strict(map.get("items")?, false)?;
            Some(any_of(vec![json!({"type": "array", "items": items}), text]))
        }
        "object" if map.get("additionalProperties").is_none_or(|more| more == false) => {
            let required = map.get("required").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            let mut fields = Vec::new();
            for (name, field) in map.get("properties")?.as_object()? {
                let field = strict(field, false)?;
                let is_required = required.iter().any(|known| known == name);
                let field = if is_required { field } else { any_of(vec![field, json!({"type": "null"})]) };
                fields.push((name.as_str(), field));
            }
            let own = object(fields);
            Some(if is_root { own } else { any_of(vec![own, text]) })
        }
        _ => None,
    }
}

/// Whether a schema has references or names, which lead elsewhere when it stands inside another schema.
fn refers_to_itself(schema: &Value) -> bool {
    let text = schema.to_string();
    ["\"$ref\"", "\"$dynamicRef\"", "\"$id\"", "\"$anchor\""].iter().any(|word| text.contains(word))
}

/// Whether a text is a name that a path can hold as it is.
fn is_name(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') && text.starts_with(|c: char| !c.is_ascii_digit())
}

fn reference_to(name: &str) -> Value {
    json!({"$ref": format!("#/$defs/{name}")})
}

/// One of several texts; any text when there are none.
pub fn one_of(values: &[String]) -> Value {
    if values.is_empty() { json!({"type": "string"}) } else { json!({"type": "string", "enum": values}) }
}

/// Writes an `enum` of one value as `const`, which is shorter. Not all services know `const` in a strict schema.
fn write_constants(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            if let Some([value]) = map.get("enum").and_then(Value::as_array).map(Vec::as_slice) {
                *schema = json!({ "const": value });
            } else {
                map.values_mut().for_each(write_constants);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(write_constants),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn any_of(mut alternatives: Vec<Value>) -> Value {
    if alternatives.len() == 1 { alternatives.remove(0) } else { json!({ "anyOf": alternatives }) }
}

/// A closed object that requires all its fields, in this order.
fn object<'f>(fields: impl IntoIterator<Item = (&'f str, Value)>) -> Value {
    let fields: Map<String, Value> = fields.into_iter().map(|(name, schema)| (name.to_owned(), schema)).collect();
    let required: Vec<&String> = fields.keys().collect();
    json!({"type": "object", "required": required, "properties": fields, "additionalProperties": false})
}
