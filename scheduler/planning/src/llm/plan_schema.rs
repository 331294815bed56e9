//! The schema of a plan, built from the catalogue: what it admits is a plan of known agents and actions.
//!
//! ```text
//! step i = id `s<i>`, dependencies among `s1` … `s<i-1>`, and one of agent × action with the inputs of that action
//! ```
//!
//! In the grammar form an id also says the action of its step, as in `s1_read_file`. A grammar cannot know which action an
//! earlier step has, but it can tie the outputs in a reference to the id there: `steps.s1_read_file.outputs.text`.
//!
//! - *Grammar form.* `steps` is one of the lists of 1, 2, … steps, each with `prefixItems`, because llama.cpp reads
//!   `prefixItems` as a list of exactly that length. Alternatives stand at the step and repeat its fields, because
//!   llama.cpp ignores what stands beside `anyOf`. `uniqueItems` is left out, because xgrammar refuses it.
//! - *Maps, waits, loops, clean-up.* A map is `s2_each_search`, and its outputs are a list; its list is an output that is a
//!   list of texts. A wait is `s3_wait` or `s3_event`. `s4_always_send` runs at the end, and no step depends on it. All but
//!   maps are there only if the goal speaks of them.
//! - *Stored plans* stand beside the actions, each with its inputs: `s2_trip` uses `trip@3`.
//! - *Strict form.* One `items` for all steps, ids and dependencies from all ids, no `pattern`, all properties required;
//!   an optional input is nullable.
//! - *Prompt form.* The strict form without the schemas of inputs, which the prompt lists with the agents.
//!
//! A text in the grammar form holds either no braces or whole references such as `{{ steps.s1_read.outputs.text }}`: to
//! earlier steps only, and to outputs that the action in the id declares. The pattern excludes characters that
//! JSON escapes, apart from their escapes, because grammars apply patterns to the text of the JSON string.
//!
//! Each form has a limit in bytes. A catalogue that does not fit is described in less detail.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use goalmill_common::agent::Agent;
use goalmill_common::json::Json;
use goalmill_common::number::to_usize;
use goalmill_common::revision::RevisionStrategy;
use goalmill_common::stored_plan::StoredPlanView;
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
/// References in one text of an input.
const REFERENCES_MAX: usize = 4;
/// Changes of one revision.
const CHANGES_MAX: usize = 8;
/// New steps of a correction, and of one change of a revision.
const NEW_STEPS_MAX: usize = 6;
/// A character of a JSON text without braces: itself or an escape.
const CHARACTER: &str = r#"[^{}"\\\x00-\x1f]|\\["\\/bfnrt]"#;
/// A path into a value that nothing is known of, of one part at least.
const ANY_PATH: &str = r"\.[a-zA-Z_][a-zA-Z0-9_]{0,30}(?:\.[a-zA-Z_][a-zA-Z0-9_]{0,30}|\[[0-9]{1,3}\]){0,4}";
/// Objects inside each other whose fields references name.
const NESTED_MAX: usize = 3;
/// Characters of an action in the id of a step.
const SUFFIX_CHARS_MAX: usize = 40;
/// Before the action in the id of a map.
const EACH: &str = "each_";
/// Before the action in the id of a step that always runs.
const ALWAYS: &str = "always_";
/// Iterations of a loop in the grammar form.
const REPEAT_MAX: u32 = 10;
/// Items of a list that is written down in the grammar form.
const LIST_MAX: usize = 100;
/// Actions among which the `undo` of a step may choose in the strict form, where each one stands with its inputs.
const UNDO_ACTIONS_MAX: usize = 20;

/// How much of the catalogue the schema repeats, most first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Detail {
    /// Inputs refer to earlier steps only, and steps may be maps, waits, loops, and have clean-up.
    Fields,
    /// The same without what repeats each action: maps, and steps that always run.
    SomeFields,
    /// Inputs refer to earlier steps only: one schema for each action and position.
    Positions,
    /// Inputs refer to any step, with the fields that the goal speaks of, as far as they repeat no action.
    SpokenInputs,
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
    use Detail::{Agents, Any, Fields, Inputs, Names, OpenInputs, Positions, SomeFields, SpokenInputs};
    match form {
        SchemaForm::Grammar => &[Fields, SomeFields, SpokenInputs, Positions, Inputs, OpenInputs, Agents, Names, Any],
        SchemaForm::Strict => &[Fields, Inputs, OpenInputs, Agents, Names, Any],
        SchemaForm::Prompt => &[Fields, Agents, Names, Any],
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
    /// Steps of kind `plan` are allowed.
    pub parts: bool,
    /// The list of a map may be written down in the grammar form.
    pub lists: bool,
    /// What the goal speaks of, so the grammar form has it. A small model takes whatever a grammar offers.
    pub spoken: SpokenFields,
    /// Tokens of the longest answer.
    pub output_tokens_max: u64,
}

/// Fields of steps that a goal speaks of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpokenFields {
    pub wait: bool,
    pub repeat: bool,
    pub undo: bool,
    pub always: bool,
}

impl SpokenFields {
    /// What the text of a goal speaks of.
    pub fn of(goal: &str) -> Self {
        let goal = goal.to_lowercase();
        let speaks = |words: &[&str]| words.iter().any(|word| goal.contains(word));
        Self {
            wait: speaks(&["wait", "until", "event", "later", "as soon as"]),
            repeat: speaks(&["repeat", "until", "again", "improve", "refine", "iterate", "keep trying"]),
            undo: speaks(&["undo", "roll back", "rollback", "revert", "compensat", "take back", "take it back"]),
            always: speaks(&[
                "always", "clean up", "cleanup", "tear down", "whatever happens", "in any case", "even if",
            ]),
        }
    }
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
    pub fn plan(self, steps_max: usize) -> AnswerSchema {
        let fresh = new_ids(&[], steps_max.max(1));
        self.forms(Vec::new(), fresh, move |builder| object([("steps", builder.steps())]))
    }

    /// The schema of the corrected steps of a draft.
    ///
    /// - `frozen`: ids of those that stay as they are.
    pub fn correction(self, steps: Vec<KnownStep>, frozen: &[String]) -> AnswerSchema {
        let ids: Vec<String> = steps.iter().map(|step| step.id.clone()).collect();
        let fresh = new_ids(&ids, NEW_STEPS_MAX);
        let open: Vec<String> = ids.into_iter().filter(|id| !frozen.contains(id)).collect();
        self.forms(steps, fresh, move |builder| {
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
        self.forms(plan.steps.clone(), fresh, move |builder| {
            let strategies: Vec<String> = RevisionStrategy::ALL
                .iter()
                .filter(|strategy| **strategy != RevisionStrategy::Edit)
                .map(|strategy| strategy.as_str().to_owned())
                .collect();
            let changes = json!({"type": "array", "items": {"anyOf": builder.changes(&plan)}, "maxItems": CHANGES_MAX});
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
    /// - `known`, `fresh`: steps that exist, and ids of new steps; any step may refer to them.
    fn forms(
        self,
        known: Vec<KnownStep>,
        fresh: Vec<String>,
        build: impl Fn(&mut Builder<'_>) -> Value + Send + Sync + 'static,
    ) -> AnswerSchema {
        AnswerSchema::new(move |form| {
            let works = works(&self.agents, &self.plans);
            let known: Vec<(String, OutputPaths)> =
                known.iter().map(|step| (step.id.clone(), outputs_of(step, &works))).collect();
            let mut schema = Value::Null;
            for detail in details(form) {
                let mut builder = Builder {
                    vocabulary: &self,
                    works: &works,
                    known: &known,
                    fresh: &fresh,
                    form,
                    detail: *detail,
                    defs: Map::new(),
                    bytes: 0,
                };
                if form == SchemaForm::Grammar && !builder.has_more() {
                    continue;
                }
                schema = build(&mut builder);

                if builder.bytes > bytes_max(form) && *detail != Detail::Any {
                    continue;
                }
                if form == SchemaForm::Grammar {
                    write_constants(&mut schema);
                }
                if !builder.defs.is_empty() {
                    schema["$defs"] = builder.defs.into();
                }
                if schema.to_string().len() <= bytes_max(form) {
                    break;
                }
            }
            schema
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

/// A field of an object and its schema.
type FieldSchema = (&'static str, Value);

/// What a step can do: an action of an agent, or a stored plan.
struct OfferedAction {
    agent: String,
    /// None is any action, of an agent that declares none.
    action: Option<String>,
    /// What the id of a step says of it.
    suffix: String,
    /// The schema of its inputs. None when any fit, or when the schema refers to parts of itself.
    inputs: Option<Value>,
    outputs: OutputPaths,
    /// The version, `trip@3`; then there is neither agent nor action.
    stored_plan: Option<String>,
}

/// What references to a step can name behind `outputs`.
#[derive(Clone, Debug, Default)]
struct OutputPaths(Vec<OutputPath>);

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
    fn any() -> Self {
        Self(vec![OutputPath { path: ANY_PATH.to_owned(), kind: None, is_texts: false }])
    }

    /// The outputs of a map.
    fn list() -> Self {
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
    fn paths(&self, kinds: &[&str]) -> Vec<String> {
        let path = |output: &OutputPath| match output.kind.as_deref() {
            None => Some(output.path.clone()),
            Some(kind) if kinds.contains(&kind) => Some(output.path.clone()),
            Some("array" | "object") if kinds.contains(&"string") => Some(format!(r"{} \| tojson", output.path)),
            Some(_) => None,
        };
        self.0.iter().filter_map(path).collect()
    }

    /// Conditions about the outputs of the step itself.
    fn conditions(&self) -> Vec<String> {
        let outputs = |kinds: &[&str]| {
            let is_meant = |output: &&OutputPath| output.kind.as_deref().is_some_and(|kind| kinds.contains(&kind));
            let paths: Vec<String> = self.0.iter().filter(is_meant).map(|output| output.path.clone()).collect();
            (!paths.is_empty()).then(|| format!("outputs{}", alternatives(paths)))
        };
        let number = outputs(&["integer", "number"])
            .map(|path| format!(r"{path} (?:>|>=|<|<=|==) -?[0-9]{{1,9}}(?:\.[0-9]{{1,3}})?"));
        let flag = outputs(&["boolean"]).map(|path| format!("(?:not )?{path}"));
        let text = outputs(&["string"]).map(|path| format!(r#"{path} == '[^'{{}}"\\\x00-\x1f]{{1,60}}'"#));
        [number, flag, text].into_iter().flatten().collect()
    }

    /// The paths to lists of texts.
    fn texts(&self) -> Vec<String> {
        self.0.iter().filter(|output| output.is_texts).map(|output| output.path.clone()).collect()
    }
}

/// What the steps of a plan can do.
fn works(agents: &[Agent], plans: &[StoredPlanView]) -> Vec<OfferedAction> {
    let mut works = Vec::new();
    let mut taken = BTreeSet::from(["plan", "wait", "event"].map(str::to_owned));
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
            let told = if shared(&action.name) { format!("{name}_{}", action.name) } else { action.name.clone() };
            let outputs = action.outputs.as_ref().map(Json::value).unwrap_or_default();
            works.push(OfferedAction {
                agent: name.clone(),
                action: Some(action.name.clone()),
                suffix: suffix(&told),
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
fn outputs_of(step: &KnownStep, works: &[OfferedAction]) -> OutputPaths {
    let does = |work: &&OfferedAction| work.agent == step.agent_type && work.action.as_ref() == Some(&step.action);
    match works.iter().find(does) {
        Some(_) if step.is_map => OutputPaths::list(),
        Some(work) => work.outputs.clone(),
        None => OutputPaths::any(),
    }
}

/// Builds one form of a schema.
struct Builder<'a> {
    vocabulary: &'a PlanVocabulary,
    works: &'a [OfferedAction],
    /// Steps that exist.
    known: &'a [(String, OutputPaths)],
    /// Ids of new steps, without their action.
    fresh: &'a [String],
    form: SchemaForm,
    detail: Detail,
    defs: Map<String, Value>,
    /// Of `defs`, as text.
    bytes: usize,
}

/// The steps that a step can depend on and refer to: all that exist, and these new ones.
#[derive(Clone, Copy)]
struct EarlierSteps<'r> {
    fresh: &'r [String],
    /// Their name in definitions.
    scope: &'r str,
    /// The step is a map: texts may name its item.
    has_item: bool,
    /// The step undoes another one, and sees its outputs.
    is_undo: bool,
}

impl<'a> Builder<'a> {
    /// Whether ids say the actions of their steps.
    fn has_typed_ids(&self) -> bool {
        self.form == SchemaForm::Grammar && self.detail <= Detail::Inputs
    }

    /// Whether inputs refer to earlier steps only.
    fn has_positions(&self) -> bool {
        self.form == SchemaForm::Grammar && self.detail <= Detail::Positions
    }

    fn is_too_large(&self) -> bool {
        self.bytes > bytes_max(self.form)
    }

    /// The steps of a plan: by position where a grammar holds them to it.
    fn steps(&mut self) -> Value {
        let ids = self.fresh;
        if self.form != SchemaForm::Grammar || self.detail >= Detail::Names {
            return self.any_steps(&[], ids);
        }
        if self.has_spoken() {
            // What all positions share does not count for each of them.
            self.actions().for_each(|at| drop(self.spoken_fields(at)));
        }
        let mut steps: Vec<Value> = Vec::new();
        for at in 0..ids.len() {
            let before = self.bytes;
            let earlier = EarlierSteps { fresh: &ids[..at], scope: &at.to_string(), has_item: false, is_undo: false };
            let step = self.step(&[], &ids[at..=at], earlier);
            steps.push(self.define(&format!("s{at}"), step));
            // A later position has at least as many bytes as this one, so a form that is too large is found early.
            let later = if self.has_positions() { (self.bytes - before) * (ids.len() - 1 - at) } else { 0 };
            if self.bytes + later > bytes_max(self.form) {
                self.bytes += later;
                return Value::Null;
            }
        }
        let lists: Vec<Value> = (1..=steps.len())
            .map(|count| json!({"type": "array", "prefixItems": steps[..count], "minItems": count, "maxItems": count}))
            .collect();
        json!({ "anyOf": lists })
    }

    /// Steps in any order.
    ///
    /// - `open`, `fresh`: ids of steps that exist and of new ones, which the steps may have.
    fn any_steps(&mut self, open: &[String], fresh: &[String]) -> Value {
        let all = self.all();
        let step = self.step(open, fresh, all);
        json!({"type": "array", "items": step, "minItems": 1, "maxItems": open.len() + fresh.len()})
    }

    fn all(&self) -> EarlierSteps<'a> {
        EarlierSteps { fresh: self.fresh, scope: "", has_item: false, is_undo: false }
    }

    /// A step.
    ///
    /// - `open`, `fresh`: ids that it may have.
    fn step(&mut self, open: &[String], fresh: &[String], earlier: EarlierSteps<'_>) -> Value {
        let dependencies = self.dependencies(earlier);
        let description = self.description();
        let works = self.step_works(earlier);
        let is_grammar = self.form == SchemaForm::Grammar;
        let maps = if is_grammar && self.detail == Detail::Fields { self.map_works(earlier) } else { Vec::new() };
        let has_optional = !is_grammar && self.detail == Detail::Fields;
        let optional = if has_optional { self.optional_fields() } else { Vec::new() };
        let mut alternatives: Vec<Value> = Vec::new();
        let dependent = ("dependencies", dependencies.clone());
        let mut add = |builder: &mut Self,
                       suffix: &str,
                       does: Vec<FieldSchema>,
                       begins: FieldSchema,
                       optional: Vec<FieldSchema>| {
            let has_agent = does.iter().any(|(name, _)| *name == "agent_type");
            let mut fields = vec![("id", builder.ids(open, fresh, suffix)), ("description", description.clone())];
            fields.extend(does);
            fields.push(begins);
            if has_agent && builder.vocabulary.fallbacks {
                fields.push(("fallback", builder.fallback()));
            }
            let required = fields.len();
            fields.extend(optional);
            alternatives.push(builder.with_optional(fields, required));
        };
        let plain = if is_grammar && self.has_spoken() { works.len() } else { 0 };
        let has_always = self.detail == Detail::Fields && self.vocabulary.spoken.always;
        for (at, (suffix, each, [agent, action, inputs])) in works.into_iter().chain(maps).enumerate() {
            let optional = if at < plain { self.spoken_fields(at) } else { optional.clone() };
            let work = [("agent_type", agent), ("action", action), ("inputs", inputs)];
            if at < plain && has_always {
                let always = ("always", json!({"enum": [true]}));
                add(self, &format!("{ALWAYS}{suffix}"), work.to_vec(), always, Vec::new());
            }
            let does = each.map(|list| ("for_each", list)).into_iter().chain(work).collect();
            add(self, &suffix, does, dependent.clone(), optional);
        }
        for (suffix, plan, inputs) in self.uses(earlier) {
            add(self, &suffix, vec![("use", plan), ("inputs", inputs)], dependent.clone(), optional.clone());
        }
        let mut inline = |suffix: &str, kind: &str, more: Option<(&'static str, Value)>| {
            let kind = one_of(&[kind.to_owned()]);
            let mut fields =
                vec![("id", self.ids(open, fresh, suffix)), ("kind", kind), ("description", description.clone())];
            fields.extend(more);
            fields.push(("dependencies", dependencies.clone()));
            alternatives.push(object(fields));
        };
        if self.vocabulary.parts {
            inline("plan", "plan", None);
        }
        for (suffix, wait) in self.waits() {
            inline(suffix, "wait", Some(("wait", wait)));
        }
        any_of(alternatives)
    }

    /// An object whose fields from `required` on may be left out.
    fn with_optional(&self, fields: Vec<(&str, Value)>, required: usize) -> Value {
        let names: Vec<String> = fields[..required].iter().map(|(name, _)| (*name).to_owned()).collect();
        let mut schema = object(fields);
        if self.form != SchemaForm::Strict {
            schema["required"] = json!(names);
        }
        schema
    }

    /// Maps, loops and clean-up, where no grammar limits what their expressions say.
    fn optional_fields(&mut self) -> Vec<FieldSchema> {
        let text = || json!({"type": "string"});
        let mut fields = Vec::new();
        let mut add = |builder: &mut Self, name: &'static str, schema: Value| {
            let schema = builder.optional(schema);
            let schema = builder.define(name, schema);
            fields.push((name, schema));
        };
        add(self, "for_each", json!({"anyOf": [text(), {"type": "array", "items": text()}]}));
        add(self, "repeat", object([("until", text()), ("max", json!({"type": "integer"}))]));
        add(self, "always", json!({"type": "boolean"}));
        let undo: Vec<Value> = match self.form {
            SchemaForm::Strict if self.works.len() > UNDO_ACTIONS_MAX => Vec::new(),
            SchemaForm::Strict => {
                let (all, undo) = (self.all(), |[agent, action, inputs]: [Value; 3]| {
                    object([("agent_type", agent), ("action", action), ("inputs", inputs)])
                });
                self.step_works(all).into_iter().map(|(_, _, work)| undo(work)).collect()
            }
            SchemaForm::Grammar | SchemaForm::Prompt => vec![json!({"type": "object"})],
        };
        if !undo.is_empty() {
            add(self, "undo", any_of(undo));
        }
        fields
    }

    /// Loops and undo steps of a step with an action in the grammar form, if the goal speaks of them.
    fn spoken_fields(&mut self, at: usize) -> Vec<FieldSchema> {
        let SpokenFields { repeat, undo, .. } = self.vocabulary.spoken;
        let until = repeat.then(|| self.works[at].outputs.conditions()).filter(|conditions| !conditions.is_empty());
        let repeat = until.map(|conditions| {
            let until = json!({"type": "string", "pattern": format!("^{}$", alternatives(conditions))});
            let max = json!({"type": "integer", "minimum": 1, "maximum": REPEAT_MAX});
            ("repeat", self.define(&format!("r{at}"), object([("until", until), ("max", max)])))
        });
        let undo = undo.then(|| {
            if self.defs.contains_key("u") {
                return ("undo", reference_to("u"));
            }
            let own = EarlierSteps { fresh: &[], scope: "undo", has_item: false, is_undo: true };
            let work = |[agent, action, inputs]: [Value; 3]| {
                object([("agent_type", agent), ("action", action), ("inputs", inputs)])
            };
            let works = self.actions().map(|at| work(self.step_work(at, own).2)).collect();
            ("undo", self.define("u", any_of(works)))
        });
        repeat.into_iter().chain(undo).collect()
    }

    /// The ways to wait, each with what ids say of it.
    fn waits(&self) -> Vec<(&'static str, Value)> {
        if !self.has_spoken() {
            return Vec::new();
        }
        let text = |pattern: &str| match self.form {
            SchemaForm::Grammar => json!({"type": "string", "pattern": pattern}),
            SchemaForm::Strict | SchemaForm::Prompt => json!({"type": "string"}),
        };
        let duration = || text("^[1-9][0-9]{0,2}(?:s|m|h|d)$");
        let event = object([("event", text("^[a-z][a-z_]{1,30}$")), ("timeout", duration())]);
        match self.form {
            SchemaForm::Grammar if !self.vocabulary.spoken.wait => Vec::new(),
            SchemaForm::Grammar => vec![("wait", object([("for", duration())])), ("event", event)],
            SchemaForm::Strict | SchemaForm::Prompt => {
                vec![("wait", any_of(vec![object([("for", duration())]), object([("until", duration())]), event]))]
            }
        }
    }

    /// Ids that a step with a kind of work may have.
    fn ids(&self, open: &[String], fresh: &[String], suffix: &str) -> Value {
        let is_typed = self.has_typed_ids();
        let own = |id: &String| if is_typed { format!("{id}_{suffix}") } else { id.clone() };
        let ids: Vec<String> = open.iter().cloned().chain(fresh.iter().map(own)).collect();
        one_of(&ids)
    }

    /// The ids of earlier steps.
    fn dependencies(&mut self, earlier: EarlierSteps<'_>) -> Value {
        let name = format!("a{}", earlier.scope);
        if self.defs.contains_key(&name) {
            return reference_to(&name);
        }
        let known: Vec<String> = self.known.iter().map(|(id, _)| id.clone()).collect();
        let fresh = earlier.fresh;
        let most = known.len() + fresh.len();
        let item = if self.has_typed_ids() && !fresh.is_empty() {
            let suffixes = alternatives(self.suffixes());
            let typed = json!({"type": "string", "pattern": format!("^{}_{suffixes}$", alternatives(fresh.to_vec()))});
            any_of((!known.is_empty()).then(|| one_of(&known)).into_iter().chain([typed]).collect())
        } else {
            one_of(&known.into_iter().chain(fresh.iter().cloned()).collect::<Vec<_>>())
        };
        self.define(&name, json!({"type": "array", "items": item, "maxItems": most}))
    }

    /// What ids say of the steps that have them.
    fn suffixes(&self) -> Vec<String> {
        let works = self.works.iter().map(|work| work.suffix.as_str());
        let has_maps = self.detail == Detail::Fields && self.has_lists();
        let maps = works.clone().filter(|_| has_maps).map(|suffix| format!("{EACH}{suffix}"));
        let has_waits = self.has_spoken() && self.vocabulary.spoken.wait;
        let others = [("plan", self.vocabulary.parts), ("wait", has_waits), ("event", has_waits)];
        let others = others.into_iter().filter(|(_, is_there)| *is_there).map(|(name, _)| name.to_owned());
        works.clone().map(str::to_owned).chain(maps).chain(others).collect()
    }

    /// Whether steps have the fields that the goal speaks of.
    fn has_spoken(&self) -> bool {
        matches!(self.detail, Detail::Fields | Detail::SomeFields | Detail::SpokenInputs)
    }

    /// Whether the grammar form says more in this detail than in the next one.
    fn has_more(&self) -> bool {
        let SpokenFields { wait, repeat, undo, always } = self.vocabulary.spoken;
        match self.detail {
            Detail::Fields => always || self.has_lists(),
            Detail::SomeFields | Detail::SpokenInputs => wait || repeat || undo,
            Detail::Positions | Detail::Inputs | Detail::OpenInputs | Detail::Agents | Detail::Names | Detail::Any => {
                true
            }
        }
    }

    /// Whether there is a list of texts for a map.
    fn has_lists(&self) -> bool {
        if self.vocabulary.lists {
            return true;
        }
        let outputs = self.works.iter().map(|work| &work.outputs).chain(self.known.iter().map(|(_, outputs)| outputs));
        outputs.into_iter().any(|outputs| !outputs.texts().is_empty())
    }

    /// Agent, action and inputs that go together, with what ids say of them.
    fn step_works(&mut self, earlier: EarlierSteps<'_>) -> Vec<StepWork> {
        let vocabulary = self.vocabulary;
        let open = || json!({"type": "object"});
        let text = || json!({"type": "string"});
        let plain = |work: [Value; 3]| (String::new(), None, work);
        let actions = |agent: &Agent| agent.actions.iter().map(|action| action.name.clone()).collect::<Vec<_>>();
        let by_agent = || {
            let work =
                |agent: &Agent| plain([one_of(&[agent.agent_type.to_string()]), one_of(&actions(agent)), open()]);
            vocabulary.agents.iter().map(work).collect()
        };
        match self.detail {
            Detail::Fields if self.form == SchemaForm::Prompt => by_agent(),
            Detail::Fields
            | Detail::SomeFields
            | Detail::Positions
            | Detail::SpokenInputs
            | Detail::Inputs
            | Detail::OpenInputs => self.actions().map(|at| self.step_work(at, earlier)).collect(),
            Detail::Agents => by_agent(),
            Detail::Names => {
                let [agents, actions] = vocabulary.names();
                vec![plain([agents, actions, open()])]
            }
            Detail::Any => vec![plain([text(), text(), open()])],
        }
    }

    /// The numbers of the actions among the works; stored plans follow.
    fn actions(&self) -> Range<usize> {
        0..self.works.len() - self.vocabulary.plans.len()
    }

    /// The stored plans that a step may use, each with its inputs, and what ids say of them.
    fn uses(&mut self, earlier: EarlierSteps<'_>) -> Vec<(String, Value, Value)> {
        if self.vocabulary.plans.is_empty() {
            return Vec::new();
        }
        if self.form == SchemaForm::Prompt || self.detail >= Detail::Agents {
            let names = if self.detail == Detail::Any { one_of(&[]) } else { self.vocabulary.plan_names() };
            return vec![(String::new(), names, json!({"type": "object"}))];
        }
        (self.actions().end..self.works.len())
            .map(|at| {
                let work = &self.works[at];
                let name = one_of(work.stored_plan.as_slice());
                (work.suffix.clone(), name, self.inputs(at, earlier))
            })
            .collect()
    }

    fn step_work(&mut self, at: usize, earlier: EarlierSteps<'_>) -> StepWork {
        let work = &self.works[at];
        let action =
            work.action.as_ref().map_or_else(|| json!({"type": "string"}), |name| one_of(std::slice::from_ref(name)));
        let inputs = self.inputs(at, earlier);
        (work.suffix.clone(), None, [one_of(std::slice::from_ref(&work.agent)), action, inputs])
    }

    /// The same as maps over lists that earlier steps give.
    fn map_works(&mut self, earlier: EarlierSteps<'_>) -> Vec<StepWork> {
        if self.is_too_large() {
            return Vec::new();
        }
        let reference = self.reference("texts", earlier);
        let written = self.vocabulary.lists.then(|| {
            let item = json!({"type": "string", "pattern": format!("^(?:{CHARACTER}){{1,{}}}$", INPUT_CHARS[0])});
            self.define("list", json!({"type": "array", "items": item, "minItems": 1, "maxItems": LIST_MAX}))
        });
        let lists: Vec<Value> = reference.into_iter().chain(written).collect();
        if lists.is_empty() {
            return Vec::new();
        }
        let list = any_of(lists);
        let earlier = EarlierSteps { has_item: true, ..earlier };
        let mut maps = Vec::new();
        for at in self.actions() {
            let (suffix, _, work) = self.step_work(at, earlier);
            maps.push((format!("{EACH}{suffix}"), Some(list.clone()), work));
        }
        maps
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

    /// The inputs of an action; any where nothing is known of them.
    fn inputs(&mut self, at: usize, earlier: EarlierSteps<'_>) -> Value {
        let open = json!({"type": "object"});
        if self.detail >= Detail::OpenInputs {
            return open;
        }
        let Some(schema) = &self.works[at].inputs else { return open };
        let earlier = if self.has_positions() || earlier.is_undo {
            earlier
        } else {
            EarlierSteps { has_item: earlier.has_item, ..self.all() }
        };
        let name = format!("in{at}_{}{}", earlier.scope, if earlier.has_item { "_item" } else { "" });
        if self.defs.contains_key(&name) {
            return reference_to(&name);
        }
        let inputs = match self.form {
            SchemaForm::Grammar => self.admit(schema, earlier, true),
            SchemaForm::Strict | SchemaForm::Prompt => strict(schema, true).unwrap_or(open),
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
    fn text(&mut self, declared: &Map<String, Value>, earlier: EarlierSteps<'_>) -> Value {
        let longest = to_usize(self.vocabulary.output_tokens_max / TOKENS_PER_INPUT_CHAR);
        let longest = longest.clamp(INPUT_CHARS[0], INPUT_CHARS[1]);
        let limit = |word: &str| declared.get(word).and_then(Value::as_u64).map(to_usize);
        let most = limit("maxLength").map_or(longest, |most| most.min(longest));
        let least = limit("minLength").unwrap_or(1).min(most);
        let item = if earlier.has_item { "_item" } else { "" };
        let name = format!("text{}{item}_{least}_{most}", earlier.scope);
        if self.defs.contains_key(&name) {
            return reference_to(&name);
        }
        let item = earlier.has_item.then(|| r"\{\{ item \}\}".to_owned());
        let paths: Vec<String> = self.path("string", earlier).into_iter().chain(item).collect();
        let mut pattern = format!("(?:{CHARACTER}){{{least},{most}}}");
        if !paths.is_empty() {
            // A small model may write one reference after the other until its answer is cut off.
            let between = format!("(?:{CHARACTER}){{0,{}}}", (most / (REFERENCES_MAX + 1)).max(1));
            let path = alternatives(paths);
            pattern = format!("(?:{pattern}|(?:{between}{path}){{1,{REFERENCES_MAX}}}{between})");
        }
        self.define(&name, json!({"type": "string", "pattern": format!("^{pattern}$")}))
    }

    /// A text that is one reference to an output of a type.
    fn reference(&mut self, kind: &str, earlier: EarlierSteps<'_>) -> Option<Value> {
        let name = format!("reference{}_{kind}", earlier.scope);
        if self.defs.contains_key(&name) {
            return Some(reference_to(&name));
        }
        let path = self.path(kind, earlier)?;
        Some(self.define(&name, json!({"type": "string", "pattern": format!("^{path}$")})))
    }

    /// The pattern of a reference to an output of a type. None when there is no such output.
    ///
    /// - `kind`: `texts` is a list of texts; an empty one is any type.
    fn path(&self, kind: &str, earlier: EarlierSteps<'_>) -> Option<String> {
        let paths = |outputs: &OutputPaths| match kind {
            "texts" => outputs.texts(),
            "integer" | "number" => outputs.paths(&["integer", "number"]),
            "" => outputs.paths(&["integer", "number", "string", "boolean", "array", "object"]),
            _ => outputs.paths(&[kind]),
        };
        let group = |steps: Vec<(String, OutputPaths)>| {
            let mut by_outputs: BTreeMap<String, Vec<String>> = BTreeMap::new();
            for (id, outputs) in steps.iter().filter(|(id, _)| is_name(id)) {
                let paths = paths(outputs);
                if !paths.is_empty() {
                    by_outputs.entry(alternatives(paths)).or_default().push(id.clone());
                }
            }
            let each = |(outputs, ids): (String, Vec<String>)| format!(r"{}\.outputs{outputs}", alternatives(ids));
            by_outputs.into_iter().map(each).collect::<Vec<_>>()
        };
        let mut steps = group(self.known.to_vec());
        if !earlier.fresh.is_empty() {
            let typed = if self.has_typed_ids() { group(self.typed()) } else { Vec::new() };
            if !typed.is_empty() {
                steps.push(format!("{}_{}", alternatives(earlier.fresh.to_vec()), alternatives(typed)));
            }
        }
        let mut all: Vec<String> = Vec::new();
        if !steps.is_empty() {
            all.push(format!(r"steps\.{}", alternatives(steps)));
        }
        if earlier.is_undo {
            let own: BTreeSet<String> = self.works.iter().flat_map(|work| paths(&work.outputs)).collect();
            all.extend((!own.is_empty()).then(|| format!("outputs{}", alternatives(own.into_iter().collect()))));
        }
        (!all.is_empty()).then(|| format!(r"\{{\{{ {} \}}\}}", alternatives(all)))
    }

    /// What ids say of new steps, and what such steps give.
    fn typed(&self) -> Vec<(String, OutputPaths)> {
        let mut typed: Vec<(String, OutputPaths)> =
            self.works.iter().map(|work| (work.suffix.clone(), work.outputs.clone())).collect();
        if self.detail == Detail::Fields && self.has_lists() {
            typed.extend(self.works.iter().map(|work| (format!("{EACH}{}", work.suffix), OutputPaths::list())));
        }
        if self.has_spoken() && self.vocabulary.spoken.wait {
            typed.push(("event".to_owned(), OutputPaths::any()));
        }
        typed.extend(self.vocabulary.parts.then(|| ("plan".to_owned(), OutputPaths::any())));
        typed
    }

    /// What a revision can do.
    fn changes(&mut self, plan: &RevisedPlan) -> Vec<Value> {
        let (all, fresh) = (self.all(), self.fresh);
        let new = self.step(&[], fresh, all);
        let new = self.define("new_step", new);
        let texts = json!({"type": "array", "items": one_of(&plan.open), "maxItems": plan.open.len()});
        let steps = json!({"type": "array", "items": new, "minItems": 1, "maxItems": NEW_STEPS_MAX});
        let mut changes = vec![object([("add_step", object([("step", new.clone()), ("before", texts)]))])];
        if !plan.open.is_empty() {
            let open = self.define("open_step", one_of(&plan.open));
            let reason = self.description();
            let changed = self.step(&plan.open, &[], all);
            let retries: Vec<Value> = self
                .step_works(all)
                .into_iter()
                .map(|(_, _, [agent, action, inputs])| {
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
        let phase = object([("id", one_of(&[new_phase(&plan.phases)])), ("checkpoint", json!({"type": "boolean"}))]);
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
            SchemaForm::Grammar => self.define("w", json!({"type": "string", "minLength": least, "maxLength": most})),
            SchemaForm::Strict | SchemaForm::Prompt => json!({"type": "string"}),
        }
    }

    /// A field that may be left out: nullable where all fields are required.
    fn optional(&self, schema: Value) -> Value {
        if self.form == SchemaForm::Strict { any_of(vec![schema, json!({"type": "null"})]) } else { schema }
    }

    fn define(&mut self, name: &str, mut schema: Value) -> Value {
        if self.form == SchemaForm::Grammar {
            write_constants(&mut schema);
        }
        if !self.defs.contains_key(name) {
            self.bytes += name.len() + schema.to_string().len();
            self.defs.insert(name.to_owned(), schema);
        }
        reference_to(name)
    }
}

/// What ids say of a kind of work, the list of a map, and agent, action and inputs.
type StepWork = (String, Option<Value>, [Value; 3]);

/// An id of a phase that is not taken.
fn new_phase(taken: &[String]) -> String {
    let mut ids = (1..).map(|number| format!("phase_{number}"));
    ids.find(|id| !taken.contains(id)).unwrap_or_default()
}

/// A pattern of one of several patterns.
fn alternatives(mut patterns: Vec<String>) -> String {
    if patterns.len() == 1 { patterns.remove(0) } else { format!("(?:{})", patterns.join("|")) }
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
