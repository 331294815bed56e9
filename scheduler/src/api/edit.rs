//! Parses an edit: a list of changes, or the whole new plan. Steps may be spelled as in a plan.

use std::collections::{BTreeMap, BTreeSet};

use goalmill_common::plan::{Phase, Plan, Step};
use goalmill_common::problem::{ErrorCode, Issue, Problem};
use goalmill_common::revision::Change;
use goalmill_engine::{PlanState, revise};
use goalmill_plan::validate::{self, Policy};
use goalmill_planning::route_changes;
use serde_json::{Map, Value, json};

use super::Api;
use super::response::ApiError;

/// Fields of a plan that an edit may change.
const EDITABLE: [&str; 2] = ["steps", "phases"];

/// The changes of an edit, and their places in the request.
pub(super) struct ParsedEdit {
    pub(super) changes: Vec<Change>,
    pub(super) places: RequestPointers,
}

/// The places of changes and steps in the request, as JSON Pointers.
#[derive(Default)]
pub(super) struct RequestPointers {
    changes: Vec<String>,
    steps: BTreeMap<String, String>,
}

impl RequestPointers {
    /// Points the issues of an error into the request.
    pub(super) fn locate(&self, ApiError(mut problem): ApiError) -> ApiError {
        for issue in &mut problem.errors {
            let mut parts = issue.pointer.splitn(4, '/').skip(1);
            let (Some(list), Some(name), rest) = (parts.next(), parts.next(), parts.next()) else { continue };
            let found = match list {
                "changes" => name.parse::<usize>().ok().and_then(|n| self.changes.get(n)),
                "steps" => self.steps.get(name),
                _ => None,
            };
            if let Some(place) = found {
                issue.pointer = rest.map_or_else(|| place.clone(), |rest| format!("{place}/{rest}"));
            }
        }
        ApiError(problem)
    }
}

/// Renumbers the changes of an error, after the `first` changes of a proposed revision.
pub(super) fn renumber_after(ApiError(mut problem): ApiError, first: usize) -> ApiError {
    for issue in &mut problem.errors {
        let Some(rest) = issue.pointer.strip_prefix("/changes/") else { continue };
        let (n, rest) = rest.split_once('/').map_or((rest, ""), |(n, rest)| (n, rest));
        let Ok(n) = n.parse::<usize>() else { continue };
        let place = if n < first { format!("/proposal/changes/{n}") } else { format!("/changes/{}", n - first) };
        issue.pointer = if rest.is_empty() { place } else { format!("{place}/{rest}") };
    }
    ApiError(problem)
}

/// Parses the changes of a request to the current plan.
pub(super) fn parse_edit(
    api: &Api,
    at: &PlanState,
    plan: Option<&Value>,
    listed: &[Value],
) -> Result<ParsedEdit, ApiError> {
    let live = revise::live_plan(at);
    let phases = json!(live.phases).as_array().cloned().unwrap_or_default();
    let phases = phases.into_iter().chain(listed.iter().filter_map(added_phase)).collect();
    let context = EditContext { live, phases, api };
    let live = &context.live;
    let mut edited = match plan {
        Some(_) if !listed.is_empty() => {
            let hint = "send either `changes` or `plan`";
            return Err(refused(vec![issue("CONFLICT", "/plan", "the body has both `changes` and `plan`", hint)]));
        }
        Some(plan) => context.diff_plan(plan)?,
        None => context.parse_changes(listed)?,
    };
    route_edit(api, live, &mut edited)?;
    Ok(edited)
}

/// The phase that a change adds.
fn added_phase(change: &Value) -> Option<Value> {
    let mut change = change.clone();
    validate::canonical_phase_change(&mut change);
    change.pointer("/add_phase/phase").cloned()
}

/// The plan that is edited.
struct EditContext<'a> {
    live: Plan,
    /// Its phases, and those that the edit adds.
    phases: Value,
    api: &'a Api,
}

impl EditContext<'_> {
    fn parse_changes(&self, listed: &[Value]) -> Result<ParsedEdit, ApiError> {
        let (mut changes, mut issues, mut places) = (Vec::new(), Vec::new(), RequestPointers::default());
        let added: Vec<&str> = listed.iter().filter_map(|c| c.pointer("/add_step/step/id")?.as_str()).collect();
        for (n, value) in listed.iter().enumerate() {
            let place = format!("/changes/{n}");
            match self.parse_change(value, &added, &place) {
                Ok(change) => changes.push(change),
                Err(wrong) => issues.extend(wrong),
            }
            places.changes.push(place);
        }
        if issues.is_empty() { Ok(ParsedEdit { changes, places }) } else { Err(refused(issues)) }
    }

    /// One change, with its steps in canonical form.
    fn parse_change(&self, value: &Value, added: &[&str], place: &str) -> Result<Change, Vec<Issue>> {
        let mut value = value.clone();
        validate::canonical_phase_change(&mut value);
        if let Some(step) = value.pointer_mut("/add_step/step") {
            *step = canonical(&self.whole(step, added, &format!("{place}/add_step/step"))?);
        } else if let Some(step) = value.pointer_mut("/modify_step/step") {
            *step = canonical(&self.whole(step, added, &format!("{place}/modify_step/step"))?);
        } else if value.pointer("/set_fields/fields").is_some_and(Value::is_object) {
            self.respell_fields(&mut value, added, &format!("{place}/set_fields/fields"))?;
        }
        // Via text, because payloads keep their text.
        serde_json::from_str(&value.to_string()).map_err(|error| {
            let hint = "send one of the changes that docs/people.md lists, such as `set_fields` or `skip_step`";
            vec![issue("INVALID_VALUE", place, format!("this is not a valid change: {error}"), hint)]
        })
    }

    /// Converts fields of any accepted spelling to canonical ones.
    fn respell_fields(&self, value: &mut Value, added: &[&str], place: &str) -> Result<(), Vec<Issue>> {
        let id = value.pointer("/set_fields/step").and_then(Value::as_str).unwrap_or_default().to_owned();
        // The engine reports unknown steps.
        let Some(before) = self.live.steps.iter().find(|step| step.id.as_str() == id).map(canonical) else {
            return Ok(());
        };
        let Some(fields) = value.pointer_mut("/set_fields/fields").and_then(Value::as_object_mut) else {
            return Ok(());
        };
        let mut merged = before.clone();
        if let Some(own) = merged.as_object_mut() {
            for (name, field) in fields.iter() {
                let known = validate::step_field(name);
                own.retain(|other, _| other != name && (known.is_none() || validate::step_field(other) != known));
                if !field.is_null() {
                    own.insert(name.clone(), field.clone());
                }
            }
        }
        let after = canonical(&self.whole(&merged, added, place)?);
        *fields = difference(&before, &after);
        Ok(())
    }

    /// Parses a step of any accepted spelling, among outlines of the other steps. The engine validates the whole plan,
    /// because it knows which steps are finished.
    fn whole(&self, step: &Value, added: &[&str], place: &str) -> Result<Step, Vec<Issue>> {
        let id = step.get("id").and_then(Value::as_str).unwrap_or_default();
        let own = self.live.steps.iter().map(|step| step.id.as_str());
        let named: Vec<&str> = own.chain(added.iter().copied()).filter(|other| *other != id).collect();
        self.among(step, &named, &self.phases, place)
    }

    /// The changes that turn the current plan into the document.
    fn diff_plan(&self, document: &Value) -> Result<ParsedEdit, ApiError> {
        let Some(steps) = document.get("steps").and_then(Value::as_array) else {
            let hint = "send the document that `goalmill plan export` prints, with your changes";
            return Err(refused(vec![issue("INVALID_VALUE", "/steps", "`steps` is not a list of steps", hint)]));
        };
        let mut issues = self.fixed(document);
        let (mut changes, mut places) = (Vec::new(), RequestPointers::default());
        for (phase, after) in self.new_phases(document, &mut issues) {
            places.changes.push("/phases".into());
            changes.push(Change::AddPhase { phase, after, steps: Vec::new() });
        }
        let id_of = |step: &Value| step.get("id").and_then(Value::as_str).unwrap_or_default().to_owned();
        let ids: Vec<String> = steps.iter().map(id_of).collect();
        let named: Vec<&str> = ids.iter().map(String::as_str).collect();
        let phases = document.get("phases").cloned().unwrap_or_else(|| json!([]));
        for (n, (step, id)) in steps.iter().zip(&ids).enumerate() {
            let place = format!("/steps/{n}");
            if ids[..n].contains(id) {
                let detail = format!("there is another step `{id}`");
                issues.push(issue("DUPLICATE_STEP_ID", &format!("{place}/id"), detail, "give each step its own id"));
                continue;
            }
            places.steps.insert(id.clone(), place.clone());
            let before = self.live.steps.iter().find(|step| step.id.as_str() == id);
            if before.is_some_and(|before| canonical(before) == *step) {
                continue;
            }
            match self.among(step, &named, &phases, &place) {
                Err(wrong) => issues.extend(wrong),
                Ok(step) if before.is_some_and(|before| *before == step) => {}
                Ok(step) => {
                    let step = Box::new(step);
                    let modifies = before.is_some();
                    let add = |step| Change::AddStep { step, before: Vec::new() };
                    changes.push(if modifies { Change::ModifyStep { step } } else { add(step) });
                    places.changes.push(place);
                }
            }
        }
        for step in self.live.steps.iter().filter(|step| !named.contains(&step.id.as_str())) {
            changes.push(Change::RemoveStep { step: step.id.clone() });
            places.changes.push("/steps".into());
        }
        if !issues.is_empty() {
            return Err(refused(issues));
        }
        if changes.is_empty() {
            return Err(refused(vec![issue("NO_CHANGE", "", "the edit changes nothing", "change a step or a phase")]));
        }
        Ok(ParsedEdit { changes, places })
    }

    /// The same among the steps and phases that are named.
    fn among(&self, step: &Value, named: &[&str], phases: &Value, place: &str) -> Result<Step, Vec<Issue>> {
        let id = step.get("id").and_then(Value::as_str).unwrap_or_default();
        let others = named.iter().copied().filter(|other| *other != id && !other.is_empty());
        let others: BTreeSet<&str> = others.collect();
        let steps: Vec<Value> = std::iter::once(step.clone()).chain(others.into_iter().map(outline)).collect();
        let document = json!({ "steps": steps, "phases": phases });
        let checked = validate::validate_plan(&document, &self.api.scheduler.settings.limits);
        let step = checked.map_err(|issues| under(issues, place))?.into_plan().steps.into_iter().next();
        step.ok_or_else(|| vec![issue("INVALID_VALUE", place, "this is not a step", "send an object with its `id`")])
    }

    /// Plan fields outside of steps and phases must be unchanged.
    fn fixed(&self, document: &Value) -> Vec<Issue> {
        let own = serde_json::to_value(&self.live).unwrap_or_default();
        let fields = document.as_object().into_iter().flatten();
        let others = fields.filter(|(name, value)| {
            !EDITABLE.contains(&name.as_str()) && own.get(name.as_str()).is_none_or(|own| own != *value)
        });
        let hint = "do not change this field: only steps and phases can be edited";
        others
            .map(|(name, _)| {
                let detail = format!("`{name}` of a plan that has begun cannot be edited");
                issue("NOT_EDITABLE", &format!("/{name}"), detail, hint)
            })
            .collect()
    }

    fn new_phases(&self, document: &Value, issues: &mut Vec<Issue>) -> Vec<(Phase, Option<String>)> {
        let listed = document.get("phases").and_then(Value::as_array).cloned().unwrap_or_default();
        let (mut added, mut after) = (Vec::new(), None);
        for (n, value) in listed.into_iter().enumerate() {
            let value = if value.is_string() { json!({ "id": value }) } else { value };
            let place = format!("/phases/{n}");
            match serde_json::from_value::<Phase>(value) {
                Err(error) => {
                    let detail = format!("this is not a valid phase: {error}");
                    issues.push(issue("INVALID_VALUE", &place, detail, "send an object with its `id`"));
                }
                Ok(phase) => {
                    let own = self.live.phases.iter().find(|own| own.id == phase.id);
                    match own {
                        Some(own) if *own != phase => {
                            let hint = "skip the phase, or add another phase";
                            issues.push(issue("NOT_EDITABLE", &place, "an existing phase cannot be changed", hint));
                        }
                        Some(_) => {}
                        None => added.push((phase.clone(), after.clone())),
                    }
                    after = Some(phase.id);
                }
            }
        }
        added
    }
}

/// Routes `auto` steps. The policy does not apply to the edits of a person.
fn route_edit(api: &Api, live: &Plan, edited: &mut ParsedEdit) -> Result<(), ApiError> {
    let places = &edited.places.changes;
    route_changes(live, &mut edited.changes, |n, plan| {
        let routed = api.scheduler.directory.route(plan, &Policy::default());
        routed.map(drop).map_err(|issues| {
            let problem = Problem::new(ErrorCode::Unroutable, "no agent type fits a step of the edit");
            ApiError(problem.with_errors(under(issues, &places[n])))
        })
    })
}

/// A placeholder for another step.
fn outline(id: &str) -> Value {
    json!({ "id": id, "agent_type": "any" })
}

fn canonical(step: &Step) -> Value {
    serde_json::to_value(step).expect("a step always has a JSON form")
}

/// The changed fields of `after`; removed ones are `null`.
fn difference(before: &Value, after: &Value) -> Map<String, Value> {
    let (Some(old), Some(new)) = (before.as_object(), after.as_object()) else { return Map::new() };
    let set = new.iter().filter(|(name, value)| old.get(name.as_str()) != Some(*value));
    let gone = old.keys().filter(|name| !new.contains_key(name.as_str()));
    set.map(|(name, value)| (name.clone(), value.clone())).chain(gone.map(|name| (name.clone(), Value::Null))).collect()
}

/// Issues of the first step of a document, which stands at `place`.
fn under(issues: Vec<Issue>, place: &str) -> Vec<Issue> {
    let moved = |mut issue: Issue| {
        let rest = issue.pointer.strip_prefix("/steps/0").unwrap_or("").to_owned();
        issue.pointer = format!("{place}{rest}");
        issue
    };
    issues.into_iter().map(moved).collect()
}

pub(super) fn issue(code: &str, pointer: &str, detail: impl Into<String>, hint: &str) -> Issue {
    Issue { code: code.into(), pointer: pointer.into(), detail: detail.into(), hint: hint.into() }
}

fn refused(issues: Vec<Issue>) -> ApiError {
    let detail = match issues.as_slice() {
        [only] => format!("the edit is invalid: {}", only.detail),
        _ => format!("the edit is invalid in {} places", issues.len()),
    };
    ApiError(Problem::new(ErrorCode::InvalidPlan, detail).with_errors(issues))
}
