//! The stored plans that drafts of planners may use. They are read before a planner is asked, so drafts are repaired
//! and validated without I/O, and one question always sees the same versions.

use std::collections::{BTreeMap, BTreeSet};

use goalmill_common::agent::{Action, Agent};
use goalmill_common::json::Json;
use goalmill_common::problem::Issue;
use goalmill_common::stored_plan::{StoredPlanRef, StoredPlanVersion, StoredPlanView};
use goalmill_plan::stored_plans::{PlanUse, put_documents, take_documents, uses};
use goalmill_plan::validate::names::{normal, only_slip};
use serde_json::{Value, json};

use crate::llm::{cut_schema, nearest_cards};
use crate::repair::{Edit, RepairedDraft};

/// Stored plans that are offered for one plan.
pub const OFFERED_MAX: usize = 20;
/// Stored plans that the text of a goal may name besides.
const NAMED_MAX: usize = 10;
/// Stored plans that a hint names.
const HINTED_MAX: usize = 5;

/// Stored plans by version, and versions that are refused.
#[derive(Clone, Debug, Default)]
pub struct OfferedPlans {
    /// In each document the stored plans that it uses stand in their places.
    plans: Vec<StoredPlanVersion>,
    /// Versions that may not be used, each with the code and the reason.
    refused: BTreeMap<StoredPlanRef, (String, String)>,
}

impl OfferedPlans {
    /// - `refused`: versions that may not be used, each with the code of an error and the reason.
    pub fn new(plans: Vec<StoredPlanVersion>, refused: BTreeMap<StoredPlanRef, (String, String)>) -> Self {
        Self { plans, refused }
    }

    pub fn views(&self) -> impl Iterator<Item = &StoredPlanView> {
        self.plans.iter().map(|plan| &plan.view)
    }

    /// As templates and planning agents see them.
    pub fn context(&self) -> Value {
        let plan = |view: &StoredPlanView| {
            let inputs = view.input_schema.as_ref().map(|schema| cut_schema(&schema.to_string()));
            json!({"name": view.reference().to_string(), "description": view.description, "inputs": inputs})
        };
        self.views().map(plan).collect()
    }

    fn find(&self, plan: &StoredPlanRef) -> Option<&StoredPlanVersion> {
        self.plans.iter().find(|known| is_meant(&known.view.reference(), plan))
    }

    /// The plan that a misspelled name can stand for.
    fn near(&self, plan: &StoredPlanRef) -> Option<StoredPlanRef> {
        let is_known = |name: &str| self.views().any(|view| view.name == name);
        if is_known(&plan.name) || self.refused.keys().any(|known| is_meant(known, plan)) {
            return None;
        }
        let names: BTreeSet<&str> = self.views().map(|view| view.name.as_str()).collect();
        let same: Vec<&str> = names.iter().copied().filter(|name| normal(name) == normal(&plan.name)).collect();
        let name = match same.as_slice() {
            [only] => only,
            [] => only_slip(&plan.name, names)?,
            _ => return None,
        };
        let near = StoredPlanRef { name: name.to_owned(), version: plan.version };
        self.find(&near).is_some().then_some(near)
    }

    /// Puts the documents of stored plans in their places, repairs and validates the draft by `repair`, and takes them
    /// out again: what a planner writes and corrects is the name.
    pub fn repair(&self, mut draft: Value, repair: impl FnOnce(Value) -> RepairedDraft) -> RepairedDraft {
        let mut edits = self.put_into(&mut draft);
        let mut repaired = repair(draft);
        take_documents(&mut repaired.draft);
        edits.append(&mut repaired.edits);
        let outcome = repaired.outcome.map_err(|issues| self.place_issues(issues, &repaired.draft));
        RepairedDraft { edits, outcome, ..repaired }
    }

    /// Puts the documents of the stored plans that a draft uses in their places.
    pub fn put_into(&self, draft: &mut Value) -> Vec<Edit> {
        let mut edits = Vec::new();
        for place in take_documents(draft) {
            let why = "the plan of the step is the stored plan that `use` names";
            edits.push(Edit::new("PLAN_DROPPED", &format!("{place}/plan"), "…".into(), Value::Null, why));
        }
        for PlanUse { pointer, plan } in uses(draft) {
            let Some((near, place)) = self.near(&plan).zip(draft.pointer_mut(&pointer)) else { continue };
            *place = near.to_string().into();
            let why = format!("there is no stored plan `{}`; this is the one that can be meant", plan.name);
            edits.push(Edit::new("STORED_PLAN_RENAMED", &pointer, plan.to_string().into(), place.clone(), &why));
        }
        let known = uses(draft).into_iter().filter_map(|place| {
            let found = self.find(&place.plan)?;
            Some((place.plan, (found.view.reference(), found.document.clone())))
        });
        put_documents(draft, &known.collect());
        edits
    }

    /// The issues as a planner can act on them: what is wrong in a stored plan is wrong with its use.
    ///
    /// - `draft`: without documents.
    pub fn place_issues(&self, issues: Vec<Issue>, draft: &Value) -> Vec<Issue> {
        let mut placed: Vec<Issue> = Vec::new();
        for issue in issues {
            let issue = match used_at(&issue.pointer, draft) {
                Some((pointer, plan)) if pointer == issue.pointer => self.refusal(issue, &plan),
                Some((pointer, plan)) => Issue {
                    pointer,
                    detail: format!("the stored plan `{plan}` does not fit: {}", issue.detail),
                    hint: "use another stored plan, or write steps of agents".into(),
                    ..issue
                },
                None => issue,
            };
            let is_of_plan = issue.pointer.ends_with("/use");
            if !is_of_plan || placed.iter().all(|known| known.pointer != issue.pointer) {
                placed.push(issue);
            }
        }
        placed
    }

    /// Why a stored plan may not be used.
    fn refusal(&self, issue: Issue, plan: &StoredPlanRef) -> Issue {
        if issue.code != "STORED_PLAN_NOT_FOUND" {
            return issue;
        }
        let names: Vec<String> = self.views().map(|view| format!("`{}`", view.reference())).collect();
        let same = self.views().find(|view| view.name == plan.name).map(StoredPlanView::reference);
        let hint = match (same, names.as_slice()) {
            (Some(version), _) => format!("use `{version}`"),
            (None, []) => "write the work as steps of agents".to_owned(),
            (None, names) => format!("use one of {}", names[..names.len().min(HINTED_MAX)].join(", ")),
        };
        match self.refused.iter().find(|(known, _)| is_meant(known, plan)) {
            Some((_, (code, reason))) => Issue { code: code.clone(), detail: reason.clone(), hint, ..issue },
            None => Issue { detail: format!("no stored plan `{plan}` is offered"), hint, ..issue },
        }
    }
}

/// Whether a version is one that a reference can mean.
fn is_meant(version: &StoredPlanRef, plan: &StoredPlanRef) -> bool {
    version.name == plan.name && (plan.version.is_none() || plan.version == version.version)
}

/// The `use` of the step that a pointer leads to or into the plan of, and the stored plan that it names.
fn used_at(pointer: &str, draft: &Value) -> Option<(String, StoredPlanRef)> {
    let of = |step: &str| {
        let plan = StoredPlanRef::parse(draft.pointer(step)?.get("use")?.as_str()?)?;
        Some((format!("{step}/use"), plan))
    };
    if let Some(step) = pointer.strip_suffix("/use") {
        return of(step);
    }
    pointer.match_indices("/plan").find_map(|(at, _)| of(&pointer[..at]))
}

/// The stored plans whose names and descriptions are nearest to a text, in their order: `OFFERED_MAX` at most.
pub fn nearest_plans(views: Vec<StoredPlanView>, text: &str) -> Vec<StoredPlanView> {
    if views.len() <= OFFERED_MAX {
        return views;
    }
    let card = |view: &StoredPlanView| {
        let action = Action {
            name: view.name.clone(),
            description: view.description.clone(),
            inputs: view.input_schema.as_ref().map(Json::from_value),
            outputs: None,
            side_effect: false,
        };
        vec![action]
    };
    let cards = views
        .iter()
        .enumerate()
        .map(|(place, view)| Agent { actions: card(view), ..Agent::named(place.to_string().into()) });
    let mut chosen = nearest_cards(cards.collect(), text, OFFERED_MAX);
    chosen.sort_unstable();
    chosen.into_iter().filter_map(|at| views.get(at).cloned()).collect()
}

/// The versions of stored plans that a text names, as in `trip@2`.
pub fn named_versions(text: &str) -> Vec<StoredPlanRef> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || "@._-".contains(c)));
    let versions = words.filter_map(|word| StoredPlanRef::parse(word.trim_matches(['.', '-', '_'])));
    let mut found: Vec<StoredPlanRef> = versions.filter(|plan| plan.version.is_some()).take(NAMED_MAX).collect();
    found.sort_unstable();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use goalmill_common::limits::Limits;
    use goalmill_plan::validate::{Catalogue, Requirements, Rules};

    use super::*;
    use crate::repair::repair_list;

    fn version(name: &str, version: u32, document: Value) -> StoredPlanVersion {
        let view =
            json!({"name": name, "version": version, "steps": 1, "actor": "ann", "stored_at": "2026-01-01T00:00:00Z"});
        StoredPlanVersion { view: serde_json::from_value(view).expect("it is a view"), document }
    }

    fn offered() -> OfferedPlans {
        // Two steps without dependencies, the second one read by the first.
        let trip = json!({"steps": [
            {"id": "sum", "agent_type": "a", "inputs": {"text": "{{ steps.find.outputs }}"}, "dependencies": ["find"]},
            {"id": "find", "agent_type": "a"},
        ]});
        let lost = json!({"steps": [{"id": "x", "agent_type": "nobody"}, {"id": "y", "agent_type": "nobody"}]});
        let retired = StoredPlanRef::new("trip", 1);
        let plans = vec![version("trip", 3, trip), version("lost", 1, lost)];
        let refused = (retired, ("STORED_PLAN_RETIRED".to_owned(), "`trip@1` was retired".to_owned()));
        OfferedPlans::new(plans, [refused].into())
    }

    fn repaired(draft: Value) -> RepairedDraft {
        let catalogue = Catalogue::from_agents(&[Agent::named("a".into())]);
        let requires = Requirements { dependencies: true, fallbacks: false };
        let rules = Rules { steps_max: Some(1), requires, ..Rules::planned(&catalogue) };
        offered().repair(draft, |draft| repair_list(draft, &Limits::default(), &rules))
    }

    #[test]
    fn a_stored_plan_is_held_to_what_submitted_plans_are_held_to() {
        let inner = json!({"steps": [{"id": "forged", "agent_type": "a"}]});
        let draft = json!({"steps": [{"id": "go", "use": "Trip", "plan": inner, "inputs": {"city": "Rome"}}]});
        let repaired = repaired(draft);
        let valid = repaired.outcome.expect("the stored plan may have two steps in any order");
        let step = &valid.plan().steps[0];
        assert_eq!(step.stored.as_deref(), Some("trip@3"));
        let ids: Vec<&str> = step.plan.iter().flat_map(|plan| &plan.steps).map(|step| step.id.as_str()).collect();
        assert_eq!(ids, ["sum", "find"], "the plan is that of the store");
        assert_eq!(repaired.draft["steps"][0], json!({"id": "go", "use": "trip@3", "inputs": {"city": "Rome"}}));
        let codes: Vec<&str> = repaired.edits.iter().map(|edit| edit.code.as_str()).collect();
        assert_eq!(codes, ["PLAN_DROPPED", "STORED_PLAN_RENAMED"]);
    }

    #[test]
    fn what_may_not_be_used_is_refused_at_its_use_with_what_may() {
        for (name, code, detail, hint) in [
            ("trip@1", "STORED_PLAN_RETIRED", "`trip@1` was retired", "use `trip@3`"),
            ("trip@9", "STORED_PLAN_NOT_FOUND", "no stored plan `trip@9` is offered", "use `trip@3`"),
            ("hotel", "STORED_PLAN_NOT_FOUND", "no stored plan `hotel` is offered", "use one of `trip@3`, `lost@1`"),
            ("lost", "UNKNOWN_AGENT", "the stored plan `lost@1` does not fit: ", "use another stored plan"),
        ] {
            let issues = repaired(json!([{"id": "go", "use": name}])).outcome.expect_err("it may not be used");
            assert_eq!(issues.len(), 1, "{issues:?}");
            let issue = &issues[0];
            assert_eq!((issue.code.as_str(), issue.pointer.as_str()), (code, "/0/use"), "{issue:?}");
            assert!(issue.detail.starts_with(detail) && issue.hint.starts_with(hint), "{issue:?}");
        }
    }

    #[test]
    fn a_goal_names_versions_and_of_many_plans_the_nearest_are_offered() {
        assert_eq!(named_versions("Run trip@2, mail ann@example.com."), [StoredPlanRef::new("trip", 2)]);
        let mut views: Vec<StoredPlanView> =
            (0..OFFERED_MAX).map(|n| version(&format!("filler{n}"), 1, Value::Null).view).collect();
        views.push(StoredPlanView { description: "Books hotels".into(), ..version("stay", 1, Value::Null).view });
        let near = nearest_plans(views, "find hotels in Rome");
        assert_eq!((near.len(), near.iter().any(|view| view.name == "stay")), (OFFERED_MAX, true));
    }
}
