//! Renders a step's inputs and evaluates its condition from the outputs of other steps.
//!
//! `now` is the time of the command that renders; for a step with an attempt out it is the time at which the attempt was
//! queued, so that its inputs are the same whenever they are rendered.

pub(crate) mod loaded_payloads;
pub(crate) mod payload_loads;
pub(crate) mod payloads;

use goalmill_common::event::PlanEnded;
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::goal::INPUTS;
use goalmill_common::json::Json;
use goalmill_common::limits::Limits;
use goalmill_common::plan::{ForEach, Step, StepWait};
use goalmill_common::status::StepStatus;
use goalmill_expression::{self as expression, ExpressionError, NeededPayload, PAYLOAD_NEEDED, Scope, ScopedStep};
use serde_json::{Map, Value, json};

use crate::cleanup::cleanup_state::CleanupRun;
use crate::cleanup::done_work;
use crate::cleanup::done_work::{DoneWork, Sent};
use crate::graph::StepIndex;
use crate::state::{PlanState, StepState};

/// Why an expression has no value now.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Unrendered {
    /// It never has one.
    Failed(Failure),
    /// It reads stored payloads that are not loaded.
    Needs(Vec<NeededPayload>),
}

impl Unrendered {
    /// The failure of somebody who cannot wait.
    pub(crate) fn into_failure(self) -> Failure {
        match self {
            Self::Failed(failure) => failure,
            Self::Needs(payloads) => unread(&payloads),
        }
    }
}

/// The expressions of a step.
#[derive(Clone, Copy)]
pub(crate) struct StepExpressions<'s> {
    state: &'s PlanState,
    i: StepIndex,
    now_ms: u64,
    limits: &'s Limits,
}

/// The inputs of the last attempt of a step.
pub(crate) fn inputs_of_attempt(state: &PlanState, i: StepIndex, limits: &Limits) -> Result<Json, Unrendered> {
    StepExpressions::new(state, i, state.steps[i].queued_ms(), limits).inputs()
}

impl<'s> StepExpressions<'s> {
    /// - `now_ms`: time of the command, Unix milliseconds.
    pub(crate) fn new(state: &'s PlanState, i: StepIndex, now_ms: u64, limits: &'s Limits) -> Self {
        Self { state, i, now_ms, limits }
    }

    /// The step's inputs, with every expression replaced by its value.
    pub(crate) fn inputs(self) -> Result<Json, Unrendered> {
        self.inputs_for(self.i)
    }

    /// The same for another step, which loads the stored payloads that they read.
    pub(crate) fn inputs_for(self, reader: StepIndex) -> Result<Json, Unrendered> {
        let Self { state, i, limits, .. } = self;
        if let Some(inputs) = state.steps[i].decisions().inputs() {
            return Ok(inputs.clone());
        }
        let undone = (reader != i).then(|| done_work::work_to_undo(state, reader)).flatten().map(|(_, work)| work);
        let inputs = undone.and_then(|work| work.inputs.as_ref()).unwrap_or(&state.plan.step(i).inputs);
        let bytes = inputs.text().len();
        if bytes > limits.payload_bytes_max {
            let most = limits.payload_bytes_max;
            let message = format!("the inputs have {bytes} bytes, more than `payload_bytes_max` ({most})");
            return Err(Unrendered::Failed(Failure::new(FailureClass::Permanent, "INPUT_TOO_LARGE", message)));
        }
        let rendered = if expression::is_plain(inputs.text()) {
            inputs.clone()
        } else {
            let what = "the inputs cannot be rendered";
            let names = self.own_names(undone)?;
            let sent = undone.map(|work| work.last);
            let within = ScopeParts { locals: &names, reader: Some(reader), sent };
            self.evaluate(within, |scope| expression::render(inputs, scope, limits), what)?
        };
        Ok(with_answer(state, i, rendered))
    }

    /// Whether a loop is done, by the outputs of its last iteration.
    pub(crate) fn until(self, text: &str, outputs: Json) -> Result<bool, Unrendered> {
        let what = format!("the condition `{text}` cannot be evaluated");
        let iteration = self.state.steps[self.i].iterations().current();
        let names = [("outputs", outputs), ("iteration", Value::from(iteration).into())];
        let within = ScopeParts { locals: &names, ..ScopeParts::default() };
        self.evaluate(within, |scope| expression::is_true(text, scope, self.limits), &what)
    }

    /// The items of a map.
    pub(crate) fn for_each(self, map: &ForEach) -> Result<Json, Unrendered> {
        if expression::is_plain(map.items.text()) {
            return Ok(map.items.clone());
        }
        let render = |scope: &Scope<'_>| expression::render(&map.items, scope, self.limits);
        self.evaluate(ScopeParts::default(), render, "`for_each` cannot be evaluated")
    }

    /// Renders one item of a map.
    ///
    /// - `locals`: `item`, `index`, and the item by its other name.
    pub(crate) fn item(self, locals: &[(&str, Json)]) -> Result<RenderedItem, Unrendered> {
        let Self { state, i, limits, .. } = self;
        let spec = state.plan.step(i);
        let place = format!("item {} of the map", locals.get(1).map_or("", |(_, index)| index.text()));
        let what = |part: &str| format!("{part} of {place} cannot be evaluated");
        let within = ScopeParts { locals, ..ScopeParts::default() };
        let runs = match &spec.when {
            Some(when) if is_of_item(spec) => {
                let condition = |scope: &Scope<'_>| expression::is_true(when, scope, limits);
                self.evaluate(within, condition, &what("the condition"))?
            }
            Some(_) | None => true,
        };
        if !runs {
            // Nothing that the condition guards is evaluated.
            return Ok(RenderedItem::passed_over(spec));
        }
        let inputs = if expression::is_plain(spec.inputs.text()) {
            spec.inputs.clone()
        } else {
            let inputs = |scope: &Scope<'_>| expression::render(&spec.inputs, scope, limits);
            self.evaluate(within, inputs, &what("the inputs"))?
        };
        let question = spec.ask.as_ref().map(|ask| {
            let question = |scope: &Scope<'_>| expression::render_text(&ask.question, scope, limits);
            self.evaluate(within, question, &what("the question"))
        });
        let cache_key = spec.cache.as_ref().map(|cache| {
            let mut names = vec![(INPUTS, inputs.clone())];
            names.extend_from_slice(locals);
            let within = ScopeParts { locals: &names, ..ScopeParts::default() };
            let key = |scope: &Scope<'_>| expression::render_text(&cache.key, scope, limits);
            self.evaluate(within, key, &what("the key of the cache"))
        });
        let mut wait = spec.wait.clone();
        if let Some(wait) = &mut wait {
            if let Some(until) = &mut wait.until {
                let render = |scope: &Scope<'_>| expression::render_text(until, scope, limits);
                *until = expression::literal_text(&self.evaluate(within, render, &what("the wait"))?);
            }
            if let Some(key) = &mut wait.key {
                let template = Value::from(key.as_str()).into();
                let render = |scope: &Scope<'_>| expression::render(&template, scope, limits);
                let rendered = key_of(&self.evaluate(within, render, &what("the wait"))?);
                // The wait of the item fails when it begins.
                *key = rendered.map_or("{{ null }}".into(), |key| expression::literal_text(&key));
            }
        }
        let (question, cache_key) = (question.transpose()?, cache_key.transpose()?);
        Ok(RenderedItem { inputs, runs: true, question, wait, cache_key })
    }

    /// Renders the undo step of one item of a map.
    ///
    /// - `n`: its number, from 0.
    /// - `done`: the inputs of the item, as literals, and its outputs.
    pub(crate) fn undo_of_item(
        self,
        n: usize,
        (inputs, outputs): (Option<&Json>, &Value),
    ) -> Result<RenderedItem, Unrendered> {
        let what = format!("the inputs of item {n} cannot be evaluated");
        let literal = |inputs: &Json| {
            let render = |scope: &Scope<'_>| expression::render(inputs, scope, self.limits);
            self.evaluate(ScopeParts::default(), render, &what)
        };
        let inputs = inputs.map(literal).transpose()?.unwrap_or_default();
        let (outputs, plan) = (outputs.clone().into(), plan_as_seen(self.state).into());
        let locals = [("outputs", outputs), ("index", json!(n).into()), ("inputs", inputs), ("plan", plan)];
        self.item(&locals)
    }

    /// Renders a text of the step.
    pub(crate) fn text(self, text: &str) -> Result<String, Unrendered> {
        let what = format!("`{text}` cannot be rendered");
        self.evaluate_own(|scope| expression::render_text(text, scope, self.limits), &what)
    }

    /// Renders the key of a wait: a text or a whole number. `None` for any other value.
    pub(crate) fn wait_key(self, key: &str) -> Result<Option<String>, Unrendered> {
        let (what, template) = (format!("`{key}` cannot be rendered"), Value::from(key).into());
        let render = |scope: &Scope<'_>| expression::render(&template, scope, self.limits);
        Ok(key_of(&self.evaluate_own(render, &what)?))
    }

    /// Renders the key of a step's cache; the key may use the rendered inputs.
    pub(crate) fn key(self, text: &str) -> Result<String, Unrendered> {
        let what = format!("`{text}` cannot be rendered");
        let names = if expression::sees_inputs(text) { vec![(INPUTS, self.inputs()?)] } else { Vec::new() };
        let within = ScopeParts { locals: &names, ..ScopeParts::default() };
        self.evaluate(within, |scope| expression::render_text(text, scope, self.limits), &what)
    }

    /// Evaluates the step's condition; a step without one is true.
    pub(crate) fn condition(self) -> Result<bool, Unrendered> {
        let spec = self.state.plan.step(self.i);
        let Some(when) = spec.when.as_ref().filter(|_| !is_of_item(spec)) else { return Ok(true) };
        let what = format!("the condition `{when}` cannot be evaluated");
        self.evaluate_own(|scope| expression::is_true(when, scope, self.limits), &what)
    }

    /// Evaluates an expression that sees the goal, the step's dependencies, all final steps and the names of its step.
    fn evaluate_own<T>(
        self,
        evaluate: impl FnOnce(&Scope<'_>) -> Result<T, ExpressionError>,
        what: &str,
    ) -> Result<T, Unrendered> {
        let names = self.own_names(None)?;
        self.evaluate(ScopeParts { locals: &names, ..ScopeParts::default() }, evaluate, what)
    }

    /// What the expressions of a step see besides `goal` and `steps`: `iteration` and `previous` in a loop; `plan` in a
    /// clean-up step, and in an undo step the `inputs` and `outputs` of the step that it undoes.
    ///
    /// - `undone`: what is undone of the step, when its undo step reads its inputs.
    fn own_names(self, undone: Option<&DoneWork>) -> Result<Vec<(&'static str, Json)>, Unrendered> {
        let Self { state, i, .. } = self;
        let (spec, step) = (state.plan.step(i), &state.steps[i]);
        let mut names: Vec<(&'static str, Json)> = Vec::new();
        if spec.repeat.is_some() {
            let iteration = undone.map_or_else(|| step.iterations().current(), |work| work.iteration);
            let previous = match undone {
                Some(_) => done_work::outputs_of_iteration(state, i, iteration - 1),
                None => step.iterations().previous(),
            };
            let outputs = previous.map_or_else(|| json!({}), Json::value);
            names.push(("iteration", json!(iteration).into()));
            names.push(("previous", json!({"outputs": outputs}).into()));
        }
        if !spec.is_cleanup() {
            return Ok(names);
        }
        names.push(("plan", plan_as_seen(state).into()));
        if spec.undoes_map() {
            return Ok(names);
        }
        if let Some(target) = done_work::undone_step(state, i) {
            names.push(("outputs", done_work::undone_outputs(state, i).cloned().unwrap_or_default()));
            names.push(("inputs", Self { i: target, ..self }.inputs_for(i)?));
        }
        Ok(names)
    }

    /// Evaluates an expression that sees the goal, the step's dependencies, all final steps and what is `within` its step.
    /// Its failure is permanent.
    fn evaluate<T>(
        self,
        within: ScopeParts<'_>,
        evaluate: impl FnOnce(&Scope<'_>) -> Result<T, ExpressionError>,
        what: &str,
    ) -> Result<T, Unrendered> {
        let Self { state, i, .. } = self;
        let goal = &state.accepted.goal;
        let dependencies = &state.plan.step(i).dependencies;
        let look = |id: &str| {
            let step = &state.steps[state.graph.find(id)?];
            if let Some(sent) = within.sent {
                // A revision may have taken the step out since, and its dependencies with it.
                return Some(if step.ended() > sent.seq { open_step() } else { scoped(step) });
            }
            let seen = step.status().is_final() || dependencies.iter().any(|dependency| dependency.as_str() == id);
            seen.then(|| scoped(step))
        };
        let scope = Scope::new(goal, &look).with_payloads(state.loads.loaded_for(Some(within.reader.unwrap_or(i))));
        let scope = scope.with_meter(&state.meter);
        let step = &state.steps[i];
        let now_ms = match within.sent {
            Some(sent) => sent.ms,
            None if step.status().is_in_flight() => step.queued_ms(),
            None => self.now_ms,
        };
        let scope = scope.with_locals(within.locals).with_now(now_ms);
        evaluate(&scope).map_err(|e| {
            if e.code == PAYLOAD_NEEDED {
                return Unrendered::Needs(e.payloads);
            }
            let message = format!("{what}: {}", e.message);
            Unrendered::Failed(Failure::new(FailureClass::Permanent, e.code, message))
        })
    }
}

/// What an expression sees besides the goal, its inputs and the steps.
#[derive(Clone, Copy, Default)]
struct ScopeParts<'a> {
    locals: &'a [(&'a str, Json)],
    /// The step that loads stored payloads, when it is another one.
    reader: Option<StepIndex>,
    /// What it undoes was sent then: it sees what that saw.
    sent: Option<Sent>,
}

/// The parts of a map's step that differ from item to item.
pub(crate) struct RenderedItem {
    pub(crate) inputs: Json,
    /// Whether its condition is true.
    pub(crate) runs: bool,
    pub(crate) question: Option<String>,
    pub(crate) wait: Option<Box<StepWait>>,
    pub(crate) cache_key: Option<String>,
}

impl RenderedItem {
    /// An item whose condition is false.
    fn passed_over(spec: &Step) -> Self {
        Self { inputs: Json::default(), runs: false, question: None, wait: spec.wait.clone(), cache_key: None }
    }

    /// Bytes of what is rendered.
    pub(crate) fn bytes(&self) -> usize {
        let wait = self.wait.as_ref().map(|wait| [&wait.until, &wait.key]);
        let texts = wait.into_iter().flatten().chain([&self.question, &self.cache_key]);
        self.inputs.text().len() + texts.flatten().map(String::len).sum::<usize>()
    }
}

/// Whether the condition of a map is about each item, and not about the whole map.
fn is_of_item(spec: &Step) -> bool {
    let (Some(map), Some(when)) = (&spec.for_each, &spec.when) else { return false };
    let names = if spec.undoes_map() { spec.names() } else { map.names() };
    expression::examine_condition(when, &names).is_ok_and(|facts| !facts.locals.is_empty())
}

/// Bytes of outputs of other steps that the inputs of each item read.
pub(crate) fn bytes_seen(state: &PlanState, i: StepIndex, map: &ForEach) -> usize {
    let mut bytes = 0;
    expression::visit_templates(&state.plan.step(i).inputs.value(), &mut |text| {
        for seen in expression::references_seeing(text, &map.names()).unwrap_or_default() {
            let step = state.graph.find(&seen.step).map(|step| &state.steps[step]);
            bytes += step.and_then(|step| step.outputs()).map_or(0, |outputs| outputs.text().len());
        }
    });
    bytes
}

/// Adds a person's answer to the inputs, under the name in `ask.into`; with `*`, each field of the answer under its own.
fn with_answer(state: &PlanState, i: StepIndex, inputs: Json) -> Json {
    let into = state.plan.step(i).ask.as_ref().and_then(|ask| ask.into.as_ref());
    let (Some(name), Some(answer)) = (into, state.steps[i].decisions().answer()) else { return inputs };
    let inputs = inputs.value();
    let mut fields =
        if let Value::Object(fields) = inputs { fields } else { Map::from_iter([("inputs".to_owned(), inputs)]) };
    let answer = answer.value();
    if name == goalmill_common::plan::INTO_EACH
        && let Value::Object(answers) = answer
    {
        fields.extend(answers);
    } else {
        fields.insert(name.clone(), answer);
    }
    Value::Object(fields).into()
}

fn key_of(value: &Json) -> Option<String> {
    match value.value() {
        Value::String(text) => Some(text),
        Value::Number(number) if number.is_u64() || number.is_i64() => Some(number.to_string()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Evaluates the expression of a success criterion; it sees the goal and every final step.
pub(crate) fn criterion(state: &PlanState, now_ms: u64, check: &str, limits: &Limits) -> Result<bool, ExpressionError> {
    let look = |id: &str| final_step(state, id);
    let scope = Scope::new(&state.accepted.goal, &look).with_payloads(state.loads.loaded_for(None)).with_now(now_ms);
    let scope = scope.with_meter(&state.meter);
    expression::is_true(check, &scope, limits)
}

/// The text of a value that the expression of a success criterion names: `steps.total.outputs.sum`.
pub(crate) fn path(state: &PlanState, path: &str, limits: &Limits) -> Result<String, ExpressionError> {
    let text = format!("{{{{ {path} }}}}");
    let look = |id: &str| final_step(state, id);
    let scope = Scope::new(&state.accepted.goal, &look).with_payloads(state.loads.loaded_for(None));
    let scope = scope.with_meter(&state.meter);
    expression::render_text(&text, &scope, limits)
}

fn final_step<'s>(state: &'s PlanState, id: &str) -> Option<ScopedStep<'s>> {
    let step = &state.steps[state.graph.find(id)?];
    step.status().is_final().then(|| scoped(step))
}

/// A step as expressions see it; the failure of an earlier attempt is none of its own.
fn scoped(step: &StepState) -> ScopedStep<'_> {
    let has_failed = matches!(step.status(), StepStatus::Failed | StepStatus::Skipped);
    let failure = step.failure().filter(|_| has_failed);
    ScopedStep { status: step.status(), partial: step.is_partial(), outputs: step.outputs(), failure }
}

/// A step that had not ended when what is undone was sent.
fn open_step() -> ScopedStep<'static> {
    ScopedStep { status: StepStatus::Pending, partial: false, outputs: None, failure: None }
}

/// What a clean-up step sees of its plan: the outcome, or that it runs while the step undoes what a revision removed.
fn plan_as_seen(state: &PlanState) -> Value {
    match state.cleanup.run() {
        Some(CleanupRun { outcome: PlanEnded { status, failure, reason, .. }, .. }) => {
            json!({"status": status, "failure": failure, "reason": reason})
        }
        None => json!({"status": state.status, "failure": null, "reason": ""}),
    }
}

/// The failure of a payload that is asked for and cannot be had.
fn unread(payloads: &[NeededPayload]) -> Failure {
    let paths: Vec<String> = payloads.iter().map(|payload| format!("`{}`", payload.path)).collect();
    let message = format!("{} is stored and not loaded", paths.join(", "));
    Failure::new(FailureClass::Permanent, PAYLOAD_NEEDED, message)
}
