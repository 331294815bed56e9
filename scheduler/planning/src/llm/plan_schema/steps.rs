//! The steps of a plan, in the grammar form and in the strict form.

use goalmill_common::planning::PlanFeature;
use goalmill_llm::SchemaForm;
use serde_json::{Map, Value, json};

use super::builder::{Builder, EACH, EarlierSteps, Sight, StepWork, kind, work_fields};
use super::inputs::{CHARACTER, INPUT_CHARS};
use super::schema_parts::{FieldSchema, alternatives, any_of, nullable, object, reference_to};
use super::{bytes_max, features};

/// Before the action in the id of a step that always runs.
const ALWAYS: &str = "always_";
/// Iterations of a loop in the grammar form.
const REPEAT_MAX: u32 = 100;
/// Items of a list that is written down in the grammar form.
const LIST_MAX: usize = 100;
/// Ids of the steps for each item of a map, without their action.
const INSIDE: [&str; 3] = ["i1", "i2", "i3"];
/// Ids of the steps that always run at the end of a plan in the grammar form, without their action.
const AT_END: [&str; 2] = ["e1", "e2"];
/// Grammar of a time.
const TIME: &str = "^20[0-9]{2}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:Z|[+-](?:0[0-9]|1[0-4]):[0-5][0-9])$";

/// One way to write a step: what its id says of it, and its fields besides id, description and dependencies.
struct StepVariant {
    suffix: String,
    fields: Vec<FieldSchema>,
    /// It has no dependencies and runs at the end.
    is_at_end: bool,
    optional: Vec<FieldSchema>,
}

impl StepVariant {
    fn new(suffix: impl Into<String>, fields: Vec<FieldSchema>, optional: Vec<FieldSchema>) -> Self {
        Self { suffix: suffix.into(), fields, is_at_end: false, optional }
    }
}

impl Builder<'_> {
    /// The steps of a plan: by position where a grammar holds them to it.
    pub(super) fn steps(&mut self) -> Value {
        let ids = self.fresh;
        if !self.is_grammar() {
            return self.any_steps(&[], ids);
        }
        let mut steps: Vec<Value> = Vec::new();
        for at in 0..ids.len() {
            let before = self.bytes;
            let earlier = EarlierSteps { fresh: &ids[..at], scope: &at.to_string(), sight: Sight::Steps };
            let variants = self.variants(earlier);
            let step = self.one_step(variants, &[], &ids[at..=at], earlier);
            steps.push(self.define(&format!("s{at}"), step));
            // A later position has at least as many bytes as this one, so a form that is too large is found early.
            let later = (self.bytes - before) * (ids.len() - 1 - at);
            if at > 0 && self.bytes + later > bytes_max(self.form) {
                self.bytes += later;
                return Value::Null;
            }
        }
        let ends = self.ends();
        let mut lists = Vec::new();
        for last in 0..=ends.len() {
            for count in 1..=steps.len().saturating_sub(last) {
                let items: Vec<&Value> = steps[..count].iter().chain(&ends[..last]).collect();
                lists.push(
                    json!({"type": "array", "prefixItems": items, "minItems": items.len(), "maxItems": items.len()}),
                );
            }
        }
        any_of(lists)
    }

    /// Steps that run at the end of a plan whatever happens.
    fn ends(&mut self) -> Vec<Value> {
        let all = self.all();
        let ids = if self.has(PlanFeature::Always) { &AT_END[..] } else { &[] };
        let mut ends = Vec::new();
        for id in ids {
            let variants = self.end_steps(all);
            let step = self.one_step(variants, &[], &[(*id).to_owned()], all);
            ends.push(self.define(id, step));
        }
        ends
    }

    /// Steps in any order.
    ///
    /// - `open`, `fresh`: ids of steps that exist and of new ones, which the steps may have.
    pub(super) fn any_steps(&mut self, open: &[String], fresh: &[String]) -> Value {
        let step = self.step(open, fresh);
        json!({"type": "array", "items": step, "minItems": 1, "maxItems": open.len() + fresh.len()})
    }

    /// A step at any place.
    pub(super) fn step(&mut self, open: &[String], fresh: &[String]) -> Value {
        let all = self.all();
        let mut variants = self.variants(all);
        if self.is_grammar() {
            variants.extend(self.end_steps(all));
        }
        self.one_step(variants, open, fresh, all)
    }

    /// - `open`, `fresh`: ids that the step may have.
    fn one_step(
        &mut self,
        variants: Vec<StepVariant>,
        open: &[String],
        fresh: &[String],
        earlier: EarlierSteps<'_>,
    ) -> Value {
        let dependencies = self.dependencies(earlier);
        let description = self.description();
        let mut steps = Vec::new();
        for StepVariant { suffix, fields, is_at_end, optional } in variants {
            let id = self.ids(open, fresh, &suffix);
            let mut all = vec![("id", id), ("description", description.clone())];
            all.extend(fields);
            all.extend((!is_at_end).then(|| ("dependencies", dependencies.clone())));
            let required: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
            let required = json!(required);
            all.extend(optional);
            let mut step = object(all);
            if self.is_grammar() {
                step["required"] = required;
            }
            steps.push(step);
        }
        any_of(steps)
    }

    /// The ways to write a step.
    fn variants(&mut self, earlier: EarlierSteps<'_>) -> Vec<StepVariant> {
        let mut variants = self.action_steps(earlier);
        let shared = self.shared_fields(earlier);
        for (suffix, plan, inputs) in self.uses(earlier) {
            variants.push(StepVariant::new(suffix, vec![("use", plan), ("inputs", inputs)], shared.clone()));
        }
        if !self.is_grammar() {
            variants = self.in_work(variants);
        }
        if self.has(PlanFeature::Maps) {
            variants.extend(self.maps(earlier));
        }
        if self.vocabulary.parts {
            variants.push(StepVariant::new("plan", vec![kind("plan")], Vec::new()));
        }
        let condition = self.when(earlier);
        if self.has(PlanFeature::Questions) {
            let text = self.free_text(earlier);
            let ask = self.named(&format!("ask{}", earlier.name()), features::question(text));
            variants.push(StepVariant::new("ask", vec![("ask", ask)], condition.clone()));
        }
        for (suffix, wait) in self.waits(earlier) {
            let fields = vec![kind("wait"), ("wait", wait)];
            variants.push(StepVariant::new(suffix, fields, condition.clone()));
        }
        variants
    }

    /// Steps with an action or a stored plan as one variant: who does the step is an object in it, so the other fields are
    /// written once, not for each action.
    fn in_work(&mut self, variants: Vec<StepVariant>) -> Vec<StepVariant> {
        let optional = variants.first().map(|variant| variant.optional.clone()).unwrap_or_default();
        let works = any_of(variants.into_iter().map(|variant| object(variant.fields)).collect());
        vec![StepVariant::new("work", vec![("work", self.define("work", works))], optional)]
    }

    /// Steps with an action.
    fn action_steps(&mut self, earlier: EarlierSteps<'_>) -> Vec<StepVariant> {
        let shared = self.shared_fields(earlier);
        let fallback = if self.vocabulary.fallbacks { Some(("fallback", self.fallback())) } else { None };
        let mut steps = Vec::new();
        for (at, suffix, work) in self.step_works(earlier) {
            let mut fields = work_fields(work);
            fields.extend(fallback.clone());
            let mut optional = shared.clone();
            if self.is_grammar() {
                optional.extend(self.bounded_fields(at));
            }
            steps.push(StepVariant::new(suffix, fields, optional));
        }
        steps
    }

    /// Steps with an action that run at the end.
    fn end_steps(&mut self, earlier: EarlierSteps<'_>) -> Vec<StepVariant> {
        if !self.has(PlanFeature::Always) {
            return Vec::new();
        }
        let step = |(_, suffix, work): StepWork| {
            let mut fields = work_fields(work);
            fields.push(("always", json!({"enum": [true]})));
            let suffix = format!("{ALWAYS}{suffix}");
            StepVariant { is_at_end: true, ..StepVariant::new(suffix, fields, Vec::new()) }
        };
        self.step_works(earlier).into_iter().map(step).collect()
    }

    /// Maps: of one action in the grammar form, and of several steps for each item.
    fn maps(&mut self, earlier: EarlierSteps<'_>) -> Vec<StepVariant> {
        let mut maps = Vec::new();
        let list = self.list(earlier);
        let mut shared = self.shared_fields(earlier);
        shared.retain(|(name, _)| matches!(*name, "when" | "approve"));
        if self.has_flat_maps() {
            let with_item = EarlierSteps { sight: Sight::Item, ..earlier };
            for (_, suffix, work) in self.step_works(with_item) {
                let fields = [("for_each", list.clone())].into_iter().chain(work_fields(work)).collect();
                maps.push(StepVariant::new(format!("{EACH}{suffix}"), fields, shared.clone()));
            }
        }
        if !self.vocabulary.nested {
            return maps;
        }
        let item = object([("item", json!({"enum": ["{{ item }}"]}))]);
        let inside = self.inside();
        let plan = self.named("plan", object([("steps", inside)]));
        let fields = vec![kind("plan"), ("for_each", list), ("inputs", item), ("plan", plan)];
        maps.push(StepVariant::new("each", fields, shared));
        maps
    }

    /// The list of a map.
    fn list(&mut self, earlier: EarlierSteps<'_>) -> Value {
        let text = json!({"type": "string"});
        if !self.is_grammar() {
            return self.define("list", json!({"anyOf": [text, {"type": "array", "items": text}]}));
        }
        let item = json!({"type": "string", "pattern": format!("^(?:{CHARACTER}){{1,{}}}$", INPUT_CHARS[0])});
        let written = json!({"type": "array", "items": item, "minItems": 1, "maxItems": LIST_MAX});
        let written = self.define("list", written);
        let reference = self.reference("array", EarlierSteps { sight: Sight::Steps, ..earlier });
        any_of(reference.into_iter().chain([written]).collect())
    }

    /// The steps for each item.
    fn inside(&mut self) -> Value {
        let ids = INSIDE.map(str::to_owned);
        if !self.is_grammar() {
            let all = EarlierSteps { fresh: &ids, scope: "i", sight: Sight::Inside };
            let works = self.step_works(all).into_iter();
            let variants = works.map(|(_, suffix, work)| StepVariant::new(suffix, work_fields(work), Vec::new()));
            let variants = self.in_work(variants.collect());
            let step = self.one_step(variants, &[], &ids, all);
            let step = self.define("inside", step);
            return json!({"type": "array", "items": step, "minItems": 1, "maxItems": INSIDE.len()});
        }
        let mut steps: Vec<Value> = Vec::new();
        for at in 0..ids.len() {
            let earlier = EarlierSteps { fresh: &ids[..at], scope: &at.to_string(), sight: Sight::Inside };
            let name = format!("i{at}");
            if !self.defs.contains_key(&name) {
                let works = self.step_works(earlier).into_iter();
                let variants = works.map(|(_, suffix, work)| StepVariant::new(suffix, work_fields(work), Vec::new()));
                let step = self.one_step(variants.collect(), &[], &ids[at..=at], earlier);
                self.define(&name, step);
            }
            steps.push(reference_to(&name));
        }
        let list =
            |count| json!({"type": "array", "prefixItems": steps[..count], "minItems": count, "maxItems": count});
        any_of((1..=steps.len()).map(list).collect())
    }

    /// Fields of steps that somebody or something does.
    fn shared_fields(&mut self, earlier: EarlierSteps<'_>) -> Vec<FieldSchema> {
        if !self.is_grammar() {
            return self.loose_fields();
        }
        let mut fields = self.when(earlier);
        fields.extend(self.has(PlanFeature::Approvals).then(|| ("approve", json!({"enum": [true]}))));
        fields
    }

    /// The condition of a step.
    fn when(&mut self, earlier: EarlierSteps<'_>) -> Vec<FieldSchema> {
        if !self.has(PlanFeature::Conditions) {
            return Vec::new();
        }
        let when = match self.form {
            SchemaForm::Grammar if self.has_typed_ids() => {
                self.condition(EarlierSteps { sight: Sight::Steps, ..earlier })
            }
            SchemaForm::Grammar => None,
            SchemaForm::Strict | SchemaForm::Prompt => Some(self.named("when", nullable(json!({"type": "string"})))),
        };
        when.into_iter().map(|when| ("when", when)).collect()
    }

    /// The fields of all features in the strict form, where no grammar bounds their texts.
    fn loose_fields(&mut self) -> Vec<FieldSchema> {
        let mut fields = Vec::new();
        for feature in PlanFeature::ALL.iter().filter(|feature| self.has(**feature)).copied().collect::<Vec<_>>() {
            let undo = if feature == PlanFeature::Undo {
                let undo = self.undo();
                self.define("call", undo)
            } else {
                Value::Null
            };
            for (name, schema) in features::action_fields(feature, || undo) {
                let schema = self.named(name, nullable(schema));
                fields.push((name, schema));
            }
        }
        fields
    }

    /// Loops and undo steps in the grammar form.
    fn bounded_fields(&mut self, at: usize) -> Vec<FieldSchema> {
        let mut fields = Vec::new();
        if self.has(PlanFeature::Loops) {
            let conditions = self.works[at].outputs.conditions();
            if !conditions.is_empty() {
                let until = format!("^(?:not )?outputs{}$", alternatives(conditions));
                let until = json!({"type": "string", "pattern": until});
                let max = json!({"type": "integer", "minimum": 1, "maximum": REPEAT_MAX});
                let delay = self.duration();
                fields.push(("repeat", self.define(&format!("r{at}"), features::repeat(until, max, delay))));
            }
        }
        if self.has(PlanFeature::Undo) {
            let undo = if self.defs.contains_key("undo") { reference_to("undo") } else { self.undo() };
            let undo = self.define("undo", undo);
            fields.push(("undo", undo));
        }
        fields
    }

    /// What takes a step back.
    fn undo(&mut self) -> Value {
        let own = EarlierSteps { fresh: &[], scope: "", sight: Sight::Undo };
        any_of(self.step_works(own).into_iter().map(|(_, _, work)| object(work_fields(work))).collect())
    }

    /// The ways to wait, each with what ids say of it.
    fn waits(&mut self, earlier: EarlierSteps<'_>) -> Vec<(&'static str, Value)> {
        if !self.has(PlanFeature::Waits) {
            return Vec::new();
        }
        if !self.is_grammar() {
            let text = json!({"type": "string"});
            let ways = features::waits(&text, &text, &text).map(|(_, way)| way);
            return vec![("wait", self.named("wait", any_of(ways.into())))];
        }
        let event = json!({"type": "string", "pattern": "^[a-z][a-z_]{1,30}$"});
        let time = self.define("time", json!({"type": "string", "pattern": TIME}));
        let reference = self.reference("string", EarlierSteps { sight: Sight::Steps, ..earlier });
        let time = any_of(std::iter::once(time).chain(reference).collect());
        features::waits(&self.duration(), &time, &event).into()
    }

    /// A text for a person that may name results.
    fn free_text(&mut self, earlier: EarlierSteps<'_>) -> Value {
        if self.has_typed_ids() {
            let earlier = EarlierSteps { sight: Sight::Steps, ..earlier };
            let earlier = if self.has_positions() { earlier } else { self.all() };
            return self.text(&Map::new(), earlier);
        }
        self.description()
    }
}
