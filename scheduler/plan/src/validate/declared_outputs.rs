//! References against what steps declare to give, in every field that holds an expression.

use std::borrow::Cow;

use goalmill_common::plan::{Plan, Step};
use goalmill_expression::{Facts, SeenPath};
use serde_json::{Value, json};

use super::graph::StepNumbers;
use super::input_schema::{Look, look, types};
use super::inputs::{action_entry, nearest};
use super::path::mentions;
use super::rules::{Rules, min_warning};
use crate::document::{DocumentPath, ValidationContext, shorten};

/// A path that an expression names, held against a schema.
struct DeclaredPath<'a> {
    /// What is named, in words.
    giver: String,
    schema: Cow<'a, Value>,
    path: &'a [String],
}

/// What the steps of a plan declare to give.
pub(super) struct DeclaredOutputs<'a, 'l> {
    pub context: &'a ValidationContext<'l>,
    pub rules: &'a Rules<'a>,
    pub plan: &'a Plan,
    pub index: &'a StepNumbers,
}

impl<'a> DeclaredOutputs<'a, '_> {
    /// Checks the paths of one expression.
    ///
    /// - `step`: the step that has the expression.
    pub(super) fn check_paths(&'a self, step: &'a Step, at: &DocumentPath<'_>, facts: &'a Facts) {
        for path in &facts.paths {
            let Some(declared) = self.declared(step, path) else { continue };
            if let Look::Missing { name, known, is_certain } = look(&declared.schema, declared.path) {
                let detail = format!("{} does not give `{}`", declared.giver, shorten(&name));
                let near = nearest(&name, known.iter().copied());
                let hint =
                    near.map_or("use an output that it declares".to_owned(), |near| format!("did you mean `{near}`?"));
                let weight = self.rules.weights.outputs;
                // A submitted expression with a default has a value, if not the one that is meant; a draft is corrected.
                let is_tolerated = path.has_default && self.rules.catalogue.is_none();
                let weight = if is_certain && !is_tolerated { weight } else { min_warning(weight) };
                self.context.weigh(weight, "OUTPUT_UNKNOWN", at, detail, hint);
            }
        }
    }

    /// Checks that what a map runs over is a list.
    pub(super) fn check_list(&self, items: &Value, at: &DocumentPath<'_>) {
        let Some(schema) = self.whole(items) else { return };
        let gives = types(&schema);
        if !gives.contains(&"array") {
            let detail = format!("`for_each` gets {} here, and runs over a list", gives.join(" or "));
            let hint = "name an output that is a list, or write the list";
            self.context.weigh(self.rules.weights.outputs, "TYPE_MISMATCH", at, detail, hint);
        }
    }

    fn declared(&'a self, step: &'a Step, seen: &'a SeenPath) -> Option<DeclaredPath<'a>> {
        let given = |step: &'a Step, path: &'a [String]| {
            Some(DeclaredPath { giver: format!("step `{}`", step.id), schema: self.of_action(step)?, path })
        };
        let undone = || step.undoes.as_ref().and_then(|id| self.step(id.as_str()));
        let [root, rest @ ..] = seen.parts.as_slice() else { return None };
        match (root.as_str(), rest) {
            ("steps", [id, field, path @ ..]) if field == "outputs" => {
                let giver = self.step(id).filter(|giver| giver.id != step.id)?;
                Some(DeclaredPath { giver: format!("step `{id}`"), schema: self.declared_by_step(giver)?, path })
            }
            ("previous", [field, path @ ..]) if field == "outputs" => given(step, path),
            ("outputs", path) => given(if step.undoes.is_some() { undone()? } else { step }, path),
            (name, path) => {
                let map = step.for_each.as_ref().filter(|map| map.batch.is_none())?;
                if name != map.name.as_deref().unwrap_or("item") {
                    return None;
                }
                let schema = self.item(&map.items.value())?;
                Some(DeclaredPath { giver: format!("an item of step `{}`", step.id), schema, path })
            }
        }
    }

    fn step(&self, id: &str) -> Option<&'a Step> {
        self.index.get(id).map(|at| &self.plan.steps[*at as usize])
    }

    /// What a step gives; a map gives a list.
    fn declared_by_step(&self, step: &'a Step) -> Option<Cow<'a, Value>> {
        let schema = self.of_action(step);
        if step.for_each.is_none() {
            return schema;
        }
        Some(Cow::Owned(json!({"type": "array", "items": schema.unwrap_or_default()})))
    }

    /// What the action of a step gives.
    fn of_action(&self, step: &'a Step) -> Option<Cow<'a, Value>> {
        if let Some(own) = &step.output_schema {
            return Some(Cow::Owned(own.value()));
        }
        if step.kind.is_inline() {
            return None;
        }
        let entry = action_entry(self.rules.catalogue?, step)?;
        entry.outputs.as_ref().map(Cow::Borrowed)
    }

    /// What a text gives that is one reference to an output and nothing else.
    fn whole(&self, text: &Value) -> Option<Value> {
        let found = mentions(text.as_str()?);
        let [mention] = found.as_slice() else { return None };
        let path = mention.path.strip_prefix(&["outputs".to_owned()]).filter(|_| mention.is_whole)?;
        let schema = self.declared_by_step(self.step(&mention.step)?)?;
        match look(&schema, path) {
            Look::Types(schema) => Some(schema.clone()),
            Look::Unknown | Look::Missing { .. } => None,
        }
    }

    /// An item of a list.
    fn item(&self, items: &Value) -> Option<Cow<'a, Value>> {
        if let Some(list) = items.as_array() {
            return list.iter().all(Value::is_string).then(|| Cow::Owned(json!({"type": "string"})));
        }
        self.whole(items)?.get("items").filter(|items| items.is_object()).cloned().map(Cow::Owned)
    }
}
