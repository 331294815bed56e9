//! The targets of tool calls: a plan under construction, or the changes of a running plan. Each call is validated immediately.

use goalmill_common::id::is_id;
use goalmill_common::problem::Issue;
use goalmill_common::revision::{Proposal, RevisionStrategy};
use goalmill_plan::states::ValidPlan;
use goalmill_plan::validate::{canonical_phase, own_id, step_field};
use serde_json::{Map, Value, json};

use crate::ReviseRequest;
use crate::llm::plan_task::{PlanTask, ValidDraft};
use crate::llm::repair_loop::DraftVerdict;
use crate::llm::tidy_step::tidy_step;
use crate::parse_proposal::parse_proposal;
use crate::provenance::Round;
use crate::repair::Edit;
use crate::replan_context::ReplanContext;

/// Steps and phases of one plan, and changes of one revision.
const ENTRIES_MAX: usize = 200;
/// Characters of a result that is shown.
const RESULT_CHARS_MAX: usize = 600;

/// What a call brought.
pub enum ToolResult<T> {
    /// The model continues; this is the tool's answer.
    Answer(Value),
    /// It is done.
    Done(T),
    /// The model gives up, and why.
    GivenUp(String),
}

/// Something that tools work on.
pub trait ToolTarget {
    type Done: Send;

    /// Runs one call.
    fn call(&mut self, name: &str, arguments: &Map<String, Value>) -> ToolResult<Self::Done>;
}

/// A plan that is being built.
pub struct PlanTarget<'a> {
    task: &'a PlanTask<'a>,
    phases: Vec<Value>,
    steps: Vec<Value>,
    repairs: Vec<Edit>,
}

impl<'a> PlanTarget<'a> {
    pub fn new(task: &'a PlanTask<'a>) -> Self {
        Self { task, phases: Vec::new(), steps: Vec::new(), repairs: Vec::new() }
    }

    fn draft(&self) -> Value {
        if self.phases.is_empty() {
            json!({"steps": self.steps})
        } else {
            json!({"steps": self.steps, "phases": self.phases})
        }
    }

    fn validate(&self) -> Result<ValidPlan, Vec<Issue>> {
        self.task.validate_draft(self.draft(), &mut Round::default()).1
    }

    /// The answer after a change: what is wrong with the plan as far as it goes.
    fn looked_over(&self, what: &str) -> Value {
        let issues = if self.steps.is_empty() { Vec::new() } else { self.validate().err().unwrap_or_default() };
        answer(what, &issues)
    }

    fn add_phase(&mut self, arguments: &Map<String, Value>, at: usize) -> Value {
        if self.phases.len() >= ENTRIES_MAX {
            return refused("there are too many phases", "use fewer");
        }
        let phase = match phase_of(arguments) {
            Ok(phase) => phase,
            Err(refusal) => return refusal,
        };
        let id = text(&phase, "id");
        if self.phases.iter().any(|known| known.get("id").is_some_and(|known| *known == id)) {
            return refused(&format!("there is a phase `{id}` already"), "use another id");
        }
        self.phases.insert(at, Value::Object(phase));
        let issues = if self.steps.is_empty() { Vec::new() } else { self.validate().err().unwrap_or_default() };
        if !issues.is_empty() && is_about_phase(&issues, at) {
            self.phases.remove(at);
            return answer("added", &issues);
        }
        json!({"ok": true, "phases": self.phases.iter().filter_map(|p| p.get("id")).collect::<Vec<_>>()})
    }

    fn phase(&self, arguments: &Map<String, Value>, key: &str) -> Result<usize, Value> {
        let wanted = text(arguments, key);
        let found = self.phases.iter().position(|phase| phase.get("id").is_some_and(|id| *id == wanted));
        found.ok_or_else(|| refused(&format!("there is no phase `{wanted}`"), "add it first"))
    }

    fn step(&self, arguments: &Map<String, Value>) -> Result<usize, Value> {
        let wanted = match text(arguments, "id") {
            id if id.is_empty() => text(arguments, "step"),
            id => id,
        };
        let found = self.steps.iter().position(|step| own_id(step).as_deref() == Some(&wanted));
        found.ok_or_else(|| refused(&format!("there is no step `{wanted}`"), "add it first"))
    }

    fn add_step(&mut self, arguments: &Map<String, Value>) -> Value {
        let spelled = |key: &String| if step_field(key) == Some("phase") { "phase".to_owned() } else { key.clone() };
        let mut step = Value::Object(arguments.iter().map(|(key, value)| (spelled(key), value.clone())).collect());
        tidy_step(&mut step, &format!("/steps/{}", self.steps.len()), &self.task.actions, &mut self.repairs);
        let Some(id) = own_id(&step) else { return refused("a step needs an `id`", "give it one") };
        if self.steps.iter().any(|known| own_id(known).as_ref() == Some(&id)) {
            return refused(&format!("there is a step `{id}` already"), "call `modify_step`, or use another id");
        }
        if self.steps.len() >= ENTRIES_MAX {
            return refused("there are too many steps", "use fewer");
        }
        self.steps.push(step);
        self.looked_over("added")
    }

    fn answer(&mut self, name: &str, arguments: &Map<String, Value>) -> Result<Value, Value> {
        Ok(match name {
            "create_plan" => {
                self.phases.clear();
                self.steps.clear();
                json!({"ok": true})
            }
            "add_phase" => self.add_phase(arguments, self.phases.len()),
            "insert_phase_after" => {
                let at = self.phase(arguments, "after")? + 1;
                self.add_phase(arguments, at)
            }
            "skip_phase" => {
                let at = self.phase(arguments, "phase")?;
                let phase = self.phases.remove(at);
                let id = phase.get("id").cloned().unwrap_or_default();
                self.steps.retain(|step| step.get("phase") != Some(&id));
                self.looked_over("taken out")
            }
            "add_step" => self.add_step(arguments),
            "modify_step" => {
                let at = self.step(arguments)?;
                for (key, value) in arguments {
                    self.steps[at][key.as_str()] = value.clone();
                }
                self.looked_over("changed")
            }
            "remove_step" => {
                let at = self.step(arguments)?;
                self.steps.remove(at);
                self.looked_over("taken out")
            }
            "get_plan_status" => {
                let issues = self.validate().err().unwrap_or_default();
                json!({"plan": self.draft(), "issues": shown(&issues)})
            }
            "get_phase_results" => refused("nothing has run yet", "results come when the plan runs"),
            _ => refused(&format!("there is no tool `{name}`"), "call one of those that were named"),
        })
    }
}

impl ToolTarget for PlanTarget<'_> {
    type Done = (ValidDraft, Vec<Edit>);

    fn call(&mut self, name: &str, arguments: &Map<String, Value>) -> ToolResult<Self::Done> {
        match name {
            "abort_plan" => ToolResult::GivenUp(text(arguments, "reason")),
            "finalize_plan" => {
                let mut round = Round::default();
                match self.task.evaluate_draft(self.draft(), &mut round) {
                    DraftVerdict::Valid(good) => {
                        let repairs = self.repairs.drain(..).chain(round.repairs).collect();
                        ToolResult::Done((good, repairs))
                    }
                    DraftVerdict::Invalid { issues, .. } => ToolResult::Answer(answer("checked", &issues)),
                    DraftVerdict::Unparseable { reason } => ToolResult::Answer(refused(&reason, "add steps")),
                }
            }
            _ => ToolResult::Answer(self.answer(name, arguments).unwrap_or_else(|refusal| refusal)),
        }
    }
}

/// The changes of a running plan.
pub struct RevisionTarget<'a> {
    request: &'a ReviseRequest,
    replan: ReplanContext<'a>,
    actions: goalmill_reader::ToolCatalogue,
    changes: Vec<Value>,
}

impl<'a> RevisionTarget<'a> {
    pub fn new(request: &'a ReviseRequest, actions: goalmill_reader::ToolCatalogue) -> Self {
        Self { request, replan: ReplanContext::new(request), actions, changes: Vec::new() }
    }

    /// Takes a change on, if the plan still holds with it.
    fn apply_change(&mut self, change: Value) -> Value {
        if self.changes.len() >= ENTRIES_MAX {
            return refused("there are too many changes", "call `finalize_plan`");
        }
        self.changes.push(change);
        let issues = match self.held("workaround", "") {
            Ok(_) => Vec::new(),
            Err(issues) => {
                self.changes.pop();
                issues
            }
        };
        answer("taken", &issues)
    }

    /// The proposal, and what was repaired in it.
    fn held(&self, strategy: &str, summary: &str) -> Result<(Proposal, Vec<Edit>), Vec<Issue>> {
        let proposal = json!({"strategy": strategy, "summary": summary, "changes": self.changes});
        let mut repairs = Vec::new();
        let held =
            parse_proposal(&proposal, &self.replan, &self.actions, &mut repairs).map_err(|(_, issues)| issues)?;
        Ok((held, repairs))
    }

    fn results(&self, phase: &str) -> Value {
        let situation = &self.request.situation;
        let of_phase = situation.plan.steps.iter().filter(|step| step.phase.as_deref().unwrap_or_default() == phase);
        let result = |step: &goalmill_common::plan::Step| {
            let at = situation.steps.get(&step.id)?;
            let outputs =
                at.outputs.as_ref().map(|json| json.text().chars().take(RESULT_CHARS_MAX).collect::<String>());
            Some(json!({"step": step.id, "status": at.status, "outputs": outputs}))
        };
        json!({"results": of_phase.filter_map(result).collect::<Vec<_>>()})
    }

    fn status(&self) -> Value {
        let situation = &self.request.situation;
        let steps = situation.plan.steps.iter().map(|step| {
            let at = situation.steps.get(&step.id);
            json!({"step": step, "status": at.map(|at| at.status),
                   "failure": at.and_then(|at| at.failure.as_ref()).map(|failure| failure.message.clone())})
        });
        json!({"steps": steps.collect::<Vec<_>>(), "changes": self.changes})
    }
}

impl ToolTarget for RevisionTarget<'_> {
    type Done = (Proposal, Vec<Edit>);

    fn call(&mut self, name: &str, arguments: &Map<String, Value>) -> ToolResult<Self::Done> {
        let body = || Value::Object(arguments.clone());
        let phase = || {
            let mut body = Map::from_iter([("phase".to_owned(), Value::Object(phase_of(arguments)?))]);
            body.extend(arguments.get("after").map(|after| ("after".to_owned(), after.clone())));
            Ok::<_, Value>(json!({ "add_phase": body }))
        };
        ToolResult::Answer(match name {
            "abort_plan" => {
                let mut proposal = Proposal::new(RevisionStrategy::Abort, Vec::new());
                proposal.summary = text(arguments, "reason");
                return ToolResult::Done((proposal, Vec::new()));
            }
            "finalize_plan" if self.changes.is_empty() && self.request.situation.wants_part() => {
                let mut proposal = Proposal::new(RevisionStrategy::ReplanRemaining, Vec::new());
                proposal.summary = text(arguments, "summary");
                return ToolResult::Done((proposal, Vec::new()));
            }
            "finalize_plan" if self.changes.is_empty() => {
                return ToolResult::GivenUp("the model sees nothing to change".into());
            }
            "finalize_plan" => match self.held(&text(arguments, "strategy"), &text(arguments, "summary")) {
                Ok(done) => return ToolResult::Done(done),
                Err(issues) => answer("checked", &issues),
            },
            "retry_step" | "skip_step" | "replace_step" | "skip_phase" => self.apply_change(json!({ name: body() })),
            "add_step" => self.apply_change(json!({"add_step": {"step": body()}})),
            "modify_step" => {
                let mut fields = arguments.clone();
                let step = fields.remove("id").or_else(|| fields.remove("step")).unwrap_or_default();
                self.apply_change(json!({"set_fields": {"step": step, "fields": fields}}))
            }
            "remove_step" => {
                let step = arguments.get("id").or_else(|| arguments.get("step")).cloned().unwrap_or_default();
                self.apply_change(json!({"remove_step": {"step": step}}))
            }
            "add_phase" | "insert_phase_after" => {
                phase().map_or_else(|refusal| refusal, |change| self.apply_change(change))
            }
            "get_plan_status" => self.status(),
            "get_phase_results" => self.results(&text(arguments, "phase")),
            _ => refused(&format!("there is no tool `{name}`"), "call one of those that were named"),
        })
    }
}

fn is_about_phase(issues: &[Issue], at: usize) -> bool {
    let place = format!("/phases/{at}");
    issues.iter().any(|issue| issue.pointer == place || issue.pointer.starts_with(&format!("{place}/")))
}

/// The phase of a call, also where the call wraps it as `{"phase": {"id": …}}`; refused when it has no usable id.
fn phase_of(arguments: &Map<String, Value>) -> Result<Map<String, Value>, Value> {
    let mut phase = match arguments.get("phase") {
        Some(Value::Object(inner)) => inner.clone(),
        Some(_) | None => arguments.clone(),
    };
    phase.remove("after");
    let mut phase = canonical_phase(phase);
    let known = ["id", "description", "checkpoint"];
    if let Some(key) = phase.keys().find(|key| !known.contains(&key.as_str())) {
        return Err(refused(&format!("a phase has no field `{key}`"), "give `id`, `description` and `checkpoint`"));
    }
    let id = text(&phase, "id");
    if !is_id(&id) {
        return Err(refused(&format!("`{id}` is not the id of a phase"), "give it an `id` such as `search`"));
    }
    phase.insert("id".into(), json!(id));
    Ok(phase)
}

fn text(arguments: &Map<String, Value>, key: &str) -> String {
    arguments.get(key).and_then(Value::as_str).unwrap_or_default().trim().to_owned()
}

fn answer(what: &str, issues: &[Issue]) -> Value {
    match issues {
        [] => json!({"ok": true, "done": what}),
        _ => json!({"ok": false, "issues": shown(issues)}),
    }
}

fn refused(detail: &str, hint: &str) -> Value {
    json!({"ok": false, "issues": [{"detail": detail, "hint": hint}]})
}

/// Issues as the model sees them.
fn shown(issues: &[Issue]) -> Value {
    issues
        .iter()
        .take(20)
        .map(|issue| json!({"at": issue.pointer, "detail": issue.detail, "hint": issue.hint}))
        .collect()
}
