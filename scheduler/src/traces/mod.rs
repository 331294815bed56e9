//! OpenTelemetry traces, built from the log of a plan when it ends. So they cost a running plan nothing, match the log
//! exactly, and do not depend on which schedulers ran the plan. Off without an [`Exporter`].
//!
//! ```text
//! plan                                     from the submission's acceptance to the end
//! ├─ submission                            from its arrival to the acceptance
//! ├─ planning                              until there is a plan
//! │  └─ chat <model>                       a call of a language model
//! ├─ validation
//! ├─ revision 1                            from its cause to the changed plan; its model calls within it
//! ├─ approval                              waits for a person
//! └─ step <id>                             one attempt, from ready to its outcome; linked to the attempt before it
//!    ├─ dispatch                           waits in the scheduler
//!    ├─ queue                              waits in the stream of its agent type
//!    ├─ execution                          in the worker: agents get this one as `traceparent`
//!    └─ commit                             until the outcome is recorded
//! ```

mod export;
mod genai;
mod plan;
mod span;

use std::sync::Arc;
use std::time::Duration;

use goalmill_broker::LogEntry;
use goalmill_common::config::ModelSettings;
use goalmill_common::event::LogError;
use goalmill_common::id::PlanId;
use goalmill_common::task::Task;
use goalmill_common::trace::TraceContext;
use opentelemetry::KeyValue;
use opentelemetry::trace::SpanKind;
use opentelemetry_sdk::trace::SpanData;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::event_log::{self, Pages};
use crate::plan_reader::PlanReader;
use crate::run_blocking::run_blocking_if_large;

use plan::PlanTrace;
use span::Span;

pub use export::{Exporter, ExporterError};

/// Plans and spans that wait to be sent; further ones are counted and dropped.
const QUEUE_MAX: usize = 10_000;
/// Spans in one request.
const BATCH_MAX: usize = 512;
/// How long the last plans are awaited at the end.
const LAST: Duration = Duration::from_millis(100);

/// The traces of one scheduler.
#[derive(Debug)]
pub(crate) struct Traces {
    exporter: Exporter,
    instance: String,
    /// The models of the settings.
    models: Arc<[ModelSettings]>,
    queue: mpsc::Sender<Item>,
}

/// An item of the export queue.
#[derive(Debug)]
pub(crate) enum Item {
    /// The trace of this plan, from its log.
    Plan(PlanId),
    Span(Box<SpanData>),
}

impl Traces {
    /// - `instance`: the installation's id.
    pub(crate) fn new(exporter: Exporter, instance: String, models: &[ModelSettings]) -> (Self, mpsc::Receiver<Item>) {
        let (queue, items) = mpsc::channel(QUEUE_MAX);
        (Self { exporter, instance, models: models.into(), queue }, items)
    }

    /// The trace context that a plan begins with.
    ///
    /// - `given`: the trace context of the submission.
    pub(crate) fn plan_context(&self, plan: &PlanId, given: Option<&str>) -> String {
        let parent = given.and_then(TraceContext::parse);
        let own = || TraceContext {
            trace_id: span::trace_id(&self.instance, plan),
            span_id: span::plan_span(plan),
            is_sampled: true,
        };
        let context = parent.unwrap_or_else(own);
        let is_sampled = self.exporter.is_sampled(context.trace_id, parent);
        TraceContext { is_sampled, ..context }.to_string()
    }

    /// Queues the span of an accepted submission.
    ///
    /// - `traceparent`: the trace context of the plan.
    /// - `received_ms`, `now_ms`: Unix milliseconds.
    pub(crate) fn submitted(
        &self,
        plan: &PlanId,
        traceparent: Option<&str>,
        source: &'static str,
        received_ms: u64,
        now_ms: u64,
    ) {
        let Some(context) = sampled(traceparent) else { return };
        let context_of_it = context.with_span(span::span_id(&["submission", plan.as_str(), &received_ms.to_string()]));
        let span = Span {
            kind: SpanKind::Server,
            is_parent_remote: context.span_id != span::plan_span(plan),
            attributes: vec![
                KeyValue::new("goalmill.plan.id", plan.to_string()),
                KeyValue::new("goalmill.source", source),
            ],
            ..Span::new(context_of_it, context.span_id, "submission", received_ms, now_ms)
        };
        self.enqueue(Item::Span(Box::new(span.into())));
    }

    /// Queues the trace of a finished plan.
    pub(crate) fn ended(&self, plan: PlanId) {
        self.enqueue(Item::Plan(plan));
    }

    fn enqueue(&self, item: Item) {
        if self.queue.try_send(item).is_err() {
            metrics::counter!("goalmill_traces_dropped_total", "reason" => "queue_full").increment(1);
        }
    }
}

/// The trace context, if it is sampled.
pub(crate) fn sampled(traceparent: Option<&str>) -> Option<TraceContext> {
    traceparent.and_then(TraceContext::parse).filter(|context| context.is_sampled)
}

/// Sets the trace context of a task to its execution span.
pub(crate) fn set_execution_context(task: &mut Task) {
    if let Some(context) = sampled(task.traceparent.as_deref()) {
        let execution = span::execution_span(&task.plan, &task.step, task.attempt);
        task.traceparent = Some(context.with_span(execution).to_string());
    }
}

/// Exports queued items until stopped and until the queue is empty.
pub(crate) async fn run(
    traces: Arc<Traces>,
    plans: Arc<dyn PlanReader>,
    stop: CancellationToken,
    mut items: mpsc::Receiver<Item>,
) {
    let mut batch = SpanBatch { traces: &traces, plans: plans.as_ref(), waiting: Vec::new(), is_failing: false };
    while let Some(Some(item)) = stop.run_until_cancelled(items.recv()).await {
        batch.add(item).await;
        while let Ok(item) = items.try_recv() {
            batch.add(item).await;
        }
        batch.flush().await;
    }
    // Shards may still write the ends of plans.
    while let Ok(Some(item)) = tokio::time::timeout(LAST, items.recv()).await {
        batch.add(item).await;
    }
    batch.flush().await;
}

/// Adds log entries to a trace; returns the spans that end in them.
fn add_entries(mut trace: PlanTrace, entries: &[LogEntry]) -> Result<(PlanTrace, Vec<SpanData>), LogError> {
    for entry in entries {
        event_log::parse_records(entry)?.iter().for_each(|record| trace.add(record));
    }
    let spans = trace.finished().map(SpanData::from).collect();
    Ok((trace, spans))
}

/// Spans that wait to be sent to the collector.
struct SpanBatch<'a> {
    traces: &'a Traces,
    plans: &'a dyn PlanReader,
    waiting: Vec<SpanData>,
    /// Whether the failure was logged.
    is_failing: bool,
}

impl SpanBatch<'_> {
    async fn add(&mut self, item: Item) {
        match item {
            Item::Span(span) => self.push([*span]).await,
            Item::Plan(plan) => {
                if let Err(error) = self.add_plan(&plan).await {
                    metrics::counter!("goalmill_traces_dropped_total", "reason" => "unreadable").increment(1);
                    tracing::debug!(plan_id = %plan, "the trace of plan {plan} cannot be made: {error}");
                }
            }
        }
    }

    async fn add_plan(&mut self, plan: &PlanId) -> Result<(), event_log::ReadError> {
        let mut trace = PlanTrace::new(self.traces.models.clone());
        let mut pages = Pages::new(self.plans, plan);
        while let Some(entries) = pages.next().await? {
            let spans;
            (trace, spans) =
                run_blocking_if_large(event_log::size_bytes(&entries), move || add_entries(trace, &entries)).await?;
            self.push(spans).await;
        }
        Ok(())
    }

    async fn push(&mut self, spans: impl IntoIterator<Item = SpanData>) {
        for span in spans {
            self.waiting.push(span);
            if self.waiting.len() >= BATCH_MAX {
                self.flush().await;
            }
        }
    }

    async fn flush(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        let spans = std::mem::take(&mut self.waiting);
        let count = spans.len() as u64;
        match self.traces.exporter.send(spans).await {
            Ok(()) => {
                metrics::counter!("goalmill_spans_sent_total").increment(count);
                self.is_failing = false;
            }
            Err(error) => {
                metrics::counter!("goalmill_traces_dropped_total", "reason" => "not_sent").increment(1);
                if !std::mem::replace(&mut self.is_failing, true) {
                    tracing::warn!("traces cannot be sent, see `OTEL_EXPORTER_OTLP_ENDPOINT`: {error}");
                }
            }
        }
    }
}
