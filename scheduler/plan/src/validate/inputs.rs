//! Inputs against what actions take, and references against what actions give.
//!
//! An expression stands for a value of the type that the referenced output has, or for any value when that is not
//! declared: only what would certainly fail is an error.

use std::rc::Rc;
use std::sync::Arc;

use goalmill_common::hash::HashMap;
use goalmill_common::plan::{Plan, Step};
use goalmill_common::text::pointer_part;
use jsonschema::error::ValidationErrorKind;
use serde_json::{Map, Value};

use super::catalogue::{ActionEntry, Catalogue};
use super::graph::StepNumbers;
use super::input_schema::{Look, below, declared, look, types};
use super::names;
use super::origin::StepOrigin;
use super::path::{Mention, mentions};
use super::rules::{Rules, Weight};
use crate::document::{DocumentPath, ValidationContext, shorten};
use crate::schema::{Schema, Unusable};
use goalmill_expression::is_plain;

/// Issues of one step's inputs that are listed.
pub(super) const LISTED_MAX: usize = 20;

pub(super) fn check_inputs(
    context: &ValidationContext<'_>,
    rules: &Rules<'_>,
    catalogue: &Catalogue,
    plan: &Plan,
    origins: &[StepOrigin<'_>],
    index: &StepNumbers,
) {
    // The answer for one action serves every step that asks it.
    let mut known: HashMap<(&str, &str), Option<Rc<StepAction<'_>>>> = HashMap::default();
    let actions = plan.steps.iter().map(|step| {
        let key = (step.agent_type.as_str(), step.action.as_str());
        let found = || action_entry(catalogue, step).map(|entry| StepAction::new(context, rules, entry).into());
        known.entry(key).or_insert_with(found).clone()
    });
    let check = InputCheck { context, rules, plan, index, actions: actions.collect() };
    for (i, origin) in origins.iter().enumerate().filter(|(i, _)| !plan.steps[*i].kind.is_inline()) {
        check.step(i, origin);
    }
}

/// The one ability that will do the step; none when it is unknown.
pub(super) fn action_entry<'c>(catalogue: &'c Catalogue, step: &Step) -> Option<&'c ActionEntry> {
    let mut found = catalogue.find(step.agent_type.as_str(), &step.action);
    if found.len() == 1 { found.pop() } else { None }
}

/// An action that steps ask, with the check of its inputs.
struct StepAction<'a> {
    entry: &'a ActionEntry,
    /// None when it declares no schema.
    schema: Result<Option<Arc<Schema>>, Unusable>,
}

impl<'a> StepAction<'a> {
    /// Compiles the schema of an action while all that the plan needs are within their limit.
    fn new(context: &ValidationContext<'_>, rules: &Rules<'_>, entry: &'a ActionEntry) -> Self {
        if rules.weights.inputs == Weight::Ignore {
            return Self { entry, schema: Ok(None) };
        }
        let schema = if context.has_room_for_schemas() { entry.inputs_schema() } else { Err(too_large(context)) };
        let schema = match schema {
            Ok(Some(schema)) if !context.count_schema(schema.bytes()) => Err(too_large(context)),
            other => other,
        };
        Self { entry, schema }
    }
}

fn too_large(context: &ValidationContext<'_>) -> Unusable {
    let most = context.limits.schemas_bytes_max;
    let detail = format!("with it, the schemas that the plan needs take more than {most} bytes");
    Unusable { code: "SCHEMAS_TOO_LARGE", detail, hint: "raise `limits.schemas_bytes_max`" }
}

struct InputCheck<'a, 'l> {
    context: &'a ValidationContext<'l>,
    rules: &'a Rules<'a>,
    plan: &'a Plan,
    index: &'a StepNumbers,
    /// Of each step.
    actions: Vec<Option<Rc<StepAction<'a>>>>,
}

/// An expression in the inputs.
pub(super) struct InputPlace {
    /// JSON Pointer inside the inputs.
    pointer: String,
    /// What the text certainly is: a string with expressions in it, or a whole expression that is one path.
    value: Result<Mention, Vec<Mention>>,
}

impl InputCheck<'_, '_> {
    fn step(&self, at: usize, origin: &StepOrigin<'_>) {
        let step = &self.plan.steps[at];
        let none = Value::Object(Map::new());
        let inputs = origin.inputs.unwrap_or(&none);
        let mut places = Vec::new();
        if !is_plain(step.inputs.text()) {
            collect(inputs, &mut String::new(), &mut places);
        }
        let action = self.actions[at].as_deref();
        if let Some(action) = action {
            self.against_schema(action, step, origin, inputs, &places);
        }
        let action_entry = action.map(|action| action.entry);
        for place in &places {
            self.references(place, action_entry, origin);
        }
    }

    fn against_schema(
        &self,
        action: &StepAction<'_>,
        step: &Step,
        origin: &StepOrigin<'_>,
        inputs: &Value,
        places: &[InputPlace],
    ) {
        let action_entry = action.entry;
        let schema = match &action.schema {
            Ok(Some(schema)) => schema,
            Ok(None) => return,
            Err(unusable) => return self.unchecked(step, origin, unusable),
        };
        if is_wholly_open(inputs) {
            return;
        }
        let validator = match schema.for_value(inputs) {
            Ok(validator) => validator,
            Err(much) => {
                let detail = format!("the inputs of action `{}` cannot be checked: {much}", step.action);
                let hint = "give less, or let the agent declare a simpler schema";
                return self.weigh(Weight::Error, "INPUT_TOO_COMPLEX", origin, "", detail, hint);
            }
        };
        let mut listed = 0;
        for error in validator.iter_errors(inputs) {
            let pointer = error.instance_path().to_string();
            if is_excused(&pointer, error.kind(), places)
                || is_asked(step, &pointer, error.kind())
                || is_left_out(action_entry, &pointer, error.instance())
            {
                continue;
            }
            listed += 1;
            if listed > LISTED_MAX {
                return;
            }
            self.mismatch(action_entry, step, origin, &pointer, &error);
        }
    }

    /// The card of an agent was not registered through the API, or by an older version.
    fn unchecked(&self, step: &Step, origin: &StepOrigin<'_>, unusable: &Unusable) {
        let detail = format!("the input schema of action `{}` is not used: {}", step.action, unusable.detail);
        let hint = "correct the schema in the agent's registration; until then inputs are not checked";
        self.weigh(Weight::Warning, "AGENT_SCHEMA_UNUSABLE", origin, "", detail, hint);
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the library has many kinds; two have words of their own")]
    fn mismatch(
        &self,
        action_entry: &ActionEntry,
        step: &Step,
        origin: &StepOrigin<'_>,
        pointer: &str,
        error: &jsonschema::ValidationError<'_>,
    ) {
        let weigh = |code: &str, below: &str, detail: String, hint: String| {
            self.weigh(self.rules.weights.inputs, code, origin, &format!("{pointer}{below}"), detail, &hint);
        };
        match error.kind() {
            ValidationErrorKind::Required { property } => {
                let name = property.as_str().unwrap_or_default();
                let detail = format!("action `{}` needs the input `{}`", step.action, shorten(name));
                let below = format!("/{}", pointer_part(name));
                weigh("INPUT_MISSING", &below, detail, format!("give `{}`", shorten(name)));
            }
            ValidationErrorKind::AdditionalProperties { unexpected } => {
                let known =
                    action_entry.inputs.as_ref().and_then(|s| s.pointer("/properties")).and_then(Value::as_object);
                for name in unexpected {
                    let near = known.and_then(|known| nearest(name, known.keys()));
                    let hint = near.map_or("remove it".to_owned(), |near| format!("did you mean `{near}`?"));
                    let detail = format!("action `{}` has no input `{}`", step.action, shorten(name));
                    weigh("INPUT_UNKNOWN", &format!("/{}", pointer_part(name)), detail, hint);
                }
            }
            _ => {
                let text = error.to_string();
                let detail = format!("action `{}` does not take this: {}", step.action, shorten(&text));
                weigh("INPUT_INVALID", "", detail, "give what the action's schema asks for".to_owned());
            }
        }
    }

    fn references(&self, place: &InputPlace, action_entry: Option<&ActionEntry>, origin: &StepOrigin<'_>) {
        let (mentions, is_whole) = match &place.value {
            Ok(whole) => (std::slice::from_ref(whole), true),
            Err(parts) => (parts.as_slice(), false),
        };
        for mention in mentions.iter().filter(|m| m.path.first().is_none_or(|field| field == "outputs")) {
            let Some(source) = self.index.get(mention.step.as_str()).map(|source| *source as usize) else { continue };
            if self.plan.steps[source].for_each.is_some() {
                // Its outputs are a list of what its action gives.
                continue;
            }
            let giver = self.actions[source].as_deref().map(|action| action.entry);
            let own = self.plan.steps[source].output_schema.as_ref().map(goalmill_common::json::Json::value);
            let declared = own.as_ref().or_else(|| giver.and_then(|giver| giver.outputs.as_ref()));
            let path = mention.path.get(1..).unwrap_or_default();
            let found = declared.map_or(Look::Unknown, |schema| look(schema, path));
            self.judge(&found, action_entry, origin, place, mention, is_whole);
        }
    }

    fn judge(
        &self,
        found: &Look<'_>,
        action_entry: Option<&ActionEntry>,
        origin: &StepOrigin<'_>,
        place: &InputPlace,
        mention: &Mention,
        is_whole: bool,
    ) {
        match found {
            Look::Unknown | Look::Missing { .. } => {}
            Look::Types(schema) => {
                let Some(wanted) = action_entry.and_then(|a| a.inputs.as_ref()) else { return };
                let Some(wanted) = is_whole.then(|| below(wanted, &place.pointer)).flatten() else { return };
                let (gives, takes) = (types(schema), types(wanted));
                if gives.iter().any(|g| takes.contains(g)) {
                    return;
                }
                let detail = format!(
                    "step `{}` gives {} here, the action takes {}",
                    mention.step,
                    gives.join(" or "),
                    takes.join(" or ")
                );
                let hint = "refer to an output of that type, or convert it";
                self.weigh(self.rules.weights.outputs, "TYPE_MISMATCH", origin, &place.pointer, detail, hint);
            }
        }
    }

    /// Adds a warning about a place in the inputs, a JSON Pointer inside them.
    fn weigh(&self, weight: Weight, code: &str, origin: &StepOrigin<'_>, pointer: &str, detail: String, hint: &str) {
        origin.with_key(origin.inputs_key, |at| {
            let pointer = format!("{}{pointer}", at.pointer());
            self.context.weigh(weight, code, &DocumentPath::Pointer(&pointer), detail, hint);
        });
    }
}

/// The name that was probably meant: a slip of it, or one with the same words.
pub(super) fn nearest<'a, S: AsRef<str> + ?Sized + 'a>(
    given: &str,
    among: impl Iterator<Item = &'a S> + Clone,
) -> Option<&'a str> {
    if let Some(slip) = goalmill_common::suggest::nearest(given, among.clone().map(AsRef::as_ref)) {
        return Some(slip);
    }
    let scored = among.map(|name| (names::alike(given, name.as_ref()), name.as_ref())).filter(|(s, _)| *s >= 0.4);
    scored.max_by(|a, b| a.0.total_cmp(&b.0).then_with(|| b.1.cmp(a.1))).map(|(_, name)| name)
}

pub(super) fn collect(value: &Value, at: &mut String, places: &mut Vec<InputPlace>) {
    let depth = at.len();
    match value {
        Value::String(text) if !is_plain(text) => {
            let mut found = mentions(text);
            let value = match found.pop() {
                Some(only) if only.is_whole => Ok(only),
                Some(last) => {
                    found.push(last);
                    Err(found)
                }
                None => Err(found),
            };
            places.push(InputPlace { pointer: at.clone(), value });
        }
        Value::Array(items) => items.iter().enumerate().for_each(|(i, item)| {
            at.push_str(&format!("/{i}"));
            collect(item, at, places);
            at.truncate(depth);
        }),
        Value::Object(map) => map.iter().for_each(|(key, item)| {
            at.push('/');
            at.push_str(&pointer_part(key));
            collect(item, at, places);
            at.truncate(depth);
        }),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Inputs that are one expression can be anything.
pub(super) fn is_wholly_open(inputs: &Value) -> bool {
    inputs.as_str().is_some_and(|text| !is_plain(text))
}

/// `null` for a field that need not be given says that it is not. Where the schema does not say for certain whether
/// the field is needed, `null` is a value like any other.
fn is_left_out(action_entry: &ActionEntry, pointer: &str, instance: &Value) -> bool {
    let Some((outer, name)) = pointer.rsplit_once('/').filter(|_| instance.is_null()) else { return false };
    let Some(root) = action_entry.inputs.as_ref() else { return false };
    let Some(object) = declared(root, outer) else { return false };
    let branches = ["$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if", "dependentRequired", "dependencies"];
    let is_field = object.get("properties").is_some() && !branches.iter().any(|word| object.get(word).is_some());
    if !outer.is_empty() && !is_field {
        return false;
    }
    let name = name.replace("~1", "/").replace("~0", "~");
    let required = object.get("required").and_then(Value::as_array);
    !required.is_some_and(|required| required.iter().any(|known| *known == name))
}

/// Whether an error may only come from an expression standing where its value will stand.
#[expect(clippy::wildcard_enum_match_arm, reason = "the library has many kinds; most of them go the same way")]
pub(super) fn is_excused(pointer: &str, kind: &ValidationErrorKind, places: &[InputPlace]) -> bool {
    let stands_here = places.iter().any(|place| place.pointer == pointer);
    let stands_below =
        places.iter().any(|place| place.pointer.strip_prefix(pointer).is_some_and(|rest| rest.starts_with('/')));
    match kind {
        // What is missing stays missing, what is too much stays too much.
        ValidationErrorKind::Required { .. }
        | ValidationErrorKind::AdditionalProperties { .. }
        | ValidationErrorKind::MaxItems { .. }
        | ValidationErrorKind::MinItems { .. }
        | ValidationErrorKind::MaxProperties { .. }
        | ValidationErrorKind::MinProperties { .. }
        | ValidationErrorKind::FalseSchema => stands_here,
        // A list with an expression in it is a list all the same.
        ValidationErrorKind::Type { .. } => stands_here,
        _ => stands_here || stands_below,
    }
}

/// Whether the answer of a person stands there when the step starts.
pub(super) fn is_asked(step: &Step, pointer: &str, kind: &ValidationErrorKind) -> bool {
    let Some(ask) = &step.ask else { return false };
    match (pointer.split('/').nth(1), kind) {
        (None, ValidationErrorKind::Required { property }) => property.as_str().is_some_and(|input| ask.gives(input)),
        (Some(input), _) => ask.gives(&input.replace("~1", "/").replace("~0", "~")),
        (None, _) => false,
    }
}
