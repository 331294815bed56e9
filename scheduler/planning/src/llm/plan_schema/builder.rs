//! Builds the grammar form and the strict form of a schema.

use std::collections::HashMap;
use std::ops::Range;

use goalmill_common::agent::Agent;
use goalmill_common::planning::PlanFeature;
use goalmill_llm::SchemaForm;
use serde_json::{Map, Value, json};

use super::actions::{OfferedAction, OutputPaths};
use super::schema_parts::{
    DEFS, FieldSchema, all_required, alternatives, any_of, object, one_of, reference_to, write_constants,
};
use super::{Detail, PlanVocabulary, features};

/// Grammar of a duration.
const DURATION: &str = "^[1-9][0-9]{0,2}(?:s|m|h|d)$";

/// Characters of a description, and of a summary.
const DESCRIPTION_CHARS: [usize; 2] = [3, 160];
/// Before the action in the id of a map.
pub const EACH: &str = "each_";
pub struct Builder<'a> {
    pub vocabulary: &'a PlanVocabulary,
    pub works: &'a [OfferedAction],
    /// Steps that exist.
    pub known: &'a [(String, OutputPaths)],
    /// Ids of new steps, without their action.
    pub fresh: &'a [String],
    pub form: SchemaForm,
    pub detail: Detail,
    pub defs: Map<String, Value>,
    /// The name of each definition by its text: actions share what is the same for all of them.
    names: HashMap<String, String>,
    /// Of `defs`, as text.
    pub bytes: usize,
    /// Of each definition of the strict form, with the definitions that it refers to.
    inlined: HashMap<String, usize>,
}

/// What the texts of a step see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    /// Earlier steps, and the iteration before.
    Steps,
    /// Earlier steps, and the item of a map.
    Item,
    /// The outputs of the step that is undone.
    Undo,
    /// Earlier steps for the same item, and the item.
    Inside,
}

/// The steps that a step can depend on and refer to: all that exist, and these new ones.
#[derive(Clone, Copy)]
pub struct EarlierSteps<'r> {
    pub fresh: &'r [String],
    /// Their name in definitions.
    pub scope: &'r str,
    pub sight: Sight,
}

impl EarlierSteps<'_> {
    /// The name in definitions of what is seen.
    pub fn name(&self) -> String {
        let sight = match self.sight {
            Sight::Steps => "",
            Sight::Item => "m",
            Sight::Undo => "u",
            Sight::Inside => "n",
        };
        format!("{}{sight}", self.scope)
    }

    pub fn sees_known(&self) -> bool {
        matches!(self.sight, Sight::Steps | Sight::Item)
    }
}

/// An action: its number among the works, what ids say of it, and agent, action and inputs.
pub type StepWork = (usize, String, [Value; 3]);

pub fn work_fields([agent, action, inputs]: [Value; 3]) -> Vec<FieldSchema> {
    vec![("agent_type", agent), ("action", action), ("inputs", inputs)]
}

pub fn kind(kind: &str) -> FieldSchema {
    ("kind", one_of(&[kind.to_owned()]))
}

impl<'a> Builder<'a> {
    pub(super) fn new(
        vocabulary: &'a PlanVocabulary,
        works: &'a [OfferedAction],
        known: &'a [(String, OutputPaths)],
        fresh: &'a [String],
        form: SchemaForm,
        detail: Detail,
    ) -> Self {
        let (defs, names, inlined) = (Map::new(), HashMap::new(), HashMap::new());
        Self { vocabulary, works, known, fresh, form, detail, defs, names, bytes: 0, inlined }
    }

    pub(super) fn is_grammar(&self) -> bool {
        self.form == SchemaForm::Grammar
    }

    /// Whether plans may use a feature. Those that repeat each action are the first ones that are left out.
    pub(super) fn has(&self, feature: PlanFeature) -> bool {
        let repeats = matches!(feature, PlanFeature::Maps | PlanFeature::Undo | PlanFeature::Always);
        self.vocabulary.features.contains(&feature) && (!repeats || self.detail <= Detail::PlanMaps)
    }

    /// Whether ids say the actions of their steps.
    pub(super) fn has_typed_ids(&self) -> bool {
        self.is_grammar() && self.detail <= Detail::Actions
    }

    /// Whether inputs refer to earlier steps only.
    pub(super) fn has_positions(&self) -> bool {
        self.is_grammar() && self.detail <= Detail::PlanMaps
    }

    /// Whether each action is a map too.
    pub(super) fn has_flat_maps(&self) -> bool {
        self.is_grammar() && self.detail <= Detail::FewSteps && self.has(PlanFeature::Maps)
    }

    /// Whether items of a map may be objects.
    pub(super) fn has_object_items(&self) -> bool {
        self.works.iter().any(|work| work.outputs.has_list_of_objects())
    }

    pub(super) fn all(&self) -> EarlierSteps<'a> {
        EarlierSteps { fresh: self.fresh, scope: "", sight: Sight::Steps }
    }

    pub(super) fn duration(&mut self) -> Value {
        self.define("duration", json!({"type": "string", "pattern": DURATION}))
    }

    /// Ids that a step with a kind of work may have.
    pub(super) fn ids(&mut self, open: &[String], fresh: &[String], suffix: &str) -> Value {
        if !self.is_grammar() {
            let ids: Vec<String> = open.iter().chain(fresh).cloned().collect();
            return self.define(&format!("id{}_{}", open.len(), fresh.len()), one_of(&ids));
        }
        let is_typed = self.has_typed_ids();
        let own = |id: &String| if is_typed { format!("{id}_{suffix}") } else { id.clone() };
        let ids: Vec<String> = open.iter().cloned().chain(fresh.iter().map(own)).collect();
        one_of(&ids)
    }

    /// Earlier steps, each by its id or with its status.
    pub(super) fn dependencies(&mut self, earlier: EarlierSteps<'_>) -> Value {
        let earlier =
            if earlier.sight == Sight::Inside { earlier } else { EarlierSteps { sight: Sight::Steps, ..earlier } };
        let name = format!("a{}", earlier.name());
        if self.defs.contains_key(&name) {
            return reference_to(&name);
        }
        let known = if earlier.sees_known() { self.known } else { &[] };
        let known: Vec<String> = known.iter().map(|(id, _)| id.clone()).collect();
        let fresh = earlier.fresh;
        let most = known.len() + fresh.len();
        let id = if self.has_typed_ids() && !fresh.is_empty() {
            let kinds = self.kinds_of_steps(earlier.sight).into_iter().map(|(suffix, _)| suffix);
            let typed = format!("^{}_{}$", alternatives(fresh.to_vec()), alternatives(kinds.collect()));
            let typed = json!({"type": "string", "pattern": typed});
            any_of((!known.is_empty()).then(|| one_of(&known)).into_iter().chain([typed]).collect())
        } else {
            one_of(&known.into_iter().chain(fresh.iter().cloned()).collect::<Vec<_>>())
        };
        let item = if most > 0 && self.has(PlanFeature::Statuses) {
            let id = self.define(&format!("b{}", earlier.name()), id);
            let is = self.named("is", features::statuses());
            any_of(vec![id.clone(), object([("step", id), ("is", is)])])
        } else {
            id
        };
        self.define(&name, json!({"type": "array", "items": item, "maxItems": most}))
    }

    /// What ids say of new steps, and what such steps give.
    pub(super) fn kinds_of_steps(&self, sight: Sight) -> Vec<(String, OutputPaths)> {
        let works = || self.works.iter().map(|work| (work.suffix.clone(), work.outputs.clone()));
        let actions = works().take(self.actions().end);
        if sight == Sight::Inside {
            return actions.collect();
        }
        let mut kinds: Vec<(String, OutputPaths)> = works().collect();
        let mut add = |is_there: bool, kind: &str, outputs: OutputPaths| {
            kinds.extend(is_there.then(|| (kind.to_owned(), outputs)));
        };
        let has_waits = self.has(PlanFeature::Waits);
        add(self.has(PlanFeature::Maps) && self.vocabulary.nested, "each", OutputPaths::list());
        add(self.vocabulary.parts, "plan", OutputPaths::any());
        add(self.has(PlanFeature::Questions), "ask", OutputPaths::answer());
        add(has_waits, "wait", OutputPaths::default());
        add(has_waits, "until", OutputPaths::default());
        add(has_waits, "event", OutputPaths::any());
        if self.has_flat_maps() {
            kinds.extend(actions.map(|(suffix, _)| (format!("{EACH}{suffix}"), OutputPaths::list())));
        }
        kinds
    }

    /// Agent, action and inputs that go together.
    pub(super) fn step_works(&mut self, earlier: EarlierSteps<'_>) -> Vec<StepWork> {
        self.actions().map(|at| self.step_work(at, earlier)).collect()
    }

    pub(super) fn step_work(&mut self, at: usize, earlier: EarlierSteps<'_>) -> StepWork {
        let inputs = self.inputs(at, earlier);
        let work = &self.works[at];
        let work_fields = [one_of(std::slice::from_ref(&work.agent)), one_of(work.action.as_slice()), inputs];
        (at, work.suffix.clone(), work_fields)
    }

    /// The numbers of the actions among the works; stored plans follow.
    pub(super) fn actions(&self) -> Range<usize> {
        0..self.works.len() - self.vocabulary.plans.len()
    }

    /// The stored plans that a step may use, each with its inputs, and what ids say of them.
    pub(super) fn uses(&mut self, earlier: EarlierSteps<'_>) -> Vec<(String, Value, Value)> {
        if self.vocabulary.plans.is_empty() {
            return Vec::new();
        }
        let plans = self.actions().end..self.works.len();
        let plan = |at: usize| {
            let (suffix, name) = (self.works[at].suffix.clone(), one_of(self.works[at].stored_plan.as_slice()));
            (suffix, name, self.inputs(at, earlier))
        };
        plans.map(plan).collect()
    }

    /// The agent and action that take over, in some pair of the catalogue.
    pub(super) fn fallback(&mut self) -> Value {
        let pair = |agent: &Agent| {
            let actions: Vec<String> = agent.actions.iter().map(|action| action.name.clone()).collect();
            object([("agent_type", one_of(&[agent.agent_type.to_string()])), ("action", one_of(&actions))])
        };
        let pairs = any_of(self.vocabulary.agents.iter().map(pair).collect());
        self.define("fallback", pairs)
    }

    /// A text for people.
    pub(super) fn description(&mut self) -> Value {
        let [least, most] = DESCRIPTION_CHARS;
        match self.form {
            SchemaForm::Grammar => self.define("w", json!({"type": "string", "minLength": least, "maxLength": most})),
            SchemaForm::Strict | SchemaForm::Prompt => json!({"type": "string"}),
        }
    }

    /// A definition in the form: the strict subset requires all properties.
    pub(super) fn named(&mut self, name: &str, schema: Value) -> Value {
        let schema = if self.is_grammar() { schema } else { all_required(&schema) };
        self.define(name, schema)
    }

    pub(super) fn define(&mut self, name: &str, mut schema: Value) -> Value {
        if self.is_grammar() {
            write_constants(&mut schema);
        }
        if self.defs.contains_key(name) {
            return reference_to(name);
        }
        let text = schema.to_string();
        if !self.names.contains_key(&text) {
            self.bytes += name.len() + text.len();
            if !self.is_grammar() {
                self.inlined.insert(name.to_owned(), self.inlined_bytes(&schema));
            }
            self.defs.insert(name.to_owned(), schema);
        }
        reference_to(self.names.entry(text).or_insert_with(|| name.to_owned()))
    }

    /// Bytes of a schema in which each reference is written as what it refers to. Some gateways send it so.
    pub(super) fn inlined_bytes(&self, schema: &Value) -> usize {
        let signs = |count: usize| count.saturating_sub(1) + 2;
        match schema {
            Value::Object(map) => match map.get("$ref").and_then(Value::as_str) {
                Some(name) => self.inlined.get(name.trim_start_matches(DEFS)).copied().unwrap_or_default(),
                None => {
                    let field = |(name, value): (&String, &Value)| name.len() + 3 + self.inlined_bytes(value);
                    signs(map.len()) + map.iter().map(field).sum::<usize>()
                }
            },
            Value::Array(items) => {
                signs(items.len()) + items.iter().map(|item| self.inlined_bytes(item)).sum::<usize>()
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => schema.to_string().len(),
        }
    }
}
