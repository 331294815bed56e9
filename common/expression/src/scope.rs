//! The scope of an expression: the goal, the inputs of the plan, and the steps its text names.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use goalmill_common::blob_ref;
use goalmill_common::clock::rfc3339;
use goalmill_common::failure::Failure;
use goalmill_common::goal::{Goal, INPUTS};
use goalmill_common::json::{Json, json_bytes};
use goalmill_common::status::StepStatus;
use goalmill_common::suggest::nearest;
use goalmill_common::text;
use minijinja::value::Serde;
use minijinja::{Error, ErrorKind, Value};
use serde_json::{Value as JsonValue, json};

use crate::ExpressionError;
use crate::meter::{Metered, WorkMeter};
use crate::payload::{NeededPayload, Payloads};
use crate::scan::{Scan, SeenPath};

/// A step as an expression sees it.
#[derive(Clone, Copy, Debug)]
pub struct ScopedStep<'a> {
    pub status: StepStatus,
    /// Those of a completed step; seen as an empty object when missing.
    pub outputs: Option<&'a Json>,
    /// Whether the outputs are incomplete.
    pub partial: bool,
    /// Why it failed.
    pub failure: Option<&'a Failure>,
}

/// Where expressions look things up. Making one costs nothing; outputs are parsed only when a text names them.
pub struct Scope<'a> {
    goal: &'a Goal,
    steps: &'a dyn Fn(&str) -> Option<ScopedStep<'a>>,
    payloads: Option<&'a Payloads>,
    locals: &'a [(&'a str, Json)],
    now_ms: u64,
    meter: Metered<'a>,
}

impl<'a> Scope<'a> {
    /// - `steps`: finds a step by its id.
    pub fn new(goal: &'a Goal, steps: &'a dyn Fn(&str) -> Option<ScopedStep<'a>>) -> Self {
        Self { goal, steps, payloads: None, locals: &[], now_ms: 0, meter: Metered::default() }
    }

    /// The same, with stored payloads that are loaded.
    #[must_use]
    pub fn with_payloads(self, payloads: Option<&'a Payloads>) -> Self {
        Self { payloads, ..self }
    }

    /// The same, with values of other names, such as the `item` of a map; `inputs`, where they are those of a step.
    #[must_use]
    pub fn with_locals(self, locals: &'a [(&'a str, Json)]) -> Self {
        Self { locals, ..self }
    }

    /// The same, with the time that `now` is, in Unix milliseconds.
    #[must_use]
    pub fn with_now(self, now_ms: u64) -> Self {
        Self { now_ms, ..self }
    }

    /// The same; the work of its expressions is counted.
    #[must_use]
    pub fn with_meter(self, meter: &'a WorkMeter) -> Self {
        Self { meter: Metered(Some(meter)), ..self }
    }

    /// What counts the work of its expressions.
    pub(crate) fn meter(&self) -> Metered<'a> {
        self.meter
    }

    /// Counts what it takes to read a text and the values that it sees.
    pub(crate) fn count(&self, text: &str, scan: &Scan) -> Result<(), ExpressionError> {
        if self.meter.0.is_none() {
            return Ok(());
        }
        let goal = if scan.uses_goal { json_bytes(self.goal) } else { 0 };
        self.meter.count_text(text, scan.passed_on.is_some(), self.bytes(scan).saturating_add(goal))
    }

    /// What a text may use besides `goal` and `steps`.
    pub(crate) fn names(&self) -> Vec<&'a str> {
        self.locals.iter().map(|(name, _)| *name).collect()
    }

    /// The value of a name other than `steps` and `goal`.
    fn named(&self, name: &str) -> Option<Cow<'a, Json>> {
        match self.locals.iter().find(|(local, _)| *local == name) {
            Some((_, value)) => Some(Cow::Borrowed(value)),
            None if name == INPUTS => {
                Some(Cow::Owned(self.goal.metadata.get(INPUTS).map(Json::from_value).unwrap_or_default()))
            }
            None => None,
        }
    }

    /// What a text uses besides `steps`, `goal` and `now`.
    fn used<'n>(&self, scan: &'n Scan) -> impl Iterator<Item = (&'n str, Cow<'a, Json>)> {
        let names: BTreeSet<&str> =
            scan.used_locals.iter().map(String::as_str).chain(scan.uses_inputs.then_some(INPUTS)).collect();
        names.into_iter().filter_map(|name| Some((name, self.named(name)?)))
    }

    pub(crate) fn knows(&self, step: &str) -> bool {
        (self.steps)(step).is_some()
    }

    /// Bytes of the outputs that a text sees.
    pub(crate) fn bytes(&self, scan: &Scan) -> usize {
        let bytes = |step: &str| (self.steps)(step)?.outputs.map(|outputs| outputs.text().len());
        let steps: BTreeSet<&str> = scan.refs.iter().map(|seen| seen.step.as_str()).collect();
        let named = self.used(scan).map(|(_, value)| value.text().len());
        steps.into_iter().filter_map(bytes).sum::<usize>() + named.sum::<usize>()
    }

    /// What a path ends at, as it stands in the log: a stored payload is its reference. `None`: the path ends early.
    pub(crate) fn stored_value(&self, parts: &[String]) -> Option<JsonValue> {
        let (root, rest) = match parts.split_first()? {
            (root, rest) if root == "goal" => (serde_json::to_value(self.goal).ok()?, rest),
            (root, rest) if root != "steps" => (self.named(root)?.value(), rest),
            (_, rest) => {
                let (id, rest) = rest.split_first()?;
                let step = (self.steps)(id)?;
                match rest.split_first() {
                    Some((field, rest)) if field == "outputs" => (outputs_of(step).value(), rest),
                    _ => {
                        let (status, partial) = (step.status.as_str(), step.partial);
                        let (outputs, failure) = (outputs_of(step).value(), failure_of(step));
                        (json!({"status": status, "outputs": outputs, "partial": partial, "failure": failure}), rest)
                    }
                }
            }
        };
        let mut place = &root;
        for part in rest {
            if blob_ref::key(place).is_some() {
                return None;
            }
            place = match place {
                JsonValue::Array(items) => items.get(part.parse::<usize>().ok()?)?,
                JsonValue::Object(fields) => fields.get(part)?,
                JsonValue::Null | JsonValue::Bool(_) | JsonValue::Number(_) | JsonValue::String(_) => return None,
            };
        }
        Some(place.clone())
    }

    /// Says where a path ends early, and what would help; `None` when it does not.
    pub(crate) fn early_end(&self, path: &SeenPath) -> Option<String> {
        let parts = &path.parts;
        let missing = (1..=parts.len()).find(|end| self.stored_value(&parts[..*end]).is_none() && *end > 1)?;
        let whole = self.stored_value(&parts[..missing - 1]);
        if whole.as_ref().is_some_and(|value| blob_ref::key(value).is_some()) {
            return None;
        }
        let (above, name, all) = (shown_path(&parts[..missing - 1]), &parts[missing - 1], shown_path(parts));
        if name == "length" || name == "size" {
            return Some(format!("`{above}` has no `{name}`; write `{above} | length`"));
        }
        let skipped = parts.get(1).and_then(|id| (self.steps)(id)).filter(|step| step.outputs.is_none());
        let known = match (whole, skipped) {
            (_, Some(step)) if parts[0] == "steps" => format!(": the step is {}", step.status),
            (Some(JsonValue::Object(fields)), _) => match nearest(name, fields.keys().map(String::as_str)) {
                Some(near) => format!("; did you mean `{near}`?"),
                None => listed(fields.keys()),
            },
            (Some(JsonValue::Null), _) => ", which is null".into(),
            _ => String::new(),
        };
        Some(format!("there is no `{name}` in `{above}`{known}; if it may be missing, write `{all} | default(…)`"))
    }

    /// What a text sees, and the stored payloads in it, each with whether it is loaded.
    pub(crate) fn context(&self, scan: &Scan) -> Result<(Value, Vec<(NeededPayload, bool)>), ExpressionError> {
        let mut seen: BTreeMap<&str, bool> = BTreeMap::new();
        for r in &scan.refs {
            *seen.entry(&r.step).or_default() |= !matches!(r.field.as_deref(), Some("status" | "partial" | "failure"));
        }
        let mut resolver = Resolver { scan, payloads: self.payloads, used: Vec::new() };
        let mut steps = Vec::with_capacity(seen.len());
        for (id, with_outputs) in seen {
            let Some(step) = (self.steps)(id) else {
                return Err(ExpressionError::new("REF_UNRESOLVED", format!("unknown step `{id}`")));
            };
            let outputs = match step.outputs {
                Some(json) if with_outputs => resolver.value(json, &["steps", id, "outputs"]),
                _ => Value::from_pairs(std::iter::empty::<(&str, Value)>()),
            };
            let status = Value::from(step.status.as_str());
            let (partial, failure) = (Value::from(step.partial), Value::from(Serde(failure_of(step))));
            let fields = [("status", status), ("outputs", outputs), ("partial", partial), ("failure", failure)];
            steps.push((id.to_owned(), Value::from_pairs(fields)));
        }
        let goal =
            if scan.uses_goal { resolver.value(&Json::from_value(self.goal), &["goal"]) } else { Value::from(()) };
        let mut seen = vec![("steps", Value::from_pairs(steps)), ("goal", goal)];
        if scan.uses_now {
            seen.push(("now", Value::from(rfc3339(self.now_ms))));
        }
        for (name, value) in self.used(scan) {
            seen.push((name, resolver.value(&value, &[name])));
        }
        Ok((Value::from_pairs(seen), resolver.used))
    }
}

/// The names that there are, unless there are many.
fn listed<'n>(names: impl Iterator<Item = &'n String>) -> String {
    let names: Vec<String> = names.take(6).map(|name| format!("`{}`", text::shorten(name, 40))).collect();
    if names.is_empty() || names.len() > 5 { String::new() } else { format!(", which has {}", names.join(", ")) }
}

/// What is seen of a failure: class, code and message; `null` without one.
fn failure_of(step: ScopedStep<'_>) -> JsonValue {
    let seen = |failure: &Failure| json!({"class": failure.class, "code": failure.code, "message": failure.message});
    step.failure.map(seen).unwrap_or_default()
}

fn outputs_of(step: ScopedStep<'_>) -> Json {
    step.outputs.cloned().unwrap_or_default()
}

/// Puts stored payloads in the place of their references.
struct Resolver<'r> {
    scan: &'r Scan,
    payloads: Option<&'r Payloads>,
    used: Vec<(NeededPayload, bool)>,
}

impl Resolver<'_> {
    fn value(&mut self, json: &Json, at: &[&str]) -> Value {
        let value = json.value();
        if !blob_ref::may_contain(json) {
            return Value::from(Serde(value));
        }
        let mut path: Vec<String> = at.iter().map(|part| (*part).to_owned()).collect();
        self.convert(&value, &mut path)
    }

    fn convert(&mut self, value: &JsonValue, path: &mut Vec<String>) -> Value {
        if let Some(key) = blob_ref::key(value) {
            return self.payload(key, value, path);
        }
        let mut below = |part: String, value: &JsonValue| {
            path.push(part);
            let converted = self.convert(value, path);
            path.pop();
            converted
        };
        match value {
            JsonValue::Array(items) => {
                items.iter().enumerate().map(|(n, item)| below(n.to_string(), item)).collect::<Vec<_>>().into()
            }
            JsonValue::Object(fields) => {
                let pairs = fields.iter().map(|(name, field)| (name.clone(), below(name.clone(), field)));
                Value::from_pairs(pairs.collect::<Vec<_>>())
            }
            JsonValue::Null | JsonValue::Bool(_) | JsonValue::Number(_) | JsonValue::String(_) => {
                Value::from(Serde(value))
            }
        }
    }

    fn payload(&mut self, key: &str, reference: &JsonValue, path: &[String]) -> Value {
        let shown = shown_path(path);
        if !self.is_read(path) {
            // No path of the text leads here.
            return Error::new(ErrorKind::InvalidOperation, format!("`{shown}` is stored and not loaded")).into();
        }
        let loaded = self.payloads.and_then(|payloads| payloads.get(key));
        let bytes = loaded.map_or_else(|| blob_ref::bytes(reference), |payload| payload.bytes());
        self.used.push((NeededPayload { path: shown, key: key.to_owned(), bytes }, loaded.is_some()));
        loaded.map_or(Value::UNDEFINED, |payload| payload.value())
    }

    /// Whether a path of the text leads to the place, through it, or ends above it.
    fn is_read(&self, path: &[String]) -> bool {
        self.scan.paths.iter().any(|seen| seen.parts.iter().zip(path).all(|(a, b)| a == b))
    }
}

/// A path as it is written in an expression.
fn shown_path(path: &[String]) -> String {
    let mut shown = path[0].clone();
    for part in &path[1..] {
        let is_name = part.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if is_name {
            shown.push('.');
            shown.push_str(part);
        } else if part.parse::<usize>().is_ok() {
            shown.push_str(&format!("[{part}]"));
        } else {
            shown.push_str(&format!("['{part}']"));
        }
    }
    shown
}
