//! Views of a plan's state: summary, steps, results, fields of the summary in Redis.

use std::collections::BTreeSet;

use goalmill_common::clock::rfc3339;
use goalmill_common::goal::Usage;
use goalmill_common::id::AgentType;
use goalmill_common::json::Json;
use goalmill_common::plan::{Phase, Question, StepKind};
use goalmill_common::status::{Counts, PhaseStatus, PlanStatus, StepStatus};
use goalmill_common::view::{
    self, AwaitedEventView, PhaseView, PlanSummary, PlanView, ProposalView, QuestionView, Results,
    SUMMARY_AGENT_TYPES_MAX, StepView, WaitSummary,
};
use serde_json::{Map, Value};

use crate::budget::model_calls;
use crate::due_time::at;
use crate::graph::StepIndex;
use crate::graph::phases::PhaseState;
use crate::people::awaited;
use crate::revise::revising;
use crate::state::StepState;
use crate::{PlanState, constraints, criteria, sub_plan, wait};

/// The changing fields of a plan's summary as last written.
#[derive(Clone, Debug, PartialEq)]
pub struct SummarySnapshot {
    status: PlanStatus,
    revision: u32,
    counts: Counts,
    usage: Usage,
    planned: bool,
    begun: bool,
    waits: Option<WaitSummary>,
    seq: u64,
}

/// Which steps a view has: those with a status, without the first `offset` of them, and at most `limit`.
#[derive(Clone, Copy, Debug)]
pub struct StepWindow {
    /// `None`: every status.
    pub status: Option<StepStatus>,
    pub offset: usize,
    pub limit: usize,
}

impl PlanState {
    /// The plan's summary view.
    pub fn summary(&self) -> PlanSummary {
        PlanSummary {
            namespace: self.namespace(),
            plan_id: self.id().clone(),
            status: self.status,
            name: self.name().into(),
            revision: self.revision,
            counts: self.counts,
            progress: self.progress(),
            usage: self.usage,
            created_at: rfc3339(self.created_ms()),
            updated_at: rfc3339(self.updated_ms),
            finished_at: at(self.finished_ms).map(rfc3339),
            execution_seconds: self.execution_seconds(),
            seq: self.seq,
            waits: awaited::wait_summary(self),
            parent: self.parent().map(|parent| parent.plan.clone()),
            agent_types: self.agent_types(),
            plans_inside: 0,
        }
    }

    /// The agent types of its steps, sorted, as many as a summary names.
    fn agent_types(&self) -> Vec<AgentType> {
        let all: BTreeSet<&AgentType> = self.plan.steps().map(|spec| &spec.agent_type).collect();
        let named = all.into_iter().filter(|agent_type| !agent_type.as_str().is_empty());
        named.take(SUMMARY_AGENT_TYPES_MAX).cloned().collect()
    }

    /// The plan with its steps.
    ///
    /// - `include_outputs`: outputs may be large; without them a view of 10,000 steps stays readable.
    pub fn view(&self, include_outputs: bool) -> PlanView {
        self.view_of_steps(include_outputs, StepWindow { status: None, offset: 0, limit: usize::MAX })
    }

    /// The plan with some of its steps.
    pub fn view_of_steps(&self, include_outputs: bool, window: StepWindow) -> PlanView {
        let StepWindow { status, offset, limit } = window;
        let fits = |(_, step): &(usize, &StepState)| status.is_none_or(|wanted| step.status() == wanted);
        let show = |(i, step)| self.step_view(i, step, include_outputs);
        PlanView {
            summary: self.summary(),
            goal: self.accepted.goal.clone(),
            planner: self.origin.planner.clone(),
            planner_note: self.origin.note.as_deref().unwrap_or_default().to_owned(),
            goal_read: self.goal_read.clone(),
            confidence: self.origin.confidence,
            strategy: self.plan.definition().strategy,
            failure: self.ended().and_then(|ended| ended.failure.clone()),
            reason: self.ended().map(|ended| ended.reason.clone()).unwrap_or_default(),
            proposal: revising::proposed(self).map(|proposed| ProposalView {
                revision: proposed.revision,
                strategy: proposed.proposal.strategy,
                summary: proposed.proposal.summary.clone(),
                changes: proposed.changes.clone(),
                widens: proposed.widens.clone(),
                confidence_before: proposed.confidence_before,
                confidence_after: proposed.confidence_after,
                due_at: rfc3339(proposed.due_ms),
            }),
            decision: awaited::decision_view(self),
            question: self.question_view(),
            constraints: constraints::constraint_views(self, at(self.finished_ms).unwrap_or(self.updated_ms)),
            criteria: criteria::verdicts(self),
            forked_from: self.origin.fork.as_ref().map(|fork| fork.plan.clone()),
            model_calls: model_calls::count_model_calls(self),
            current_steps: self.steps_in_flight().map(|i| self.plan.step(i).id.clone()).collect(),
            phases: self.phase_views(),
            final_output: self.final_output().filter(|_| include_outputs),
            steps: self.steps.iter().enumerate().filter(fits).skip(offset).take(limit).map(show).collect(),
        }
    }

    fn question_view(&self) -> Option<QuestionView> {
        let due_at = rfc3339(self.waiting.due_ms().unwrap_or_default());
        let asked = revising::open_question(self).map(|asked| (asked.id.clone(), asked.question.clone()));
        let (id, question) = asked.or_else(|| criteria::criterion_question(self))?;
        let Question { question, schema, default, .. } = question;
        Some(QuestionView { id, question, schema, default, due_at })
    }

    fn step_view(&self, i: usize, step: &StepState, include_outputs: bool) -> StepView {
        let spec = self.plan.step(StepIndex::new(i));
        let run = step.run();
        StepView {
            id: spec.id.clone(),
            description: spec.description.clone(),
            kind: spec.kind,
            agent_type: self.queue(StepIndex::new(i)).unwrap_or(&spec.agent_type).clone(),
            action: spec.action.clone(),
            status: step.status(),
            attempt: step.attempt(),
            dependencies: spec.dependencies.clone(),
            dependency_status: spec.dependency_status.clone(),
            phase: spec.phase.clone(),
            undoes: spec.undoes.clone(),
            always: spec.always,
            worker: step.worker().cloned(),
            queued_at: at(step.queued_ms()).map(rfc3339),
            started_at: at(step.started_ms()).map(rfc3339),
            finished_at: step.run().finished_ms().map(rfc3339),
            due_at: step.due_ms().map(rfc3339),
            progress: step.progress(),
            message: step.message().map(str::to_owned),
            outputs: step.outputs().filter(|_| include_outputs).cloned(),
            partial: step.is_partial(),
            errors: step.errors().to_vec(),
            suggested_adjustments: run.result().map(|result| result.suggested().to_vec()).unwrap_or_default(),
            duration_ms: (step.status() == StepStatus::Completed && step.started_ms() > 0)
                .then(|| step.run().finished_ms().unwrap_or_default().saturating_sub(step.started_ms())),
            failure: step.failure().cloned(),
            reason: self.reason_of(step).into(),
            question: run.question().map(|question| QuestionView {
                id: spec.id.to_string(),
                question: question.to_owned(),
                schema: match run.suspended() {
                    Some(suspended) => suspended.call.wait.schema.clone(),
                    None => spec.ask.as_ref().and_then(|ask| ask.schema.clone()),
                },
                default: spec.ask.as_ref().and_then(|ask| ask.default.clone()),
                due_at: step.due_ms().map(rfc3339).unwrap_or_default(),
            }),
            decision: awaited::step_decision_view(self, StepIndex::new(i)),
            awaits: wait::awaited_event(self, StepIndex::new(i)).map(|(event, key)| AwaitedEventView {
                event: event.to_owned(),
                key: key.to_owned(),
                schema: spec.wait.as_ref().and_then(|wait| wait.schema.clone()),
            }),
            sub_plan: (run.awaits_plan() || (step.attempt() > 0 && spec.kind == StepKind::Plan))
                .then(|| sub_plan::sub_plan_id(self, StepIndex::new(i))),
        }
    }

    /// Why a step is blocked, skipped or cancelled. Steps that the plan's end has cancelled share one reason.
    pub(crate) fn reason_of<'s>(&self, step: &'s StepState) -> &'s str {
        match (step.run().reason(), step.status(), self.status) {
            ("", StepStatus::Cancelled, PlanStatus::Failed) => "the plan failed",
            ("", StepStatus::Cancelled, PlanStatus::Cancelled) => "the plan was cancelled",
            ("", StepStatus::Cancelled, PlanStatus::Rejected) => "the plan was rejected",
            (reason, ..) => reason,
        }
    }

    /// The outputs and failures of the plan's steps.
    pub fn results(&self) -> Results {
        let mut results = Map::new();
        for (spec, step) in self.plan.steps().zip(&self.steps) {
            if let Some(outputs) = &step.outputs() {
                results.insert(spec.id.to_string(), outputs.value());
            }
        }
        Results {
            plan_id: self.id().clone(),
            status: self.status,
            counts: self.counts,
            usage: self.usage,
            results,
            failures: self.failures(),
            constraints: constraints::constraint_views(self, at(self.finished_ms).unwrap_or(self.updated_ms)),
            criteria: criteria::verdicts(self),
            final_output: self.final_output(),
            execution_seconds: self.execution_seconds(),
        }
    }

    /// Outputs by step id as JSON, with as little work as possible.
    pub fn outputs_json(&self) -> Json {
        let mut text = String::from("{");
        for (spec, step) in self.plan.steps().zip(&self.steps) {
            let Some(outputs) = &step.outputs() else { continue };
            if text.len() > 1 {
                text.push(',');
            }
            // An id has no character that JSON escapes.
            text.extend(["\"", spec.id.as_str(), "\":", outputs.text()]);
        }
        text.push('}');
        Json::from_text(text).unwrap_or_else(|_| Json::empty_object())
    }

    /// Failures by step id.
    pub fn failures(&self) -> Map<String, Value> {
        let mut failures = Map::new();
        for (spec, step) in self.plan.steps().zip(&self.steps) {
            if let (StepStatus::Failed | StepStatus::Skipped, Some(failure)) = (step.status(), step.failure()) {
                failures.insert(spec.id.to_string(), serde_json::to_value(failure).unwrap_or(Value::Null));
            } else if let Some(error) = step.errors().first() {
                failures.insert(spec.id.to_string(), serde_json::to_value(error).unwrap_or(Value::Null));
            }
        }
        failures
    }

    fn execution_seconds(&self) -> Option<f64> {
        view::execution_seconds(self.begun_ms, at(self.finished_ms).unwrap_or(self.updated_ms))
    }

    /// The output of an ended plan as a whole.
    pub fn final_output(&self) -> Option<Json> {
        let steps = self.plan.steps().zip(&self.steps).filter(|(_, step)| step.status() == StepStatus::Completed);
        let completed = steps.filter_map(|(spec, step)| {
            Some((spec.kind, step.run().finished_ms().unwrap_or_default(), step.outputs()?))
        });
        view::final_output(completed).filter(|_| self.is_final()).cloned()
    }

    fn phase_views(&self) -> Vec<PhaseView> {
        let phases = self.plan.definition().phases.iter().zip(self.phases.states()).enumerate();
        let show = |(place, (spec, phase)): (usize, (&Phase, &PhaseState))| PhaseView {
            id: spec.id.clone(),
            description: spec.description.clone(),
            status: self.phase_status(place, *phase),
            open: phase.open,
            completed: phase.completed,
            failed: phase.failed,
        };
        phases.map(show).collect()
    }

    /// A phase of an ended plan that did not end itself has failed if it had begun, and was skipped otherwise.
    fn phase_status(&self, place: usize, phase: PhaseState) -> PhaseStatus {
        let is_over = place < self.phases.current() && phase.open == 0;
        match (phase.begun, is_over, self.is_final()) {
            (false, false, false) => PhaseStatus::Pending,
            (true, false, false) => PhaseStatus::Running,
            (false, _, _) => PhaseStatus::Skipped,
            (true, true, _) if phase.failed > 0 => PhaseStatus::Failed,
            (true, true, _) if phase.completed > 0 => PhaseStatus::Completed,
            (true, true, _) => PhaseStatus::Skipped,
            (true, false, true) => PhaseStatus::Failed,
        }
    }

    /// The fields that the summary in Redis has once it is written.
    pub fn shown(&self) -> SummarySnapshot {
        SummarySnapshot {
            status: self.status,
            revision: self.revision,
            counts: self.counts,
            usage: self.usage,
            planned: self.origin.created,
            begun: self.begun_ms > 0,
            waits: awaited::wait_summary(self),
            seq: self.seq,
        }
    }

    /// Whether something happened since the summary was written.
    pub fn is_ahead_of(&self, shown: &SummarySnapshot) -> bool {
        self.seq != shown.seq
    }

    /// Whether the summary must be written immediately: the status or the revision changed, or the plan was created.
    /// Changes of counts and usage may wait.
    pub fn needs_summary_update(&self, shown: &SummarySnapshot) -> bool {
        (self.status, self.revision, self.origin.created) != (shown.status, shown.revision, shown.planned)
    }

    /// Fields of the summary in Redis.
    ///
    /// - `shown`: fields with these values are left out; `None` returns every field.
    pub fn summary_fields(&self, shown: Option<&SummarySnapshot>) -> Vec<(&'static str, String)> {
        let mut fields = Vec::with_capacity(if shown.is_none() { 12 } else { 4 });
        if shown.is_none_or(|shown| shown.status != self.status) {
            fields.push(("status", self.status.as_str().to_owned()));
        }
        if shown.is_none_or(|shown| shown.revision != self.revision) {
            fields.push(("revision", self.revision.to_string()));
        }
        if shown.is_none_or(|shown| shown.counts != self.counts) {
            fields.push(("counts", serde_json::to_string(&self.counts).expect("counts always have a JSON text")));
            fields.push(("progress", self.progress().to_string()));
        }
        if shown.is_none_or(|shown| shown.usage != self.usage) {
            fields.push(("cost", self.usage.cost.to_string()));
            fields.push(("tokens", self.usage.tokens.to_string()));
        }
        if self.begun_ms > 0 && shown.is_none_or(|shown| !shown.begun) {
            fields.push(("begun", rfc3339(self.begun_ms)));
        }
        let waits = awaited::wait_summary(self);
        // Without a value, nothing waits any more; a new owner does not know what the last one wrote.
        if shown.is_none_or(|shown| shown.waits != waits) {
            let text = waits.map(|waits| serde_json::to_string(&waits).expect("a wait always has a JSON text"));
            fields.push(("waits", text.unwrap_or_default()));
        }
        // A goal gets the name of its plan once it has one.
        if shown.is_none_or(|shown| shown.planned != self.origin.created) {
            fields.push(("name", self.name().to_owned()));
        }
        let version = (self.origin.created, self.revision);
        if shown.is_none_or(|shown| (shown.planned, shown.revision) != version) {
            let agent_types: Vec<String> = self.agent_types().iter().map(ToString::to_string).collect();
            fields.push(("agents", agent_types.join(" ")));
        }
        if shown.is_none() {
            fields.push(("created", rfc3339(self.created_ms())));
            fields.extend(self.parent().map(|parent| ("parent", parent.plan.to_string())));
            let namespace = self.namespace();
            if !namespace.is_default() {
                fields.push(("namespace", namespace.to_string()));
            }
            let fingerprint = self.accepted.fingerprint.as_str();
            if !fingerprint.is_empty() {
                fields.push(("fingerprint", fingerprint.to_owned()));
            }
        }
        fields.extend(at(self.finished_ms).map(|ms| ("finished", rfc3339(ms))));
        fields
    }

    /// Share of final steps, 0 to 1; 0 before there is a plan.
    fn progress(&self) -> f64 {
        if self.origin.created { self.counts.progress() } else { 0.0 }
    }

    fn name(&self) -> &str {
        if self.plan.definition().name.is_empty() {
            &self.accepted.goal.description
        } else {
            &self.plan.definition().name
        }
    }
}
