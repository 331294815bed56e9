//! The spans of one plan, from its events in their order.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use goalmill_common::config::ModelSettings;
use goalmill_common::event::{Event, GoalAccepted, ModelAnswered, PlanEvent, PlanEventKind, Record, StepEvent};
use goalmill_common::failure::Failure;
use goalmill_common::goal::Usage;
use goalmill_common::id::{PlanId, StepId};
use goalmill_common::trace::TraceContext;
use opentelemetry::KeyValue;
use opentelemetry::trace::SpanKind;

use super::span::{self, ERROR_TYPE, Span};
use super::{genai, sampled};

const STATUS: &str = "goalmill.status";
const AGENT_TYPE: &str = "goalmill.agent_type";

/// Builds the spans of a plan from its log.
pub(super) struct PlanTrace {
    models: Arc<[ModelSettings]>,
    /// `None` before the first event, and for unsampled traces.
    plan: Option<Begun>,
    finished: Vec<Span>,
}

/// A sampled plan.
struct Begun {
    id: PlanId,
    root: Span,
    planning: Option<Span>,
    revision: Option<Span>,
    validation_ms: u64,
    /// Open approvals of the plan and of steps.
    approvals: BTreeMap<Option<StepId>, u64>,
    /// When each open model call began and the span around it, by revision, planner and call.
    calls: BTreeMap<(u32, String, u32), (u64, u64)>,
    steps: BTreeMap<StepId, StepTrace>,
}

#[derive(Default)]
struct StepTrace {
    ready_ms: u64,
    /// The current attempt.
    attempt: Option<Attempt>,
    /// The previous attempt.
    last: Option<TraceContext>,
}

struct Attempt {
    span: Span,
    number: u32,
    queued_ms: u64,
    started_ms: Option<u64>,
    worker: Option<String>,
    /// Of its recorded calls.
    calls: Usage,
    /// Whether a worker runs it; other steps are run by the engine or are sub-plans.
    is_sent: bool,
}

/// How an attempt ended.
#[derive(Default)]
struct End<'a> {
    status: &'static str,
    failure: Option<&'a Failure>,
    finished_ms: Option<u64>,
    usage: Usage,
}

impl PlanTrace {
    pub(super) fn new(models: Arc<[ModelSettings]>) -> Self {
        Self { models, plan: None, finished: Vec::new() }
    }

    /// The spans that have ended since the last call.
    pub(super) fn finished(&mut self) -> impl Iterator<Item = Span> {
        std::mem::take(&mut self.finished).into_iter()
    }

    /// Adds the next event of the log.
    pub(super) fn add(&mut self, record: &Record) {
        if let Event::Plan(PlanEvent::GoalAccepted(accepted)) = &record.event {
            self.plan = Begun::new(accepted, record.time_ms);
        }
        let Some(plan) = &mut self.plan else { return };
        match &record.event {
            Event::Plan(event) => plan.add_plan_event(event, record.time_ms, &self.models, &mut self.finished),
            Event::Step { step, attempt, event, phase: _ } => {
                plan.take_step(step, *attempt, event, record.time_ms, &mut self.finished);
            }
        }
    }
}

impl Begun {
    fn new(accepted: &GoalAccepted, now_ms: u64) -> Option<Self> {
        let given = sampled(accepted.traceparent.as_deref())?;
        let id = accepted.plan_id.clone();
        let context = given.with_span(span::plan_span(&id));
        let (parent, is_parent_remote) = match &accepted.parent {
            Some(parent) => (span::attempt_span(&parent.plan, &parent.step, parent.attempt), false),
            // Without a given context it is the root span.
            None if given == context => (0, false),
            None => (given.span_id, true),
        };
        let mut root = Span { is_parent_remote, ..Span::new(context, parent, "plan", now_ms, now_ms) };
        root.attributes.push(KeyValue::new("goalmill.plan.id", id.to_string()));
        root.attributes.push(KeyValue::new("goalmill.source", accepted.source.clone()));
        let planning = Some(Span::new(inner(context, &id, "planning", 0), context.span_id, "planning", now_ms, now_ms));
        Some(Self {
            id,
            root,
            planning,
            revision: None,
            validation_ms: now_ms,
            approvals: BTreeMap::new(),
            calls: BTreeMap::new(),
            steps: BTreeMap::new(),
        })
    }

    /// A span of the plan that began at `start_ms` and ends now.
    fn span(&self, name: impl Into<Cow<'static, str>>, about: &str, start_ms: u64, now_ms: u64) -> Span {
        let name = name.into();
        let context = inner(self.root.context, &self.id, &format!("{name} {about}"), start_ms);
        Span::new(context, self.root.context.span_id, name, start_ms, now_ms)
    }

    fn add_plan_event(&mut self, event: &PlanEvent, now_ms: u64, models: &[ModelSettings], out: &mut Vec<Span>) {
        if let PlanEvent::ModelAsked(asked) = event {
            self.calls.insert((asked.revision, asked.planner.clone(), asked.call), (now_ms, self.around_calls()));
        } else if let PlanEvent::ModelAnswered(answered) = event {
            out.push(self.call(answered, now_ms, models));
        } else if let PlanEvent::PlanCreated(created) = event {
            self.validation_ms = now_ms;
            if let Some(planning) = &mut self.planning {
                planning.attributes.push(KeyValue::new("goalmill.planner", created.planner.clone()));
                planning.attributes.push(KeyValue::new("goalmill.confidence", created.confidence));
            }
            if !created.open {
                self.end_planning(now_ms, None, out);
            }
        } else if event.completes_planning() {
            self.end_planning(now_ms, None, out);
        } else if let PlanEvent::PlanValidated(_) = event {
            out.push(self.span("validation", "", self.validation_ms, now_ms));
        } else if let PlanEvent::PlanningFailed(_) = event {
            let failed = Some("PLANNING_FAILED");
            if self.planning.is_some() {
                self.end_planning(now_ms, failed, out);
            } else {
                self.end_revision(now_ms, failed, out);
            }
        } else if let PlanEvent::ApprovalRequested(_) = event {
            self.approvals.insert(None, now_ms);
        } else if let PlanEvent::Approved(_) = event {
            self.end_approval(None, "approved", now_ms, out);
        } else if let PlanEvent::ReplanTriggered(trigger) = event {
            self.end_revision(now_ms, None, out);
            let mut revision = self.span("revision", "", now_ms, now_ms);
            revision.attributes.push(KeyValue::new("goalmill.trigger", trigger.trigger.clone()));
            self.revision = Some(revision);
        } else if let PlanEvent::Revised(revised) = event {
            if let Some(revision) = &mut self.revision {
                revision.name = format!("revision {}", revised.revision).into();
            }
            self.end_revision(now_ms, None, out);
        } else if matches!(event, PlanEvent::RevisionRefused(refused) if refused.due_ms == 0) {
            self.end_revision(now_ms, Some("revision_refused"), out);
        } else if let PlanEvent::Rejected(_) = event {
            self.end_approval(None, "rejected", now_ms, out);
            self.end("rejected", None, now_ms, out);
        } else if let PlanEvent::Completed(end) | PlanEvent::Failed(end) | PlanEvent::Cancelled(end) = event {
            self.end(end.status.as_str(), end.failure.as_ref(), now_ms, out);
        } else if is_span_event(event.kind()) {
            self.root.events.push((event.type_name().into(), now_ms));
        }
    }

    /// The id of the open span that model calls belong to.
    fn around_calls(&self) -> u64 {
        self.revision.as_ref().or(self.planning.as_ref()).unwrap_or(&self.root).context.span_id
    }

    fn call(&mut self, answered: &ModelAnswered, now_ms: u64, models: &[ModelSettings]) -> Span {
        let key = (answered.revision, answered.planner.clone(), answered.call);
        let around = self.around_calls();
        let (start_ms, began_in) = self.calls.remove(&key).unwrap_or((now_ms, around));
        let (name, mut attributes) = genai::describe(answered, models);
        attributes.push(KeyValue::new("goalmill.planner", answered.planner.clone()));
        let about = format!("{} {} {}", answered.revision, answered.planner, answered.call);
        Span {
            // A call outlasts a revision that another trigger replaced.
            parent: if began_in == around { around } else { self.root.context.span_id },
            kind: SpanKind::Client,
            attributes,
            error: Some(answered.error.clone()).filter(|error| !error.is_empty()),
            ..self.span(name, &about, start_ms, now_ms)
        }
    }

    fn end_planning(&mut self, now_ms: u64, error: Option<&str>, out: &mut Vec<Span>) {
        out.extend(self.planning.take().map(|span| ended(span, now_ms, error)));
    }

    fn end_revision(&mut self, now_ms: u64, error: Option<&str>, out: &mut Vec<Span>) {
        out.extend(self.revision.take().map(|span| ended(span, now_ms, error)));
    }

    fn end_approval(&mut self, step: Option<&StepId>, decision: &'static str, now_ms: u64, out: &mut Vec<Span>) {
        let Some(start_ms) = self.approvals.remove(&step.cloned()) else { return };
        let mut span = self.span("approval", step.map_or("", StepId::as_str), start_ms, now_ms);
        span.attributes.push(KeyValue::new("goalmill.decision", decision));
        span.attributes.extend(step.map(|step| KeyValue::new("goalmill.step.id", step.to_string())));
        out.push(span);
    }

    /// Ends the span of the plan and all open spans in it.
    fn end(&mut self, status: &'static str, failure: Option<&Failure>, now_ms: u64, out: &mut Vec<Span>) {
        self.end_planning(now_ms, None, out);
        self.end_revision(now_ms, None, out);
        let awaited: Vec<Option<StepId>> = self.approvals.keys().cloned().collect();
        for step in awaited {
            self.end_approval(step.as_ref(), "none", now_ms, out);
        }
        for (step, state) in std::mem::take(&mut self.steps) {
            if let Some(attempt) = state.attempt {
                let end = End { status: "cancelled", ..End::default() };
                out.extend(attempt.end(&self.id, &step, &end, now_ms));
            }
        }
        let mut root = self.root.clone();
        root.attributes.push(KeyValue::new(STATUS, status));
        note_failure(&mut root, failure);
        out.push(ended(root, now_ms, None));
    }

    fn take_step(&mut self, id: &StepId, number: u32, event: &StepEvent, now_ms: u64, out: &mut Vec<Span>) {
        if let StepEvent::Ready = event {
            self.steps.entry(id.clone()).or_default().ready_ms = now_ms;
        } else if let StepEvent::Queued(queued) = event {
            self.begin_attempt(id, number, queued.agent_type.as_str(), now_ms);
        } else if let StepEvent::Started(started) = event {
            let step = self.steps.get_mut(id);
            if let Some(attempt) = step.and_then(|step| step.attempt.as_mut()) {
                attempt.started_ms = Some(started.started_ms);
                attempt.worker = started.worker.as_ref().map(ToString::to_string);
            }
        } else if let StepEvent::CallRecorded(_) = event {
            if let Some(attempt) = self.steps.get_mut(id).and_then(|step| step.attempt.as_mut()) {
                let usage = event.usage();
                attempt.calls.add(usage.cost, usage.tokens);
            }
        } else if let StepEvent::ApprovalRequested(_) = event {
            self.approvals.insert(Some(id.clone()), now_ms);
        } else if let StepEvent::Approved(_) = event {
            self.end_approval(Some(id), "approved", now_ms, out);
        } else if let Some(status) = event.outcome() {
            let (failure, finished_ms, usage) = (event.failure(), event.finished_ms(), event.usage());
            self.end_attempt(id, &End { status, failure, finished_ms, usage }, now_ms, out);
        }
    }

    fn begin_attempt(&mut self, id: &StepId, number: u32, agent_type: &str, now_ms: u64) {
        let step = self.steps.entry(id.clone()).or_default();
        let context = self.root.context.with_span(span::attempt_span(&self.id, id, number));
        let ready_ms = if step.ready_ms == 0 { now_ms } else { step.ready_ms };
        let mut span = Span::new(context, self.root.context.span_id, format!("step {id}"), ready_ms, now_ms);
        span.links.extend(step.last);
        span.attributes.extend([
            KeyValue::new("goalmill.step.id", id.to_string()),
            KeyValue::new("goalmill.attempt", i64::from(number)),
        ]);
        if !agent_type.is_empty() {
            span.attributes.push(KeyValue::new(AGENT_TYPE, agent_type.to_owned()));
        }
        let is_sent = !agent_type.is_empty();
        step.last = Some(context);
        let (calls, worker) = (Usage::default(), None);
        step.attempt = Some(Attempt { span, number, queued_ms: now_ms, started_ms: None, worker, calls, is_sent });
    }

    /// A decomposed step becomes a sub-plan within its attempt.
    fn end_attempt(&mut self, id: &StepId, end: &End<'_>, now_ms: u64, out: &mut Vec<Span>) {
        let Some(attempt) = self.steps.get_mut(id).and_then(|step| step.attempt.take()) else { return };
        out.extend(attempt.end(&self.id, id, end, now_ms));
    }
}

impl Attempt {
    /// The spans of the attempt and its parts.
    fn end(mut self, plan: &PlanId, step: &StepId, end: &End<'_>, now_ms: u64) -> Vec<Span> {
        let mut spans = Vec::with_capacity(5);
        if self.is_sent {
            let (ready_ms, queued_ms) = (self.span.start_ms, self.queued_ms);
            spans.push(self.part(plan, step, "dispatch", ready_ms, queued_ms));
            spans.push(self.part(plan, step, "queue", queued_ms, self.started_ms.unwrap_or(now_ms)));
            if let Some(started_ms) = self.started_ms {
                // Only a completion has the finish time of the worker.
                let finished_ms = end.finished_ms.unwrap_or(now_ms);
                let context = self.span.context.with_span(span::execution_span(plan, step, self.number));
                let mut execution = Span::new(context, self.span.context.span_id, "execution", started_ms, finished_ms);
                execution.kind = SpanKind::Consumer;
                execution.attributes.extend(self.worker.take().map(|id| KeyValue::new("goalmill.worker.id", id)));
                note_failure(&mut execution, end.failure);
                spans.push(execution);
                spans.push(self.part(plan, step, "commit", finished_ms, now_ms));
            }
        }
        self.span.attributes.push(KeyValue::new(STATUS, end.status));
        let mut usage = self.calls;
        usage.add(end.usage.cost, end.usage.tokens);
        if usage.cost > 0.0 {
            self.span.attributes.push(span::cost(usage.cost));
        }
        if usage.tokens > 0 {
            self.span.attributes.push(span::tokens(usage.tokens));
        }
        note_failure(&mut self.span, end.failure);
        spans.push(ended(self.span, now_ms, None));
        spans
    }

    fn part(&self, plan: &PlanId, step: &StepId, name: &'static str, start_ms: u64, end_ms: u64) -> Span {
        let number = self.number.to_string();
        let id = span::span_id(&[name, plan.as_str(), step.as_str(), &number]);
        Span::new(self.span.context.with_span(id), self.span.context.span_id, name, start_ms, end_ms)
    }
}

/// Whether an event without a span of its own is added to the plan's span.
fn is_span_event(kind: PlanEventKind) -> bool {
    match kind {
        PlanEventKind::Approval
        | PlanEventKind::Phase
        | PlanEventKind::Replanning
        | PlanEventKind::Change
        | PlanEventKind::Control => true,
        PlanEventKind::Submission
        | PlanEventKind::Planning
        | PlanEventKind::Creation
        | PlanEventKind::Contract
        | PlanEventKind::End => false,
    }
}

fn inner(around: TraceContext, plan: &PlanId, about: &str, start_ms: u64) -> TraceContext {
    around.with_span(span::span_id(&["inner", plan.as_str(), about, &start_ms.to_string()]))
}

fn ended(mut span: Span, now_ms: u64, error: Option<&str>) -> Span {
    span.end_ms = now_ms.max(span.start_ms);
    if let Some(error) = error {
        span.attributes.push(KeyValue::new(ERROR_TYPE, error.to_owned()));
        span.error = Some(error.to_owned());
    }
    span
}

/// The error of a span is the code only; messages may contain any data and stay in the log.
fn note_failure(span: &mut Span, failure: Option<&Failure>) {
    let Some(failure) = failure else { return };
    span.attributes.push(KeyValue::new(ERROR_TYPE, failure.code.clone()));
    span.attributes.push(KeyValue::new("goalmill.failure.class", failure.class.as_str()));
    span.error = Some(failure.code.clone());
}

#[cfg(test)]
mod tests {
    use goalmill_common::event::{ModelAsked, ReplanTriggered};
    use goalmill_common::goal::Goal;

    use super::*;

    fn asked(revision: u32) -> PlanEvent {
        PlanEvent::ModelAsked(ModelAsked { revision, planner: "llm".into(), call: 1, ..ModelAsked::default() }.into())
    }

    fn answered(revision: u32) -> PlanEvent {
        PlanEvent::ModelAnswered(
            ModelAnswered { revision, planner: "llm".into(), call: 1, ..ModelAnswered::default() }.into(),
        )
    }

    #[test]
    fn a_call_that_outlasts_its_revision_belongs_to_the_plan() {
        let accepted = GoalAccepted {
            plan_id: "p0-plan".into(),
            goal: Goal::default(),
            submission: String::new(),
            source: "urn:test".into(),
            secret: String::new(),
            salt: String::new(),
            fingerprint: String::new(),
            entry: None,
            parent: None,
            traceparent: Some(format!("00-{:032x}-{:016x}-01", 1, 2)),
            deadline_ms: 0,
        };
        let triggered = || PlanEvent::ReplanTriggered(ReplanTriggered::default().into());
        let events = [
            PlanEvent::GoalAccepted(accepted.into()),
            triggered(),
            asked(1),
            triggered(),
            answered(1),
            asked(2),
            answered(2),
            triggered(),
        ];
        let mut trace = PlanTrace::new(Arc::new([]));
        for (n, event) in (1..).zip(events) {
            trace.add(&Record { seq: n, time_ms: n, actor: None, event: Event::Plan(event) });
        }
        let root = trace.plan.as_ref().expect("it is sampled").root.context.span_id;
        let spans: Vec<Span> = trace.finished().collect();
        let revisions = spans.iter().filter(|span| span.name == "revision").map(|span| span.context.span_id);
        let around: Vec<u64> = revisions.collect();
        let calls: Vec<u64> =
            spans.iter().filter(|span| span.name.starts_with("chat")).map(|span| span.parent).collect();
        assert_eq!(calls, [root, around[1]]);
    }
}
