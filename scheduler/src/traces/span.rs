//! Spans and their ids, which derive from their subject, so that every process gets the same id.

use std::borrow::Cow;
use std::hash::Hasher;
use std::time::{Duration, SystemTime};

use goalmill_common::id::{PlanId, StepId};
use goalmill_common::number::to_u32;
use goalmill_common::trace::TraceContext;
use opentelemetry::trace::{Event, Link, SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};
use siphasher::sip128::{Hasher128, SipHasher24};

/// Events of one span; more are dropped and counted in it.
const EVENTS_MAX: usize = 128;

/// The error of a span.
pub(super) const ERROR_TYPE: &str = "error.type";

/// US dollars.
pub(super) fn cost(cost: f64) -> KeyValue {
    KeyValue::new("goalmill.cost_usd", cost)
}

/// Tokens of language models.
pub(super) fn tokens(tokens: u64) -> KeyValue {
    KeyValue::new("goalmill.tokens", integer(tokens))
}

/// Attributes have signed numbers.
pub(super) fn integer(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// The trace id of a plan without a given trace context.
pub(super) fn trace_id(instance: &str, plan: &PlanId) -> u128 {
    hash(&["trace", instance, plan.as_str()]).max(1)
}

/// The span of a plan as a whole.
pub(super) fn plan_span(plan: &PlanId) -> u64 {
    span_id(&["plan", plan.as_str()])
}

/// The span of one attempt of a step, from `ready` to its outcome.
pub(super) fn attempt_span(plan: &PlanId, step: &StepId, attempt: u32) -> u64 {
    span_id(&["attempt", plan.as_str(), step.as_str(), &attempt.to_string()])
}

/// The span of the execution of an attempt, within that of the attempt.
pub(super) fn execution_span(plan: &PlanId, step: &StepId, attempt: u32) -> u64 {
    span_id(&["execution", plan.as_str(), step.as_str(), &attempt.to_string()])
}

/// A span id from words that are unique in the trace.
#[expect(clippy::cast_possible_truncation, reason = "half of the hash is enough")]
pub(super) fn span_id(words: &[&str]) -> u64 {
    (hash(words) as u64).max(1)
}

fn hash(words: &[&str]) -> u128 {
    let mut hasher = SipHasher24::new();
    for word in words {
        hasher.write(word.as_bytes());
        hasher.write(&[0]);
    }
    hasher.finish128().as_u128()
}

/// A span that has ended. Times are Unix milliseconds.
#[derive(Clone, Debug)]
pub(super) struct Span {
    pub(super) context: TraceContext,
    /// 0 for the root span.
    pub(super) parent: u64,
    /// Whether the parent is from another program.
    pub(super) is_parent_remote: bool,
    pub(super) kind: SpanKind,
    pub(super) name: Cow<'static, str>,
    pub(super) start_ms: u64,
    pub(super) end_ms: u64,
    pub(super) attributes: Vec<KeyValue>,
    pub(super) events: Vec<(Cow<'static, str>, u64)>,
    pub(super) links: Vec<TraceContext>,
    /// Why it failed.
    pub(super) error: Option<String>,
}

impl Span {
    pub(super) fn new(
        context: TraceContext,
        parent: u64,
        name: impl Into<Cow<'static, str>>,
        start_ms: u64,
        end_ms: u64,
    ) -> Self {
        Self {
            context,
            parent,
            is_parent_remote: false,
            kind: SpanKind::Internal,
            name: name.into(),
            start_ms,
            // Clocks of two machines may differ; a span never ends before its start.
            end_ms: end_ms.max(start_ms),
            attributes: Vec::new(),
            events: Vec::new(),
            links: Vec::new(),
            error: None,
        }
    }
}

impl From<Span> for SpanData {
    fn from(span: Span) -> Self {
        let mut events = SpanEvents::default();
        let dropped = span.events.len().saturating_sub(EVENTS_MAX);
        events.dropped_count = to_u32(dropped);
        let kept = span.events.into_iter().take(EVENTS_MAX);
        events.events = kept.map(|(name, at_ms)| Event::new(name, time(at_ms), Vec::new(), 0)).collect();
        let mut links = SpanLinks::default();
        links.links = span.links.into_iter().map(|to| Link::with_context(context(to))).collect();
        Self {
            span_context: context(span.context),
            parent_span_id: SpanId::from_bytes(span.parent.to_be_bytes()),
            parent_span_is_remote: span.is_parent_remote,
            span_kind: span.kind,
            name: span.name,
            start_time: time(span.start_ms),
            end_time: time(span.end_ms),
            attributes: span.attributes,
            dropped_attributes_count: 0,
            events,
            links,
            status: span.error.map_or(Status::Unset, Status::error),
            instrumentation_scope: InstrumentationScope::builder("goalmill")
                .with_version(env!("CARGO_PKG_VERSION"))
                .build(),
        }
    }
}

fn context(of: TraceContext) -> SpanContext {
    let (trace, span) = (TraceId::from_bytes(of.trace_id.to_be_bytes()), SpanId::from_bytes(of.span_id.to_be_bytes()));
    SpanContext::new(trace, span, TraceFlags::SAMPLED, false, TraceState::NONE)
}

fn time(at_ms: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(at_ms)
}
