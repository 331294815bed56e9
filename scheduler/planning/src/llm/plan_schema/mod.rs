//! The schema of a plan, built from the catalogue: what it admits is a plan of known agents and actions.
//!
//! ```text
//! step i = id `s<i>`, dependencies among `s1` … `s<i-1>`, and one of agent × action with the inputs of that action
//! ```
//!
//! - *Grammar form.* `steps` is one of the lists of 1, 2, … steps, each with `prefixItems`, because llama.cpp reads
//!   `prefixItems` as a list of exactly that length. Alternatives stand at the step and repeat its fields, because
//!   llama.cpp ignores what stands beside `anyOf`. `uniqueItems` is left out, because xgrammar refuses it. An id says the
//!   action of its step, as in `s1_read_file`: a grammar cannot know which action an earlier step has, but it can tie the
//!   outputs in a reference to the id there, as in `steps.s1_read_file.outputs.text`. Other ids are `s2_each_search` (a
//!   map of one action), `s2_each` (a map of several steps), `s2_ask`, `s2_wait`, `s2_until`, `s2_event`, `s2_plan`,
//!   `s2_trip` (a stored plan), and `e1_always_send` (the end of a plan).
//! - *Strict form.* One `items` for all steps, with agent, action and inputs in an object `work`, so that other fields stand
//!   once. Ids and dependencies from all ids, no `pattern`, all properties required: one that may be left out is nullable.
//! - *Prompt form.* One object with all fields of steps ([`features::loose_step`]); the prompt lists the actions.
//!
//! A text in the grammar form holds either no braces or whole references, to earlier steps only, and to outputs that the
//! action in the id declares. The pattern excludes characters that JSON escapes, apart from their escapes, because
//! grammars apply patterns to the text of the JSON string.
//!
//! Each form has a limit in bytes. A catalogue that does not fit is described in less detail ([`Detail`]).

use std::collections::BTreeSet;

use goalmill_common::agent::Agent;
use goalmill_common::planning::PlanFeature;
use goalmill_common::revision::RevisionStrategy;
use goalmill_common::stored_plan::StoredPlanView;
use goalmill_llm::{AnswerSchema, SchemaForm};
use serde_json::{Map, Value, json};

mod actions;
mod builder;
pub mod features;
mod inputs;
mod revision;
mod schema_parts;
mod steps;

pub use features::loose_step;
pub use schema_parts::one_of;

use actions::{OutputPaths, outputs_of, works};
use builder::Builder;
use schema_parts::{object, write_constants};

/// Bytes of a schema that a server turns into a grammar.
const GRAMMAR_BYTES_MAX: usize = 384 << 10;
/// Bytes of a schema in the strict subset, also with each definition at every place that refers to it: services and gateways
/// count it as a part of the prompt, and LiteLLM sends it so to Claude.
const STRICT_BYTES_MAX: usize = 60_000;
/// Steps of a plan in less detail.
const FEW_STEPS: usize = 8;
/// New steps of a correction, and of one change of a revision.
const NEW_STEPS_MAX: usize = 6;

/// How much of the catalogue the schema repeats, most first. Each one leaves out more than the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Detail {
    /// Inputs refer to earlier steps only, and plans may use all that is allowed.
    Fields,
    /// The same with at most [`FEW_STEPS`] steps.
    FewSteps,
    /// The same with maps of several steps only: those of one step repeat each action at each position.
    PlanMaps,
    /// Inputs refer to any step; no maps, undo steps and steps that always run, which repeat each action.
    Actions,
    /// Any inputs.
    OpenInputs,
}

fn bytes_max(form: SchemaForm) -> usize {
    match form {
        SchemaForm::Grammar => GRAMMAR_BYTES_MAX,
        SchemaForm::Strict | SchemaForm::Prompt => STRICT_BYTES_MAX,
    }
}

fn details(form: SchemaForm) -> &'static [Detail] {
    use Detail::{Actions, FewSteps, Fields, OpenInputs, PlanMaps};
    match form {
        SchemaForm::Grammar => &[Fields, FewSteps, PlanMaps, Actions, OpenInputs],
        SchemaForm::Strict => &[Fields, Actions, OpenInputs],
        SchemaForm::Prompt => &[],
    }
}

/// What steps may be made of.
#[derive(Clone, Debug)]
pub struct PlanVocabulary {
    /// The shortlist of the catalogue.
    pub agents: Vec<Agent>,
    /// Stored plans that steps may use.
    pub plans: Vec<StoredPlanView>,
    /// Steps have fallbacks.
    pub fallbacks: bool,
    /// Steps of kind `plan` may be left to be planned.
    pub parts: bool,
    /// Plans inside the plan are allowed.
    pub nested: bool,
    /// What else plans may use.
    pub features: Vec<PlanFeature>,
    /// Tokens of the longest answer.
    pub output_tokens_max: u64,
}

/// A step that exists, and what it does.
#[derive(Clone, Debug, Default)]
pub struct KnownStep {
    pub id: String,
    pub agent_type: String,
    /// Empty when nothing is known of its outputs.
    pub action: String,
    /// It is a map.
    pub is_map: bool,
}

/// The running plan that a revision changes.
#[derive(Clone, Debug, Default)]
pub struct RevisedPlan {
    pub steps: Vec<KnownStep>,
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
    pub fn plan_answer_schema(self, steps_max: usize) -> AnswerSchema {
        let fresh = new_ids(&[], steps_max.max(1));
        let loose = |step| json!({"steps": {"type": "array", "items": step}});
        self.forms(Vec::new(), fresh, loose, move |builder| object([("steps", builder.steps())]))
    }

    /// The schema of the corrected steps of a draft.
    ///
    /// - `frozen`: ids of those that stay as they are.
    pub fn correction(self, steps: Vec<KnownStep>, frozen: &[String]) -> AnswerSchema {
        let ids: Vec<String> = steps.iter().map(|step| step.id.clone()).collect();
        let fresh = new_ids(&ids, NEW_STEPS_MAX);
        let open: Vec<String> = ids.into_iter().filter(|id| !frozen.contains(id)).collect();
        let texts = json!({"type": "array", "items": {"type": "string"}});
        let loose = move |step| json!({"steps": {"type": "array", "items": step}, "remove": texts});
        self.forms(steps, fresh, loose, move |builder| {
            let fresh = builder.fresh;
            let steps = builder.any_steps(&open, fresh);
            let remove = json!({"type": "array", "items": one_of(&open), "maxItems": open.len()});
            object([("steps", steps), ("remove", remove)])
        })
    }

    /// The schema of a revision.
    pub fn revision(self, plan: RevisedPlan) -> AnswerSchema {
        let ids: Vec<String> = plan.steps.iter().map(|step| step.id.clone()).collect();
        let fresh = new_ids(&ids, NEW_STEPS_MAX);
        let loose = |_| {
            let [strategy, summary] = [strategies(), json!({"type": "string"})];
            let changes = json!({"type": "array", "items": {"type": "object"}});
            json!({"strategy": strategy, "summary": summary, "changes": changes, "question": {"type": "object"}})
        };
        self.forms(plan.steps.clone(), fresh, loose, move |builder| builder.revision(&plan))
    }

    /// Each form in as much detail as fits; what fits in none is said in the prompt form.
    ///
    /// - `known`, `fresh`: steps that exist, and ids of new steps; any step may refer to them.
    /// - `loose`: fields of the answer for the schema of a step that is not enforced; `question` and `remove` may be left out.
    fn forms(
        self,
        known: Vec<KnownStep>,
        fresh: Vec<String>,
        loose: impl Fn(Value) -> Value + Send + Sync + 'static,
        build: impl Fn(&mut Builder<'_>) -> Value + Send + Sync + 'static,
    ) -> AnswerSchema {
        AnswerSchema::new(move |form| {
            let details = if self.agents.is_empty() { &[] } else { details(form) };
            let works = works(&self.agents, &self.plans);
            let known: Vec<(String, OutputPaths)> =
                known.iter().map(|step| (step.id.clone(), outputs_of(step, &works))).collect();
            for detail in details {
                let is_few = form == SchemaForm::Grammar && (Detail::FewSteps..=Detail::Actions).contains(detail);
                let fresh = if is_few { &fresh[..fresh.len().min(FEW_STEPS)] } else { &fresh };
                let mut builder = Builder::new(&self, &works, &known, fresh, form, *detail);
                let mut schema = build(&mut builder);
                if builder.bytes > bytes_max(form) {
                    continue;
                }
                if form == SchemaForm::Grammar {
                    write_constants(&mut schema);
                } else if builder.inlined_bytes(&schema) > bytes_max(form) {
                    continue;
                }
                if !builder.defs.is_empty() {
                    schema["$defs"] = builder.defs.into();
                }
                if schema.to_string().len() <= bytes_max(form) {
                    return schema;
                }
            }
            let fields = loose(loose_step(&self));
            let is_required = |name: &&String| !matches!(name.as_str(), "question" | "remove");
            let required: Vec<&String> =
                fields.as_object().into_iter().flat_map(Map::keys).filter(is_required).collect();
            json!({"type": "object", "required": required, "properties": fields})
        })
    }

    /// The schema of the version of a stored plan.
    pub fn plan_names(&self) -> Value {
        one_of(&self.plans.iter().map(|plan| plan.reference().to_string()).collect::<Vec<_>>())
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

/// Ids of new steps that are not taken: `s1`, `s2`, ….
fn new_ids(taken: &[String], count: usize) -> Vec<String> {
    let begins = |taken: &String, id: &String| taken == id || taken.starts_with(&format!("{id}_"));
    let is_free = |id: &String| !taken.iter().any(|taken| begins(taken, id));
    (1..).map(|number| format!("s{number}")).filter(is_free).take(count).collect()
}

/// The strategies that a proposal may name.
fn strategies() -> Value {
    let strategies = RevisionStrategy::ALL.iter().filter(|strategy| **strategy != RevisionStrategy::Edit);
    one_of(&strategies.map(|strategy| strategy.as_str().to_owned()).collect::<Vec<_>>())
}
