//! Stands in for the export of traces in builds without the feature `otel`: without an exporter, there are no traces.

#![expect(clippy::unused_async, reason = "functions of the module that it stands in for")]

use std::sync::Arc;

use goalmill_common::config::{Feature, ModelSettings, OTLP_ENDPOINT, exports_traces};
use goalmill_common::id::PlanId;
use goalmill_common::task::Task;
use goalmill_common::trace::TraceContext;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::plan_reader::PlanReader;

pub use goalmill_common::config::FeatureMissing as ExporterError;

/// There is none.
#[derive(Debug)]
pub enum Exporter {}

impl Exporter {
    /// Refuses an environment that names a collector.
    pub fn from_environment() -> Result<Option<Self>, ExporterError> {
        if exports_traces() { Err(Feature::Otel.missing(OTLP_ENDPOINT)) } else { Ok(None) }
    }
}

/// There are none.
#[derive(Debug)]
pub(crate) enum Traces {}

#[derive(Debug)]
pub(crate) enum Item {}

impl Traces {
    pub(crate) fn new(exporter: Exporter, _: String, _: &[ModelSettings]) -> (Self, mpsc::Receiver<Item>) {
        match exporter {}
    }

    pub(crate) fn plan_context(&self, _: &PlanId, _: Option<&str>) -> String {
        match *self {}
    }

    pub(crate) fn submitted(&self, _: &PlanId, _: Option<&str>, _: &'static str, _: u64, _: u64) {
        match *self {}
    }

    pub(crate) fn ended(&self, _: PlanId) {
        match *self {}
    }
}

pub(crate) fn sampled(_: Option<&str>) -> Option<TraceContext> {
    None
}

pub(crate) fn set_execution_context(_: &mut Task) {}

pub(crate) async fn run(traces: Arc<Traces>, _: Arc<dyn PlanReader>, _: CancellationToken, _: mpsc::Receiver<Item>) {
    match *traces {}
}
