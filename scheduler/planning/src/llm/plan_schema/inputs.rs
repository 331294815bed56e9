//! The inputs of actions: what texts may refer to in a grammar, and the strict subset.

use std::collections::{BTreeMap, BTreeSet};

use goalmill_common::number::to_usize;
use goalmill_common::planning::PlanFeature;
use goalmill_llm::SchemaForm;
use serde_json::{Map, Value, json};

use super::Detail;
use super::actions::OutputPaths;
use super::builder::{Builder, EarlierSteps, Sight};
use super::schema_parts::{alternatives, any_of, is_name, nullable, object, open_object, reference_to};

/// Tokens of the longest answer for each character of a text of an input: one text is at most about a twentieth of it.
const TOKENS_PER_INPUT_CHAR: u64 = 8;
/// Bounds of the characters of a text of an input. Servers refuse longer repetitions in grammars.
pub(super) const INPUT_CHARS: [usize; 2] = [60, 500];
/// References in one text of an input.
const REFERENCES_MAX: usize = 4;
/// A character of a JSON text without braces: itself or an escape.
pub(super) const CHARACTER: &str = r#"[^{}"\\\x00-\x1f]|\\["\\/bfnrt]"#;
/// What a loop begins with: an output or a text. It is short, because the pattern of each text repeats it.
const FIRST: &str = r#"(?:steps\.[a-z0-9_]{1,60}\.outputs(?:\.[a-zA-Z0-9_]{1,30}){1,3}|'[^'{}"\\\x00-\x1f]{0,60}')"#;
/// The item of a map, in its own fields and in the plan inside it.
const ITEM: &str = r"item";
const ITEM_INSIDE: &str = r"goal\.metadata\.inputs\.item";
/// A field of an item.
const ITEM_FIELD: &str = r"(?:\.[a-zA-Z_][a-zA-Z0-9_]{0,30})?";

impl Builder<'_> {
    /// The inputs of an action; any where nothing is known of them.
    pub(super) fn inputs(&mut self, at: usize, earlier: EarlierSteps<'_>) -> Value {
        if self.detail >= Detail::OpenInputs {
            return open_object();
        }
        let Some(schema) = &self.works[at].inputs else { return open_object() };
        let is_own = self.has_positions() || matches!(earlier.sight, Sight::Undo | Sight::Inside);
        let earlier = if is_own { earlier } else { EarlierSteps { sight: earlier.sight, ..self.all() } };
        let earlier = if self.form == SchemaForm::Grammar { earlier } else { self.all() };
        let name = format!("in{at}_{}", earlier.name());
        if self.defs.contains_key(&name) {
            return reference_to(&name);
        }
        let inputs = match self.form {
            SchemaForm::Grammar => self.admit(schema, earlier, true),
            SchemaForm::Strict | SchemaForm::Prompt => strict_inputs(schema),
        };
        self.define(&name, inputs)
    }

    /// A schema of an input for a grammar: closed objects, and a reference in place of each value.
    fn admit(&mut self, schema: &Value, earlier: EarlierSteps<'_>, is_root: bool) -> Value {
        let Some(map) = schema.as_object() else { return schema.clone() };
        let kind = map.get("type").and_then(Value::as_str).unwrap_or_default();
        let is_limited = ["enum", "const", "format", "pattern"].iter().any(|word| map.contains_key(*word));
        if kind == "string" && !is_limited {
            return self.text(map, earlier);
        }
        let mut own = keep(map, &GRAMMAR_WORDS);
        if let Some(fields) = map.get("properties").and_then(Value::as_object) {
            let fields: Map<String, Value> =
                fields.iter().map(|(name, field)| (name.clone(), self.admit(field, earlier, false))).collect();
            own.insert("properties".into(), fields.into());
            own.entry("additionalProperties").or_insert(false.into());
        }
        if let Some(items) = map.get("items") {
            own.insert("items".into(), self.admit(items, earlier, false));
        }
        if is_root || kind == "object" || own.is_empty() {
            return own.into();
        }
        let reference = self.reference(kind, earlier);
        any_of(std::iter::once(own.into()).chain(reference).collect())
    }

    /// A text with references in it.
    pub(super) fn text(&mut self, declared: &Map<String, Value>, earlier: EarlierSteps<'_>) -> Value {
        let longest = to_usize(self.vocabulary.output_tokens_max / TOKENS_PER_INPUT_CHAR);
        let longest = longest.clamp(INPUT_CHARS[0], INPUT_CHARS[1]);
        let limit = |word: &str| declared.get(word).and_then(Value::as_u64).map(to_usize);
        let most = limit("maxLength").map_or(longest, |most| most.min(longest));
        let least = limit("minLength").unwrap_or(1).min(most);
        let name = format!("text{}_{least}_{most}", earlier.name());
        if self.defs.contains_key(&name) {
            return reference_to(&name);
        }
        let mut pattern = format!("(?:{CHARACTER}){{{least},{most}}}");
        if let Some(path) = self.path("string", earlier) {
            // A small model may write one reference after the other until its answer is cut off.
            let most = (most / (REFERENCES_MAX + 1)).max(1);
            let between = |least: usize| format!("(?:{CHARACTER}){{{least},{most}}}");
            let parts = |before: &str, path: &str| format!("(?:{before}{path}){{1,{REFERENCES_MAX}}}{}", between(0));
            // A value of any type is a text as soon as text stands before it.
            let any = self.path("", earlier).map(|any| format!("|{}", parts(&between(1), &any))).unwrap_or_default();
            pattern = format!("(?:{pattern}|{}{any})", parts(&between(0), &path));
        }
        self.define(&name, json!({"type": "string", "pattern": format!("^{pattern}$")}))
    }

    /// A text that is one reference to an output of a type.
    pub(super) fn reference(&mut self, kind: &str, earlier: EarlierSteps<'_>) -> Option<Value> {
        let name = format!("reference{}_{kind}", earlier.name());
        if self.defs.contains_key(&name) {
            return Some(reference_to(&name));
        }
        let path = self.path(kind, earlier)?;
        Some(self.define(&name, json!({"type": "string", "pattern": format!("^{path}$")})))
    }

    /// A condition about earlier steps. None when there are none.
    pub(super) fn condition(&mut self, earlier: EarlierSteps<'_>) -> Option<Value> {
        let conditions = self.outputs_of_earlier(earlier, &OutputPaths::conditions)?;
        let pattern = format!("^(?:not )?{conditions}$");
        Some(self.define(&format!("c{}", earlier.name()), json!({"type": "string", "pattern": pattern})))
    }

    /// The pattern of a reference to a value of a type. None when there is no such value.
    ///
    /// - `kind`: an empty one is any type.
    fn path(&self, kind: &str, earlier: EarlierSteps<'_>) -> Option<String> {
        let paths = |outputs: &OutputPaths| match kind {
            "integer" | "number" => outputs.paths(&["integer", "number"]),
            "" => outputs.paths(&["integer", "number", "string", "boolean", "array", "object"]),
            _ => outputs.paths(&[kind]),
        };
        let own = || {
            let own: BTreeSet<String> = self.works.iter().flat_map(|work| paths(&work.outputs)).collect();
            (!own.is_empty()).then(|| alternatives(own.into_iter().collect()))
        };
        let steps = self.outputs_of_earlier(earlier, &paths);
        let item = |path: &str| format!("{path}{}", if self.has_object_items() { ITEM_FIELD } else { "" });
        let seen = match earlier.sight {
            Sight::Undo => own().map(|own| format!("outputs{own}")),
            Sight::Item => Some(item(ITEM)),
            Sight::Inside => Some(item(ITEM_INSIDE)),
            Sight::Steps if self.has(PlanFeature::Loops) && kind == "string" => {
                own().map(|own| format!(r"previous\.outputs{own} \| default\({FIRST}\)"))
            }
            Sight::Steps => None,
        };
        let all: Vec<String> = steps.into_iter().chain(seen).collect();
        (!all.is_empty()).then(|| format!(r"\{{\{{ {} \}}\}}", alternatives(all)))
    }

    /// The pattern of what stands behind `outputs` of an earlier step, with the step.
    fn outputs_of_earlier(
        &self,
        earlier: EarlierSteps<'_>,
        what: &dyn Fn(&OutputPaths) -> Vec<String>,
    ) -> Option<String> {
        let group = |steps: &[(String, OutputPaths)]| {
            let mut by_outputs: BTreeMap<String, Vec<String>> = BTreeMap::new();
            for (id, outputs) in steps.iter().filter(|(id, _)| is_name(id)) {
                let paths = what(outputs);
                if !paths.is_empty() {
                    by_outputs.entry(alternatives(paths)).or_default().push(id.clone());
                }
            }
            let each = |(outputs, ids): (String, Vec<String>)| format!(r"{}\.outputs{outputs}", alternatives(ids));
            by_outputs.into_iter().map(each).collect::<Vec<_>>()
        };
        let mut steps = if earlier.sees_known() { group(self.known) } else { Vec::new() };
        if !earlier.fresh.is_empty() && self.has_typed_ids() {
            let typed = group(&self.kinds_of_steps(earlier.sight));
            if !typed.is_empty() {
                steps.push(format!("{}_{}", alternatives(earlier.fresh.to_vec()), alternatives(typed)));
            }
        }
        (!steps.is_empty()).then(|| format!(r"steps\.{}", alternatives(steps)))
    }
}

/// Keywords of an input's schema that grammars know. Annotations stand in the prompt.
const GRAMMAR_WORDS: [&str; 15] = [
    "type", "enum", "const", "format", "required", "additionalProperties", "minItems", "maxItems", "minimum",
    "maximum", "minLength", "maxLength", "anyOf", "oneOf", "allOf",
];

fn keep(map: &Map<String, Value>, words: &[&str]) -> Map<String, Value> {
    map.iter().filter(|(word, _)| words.contains(&word.as_str())).map(|(w, value)| (w.clone(), value.clone())).collect()
}

/// The schema of inputs within the strict subset, which has no object of any fields.
fn strict_inputs(schema: &Value) -> Value {
    let is_open = schema.get("additionalProperties").is_some_and(|more| more != false);
    if is_open { open_object() } else { strict_object(schema) }
}

fn strict_object(schema: &Value) -> Value {
    let required = schema.get("required").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let field = |(name, field): (&String, &Value)| {
        let field = strict_value(field);
        let is_required = required.iter().any(|known| known == name);
        (name.clone(), if is_required { field } else { nullable(field) })
    };
    let fields: Vec<(String, Value)> =
        schema.get("properties").and_then(Value::as_object).into_iter().flatten().map(field).collect();
    object(fields.iter().map(|(name, field)| (name.as_str(), field.clone())))
}

/// A value, or a reference to one.
fn strict_value(schema: &Value) -> Value {
    if let Some(values) = schema.get("enum").or_else(|| schema.get("const")) {
        let values = values.as_array().cloned().unwrap_or_else(|| vec![values.clone()]);
        return json!({ "enum": values });
    }
    let any = json!(["number", "boolean"]);
    let kinds = schema.get("type").unwrap_or(&any);
    let kinds = kinds.as_array().cloned().unwrap_or_else(|| vec![kinds.clone()]);
    let value = |kind: &Value| match kind.as_str() {
        Some("integer" | "number" | "boolean" | "null") => Some(json!({ "type": kind })),
        Some("array") => {
            let items = schema.get("items").map_or_else(|| json!({"type": "string"}), strict_value);
            Some(json!({"type": "array", "items": items}))
        }
        Some("object") if schema.get("properties").is_some_and(Value::is_object) => Some(strict_object(schema)),
        _ => None,
    };
    any_of(kinds.iter().filter_map(value).chain([json!({"type": "string"})]).collect())
}
