//! Log lines on standard error, and the Prometheus recorder.

use std::io::IsTerminal;
use std::sync::OnceLock;

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tracing_subscriber::EnvFilter;

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people: a line an event.
    Text,
    /// For programs: a JSON object an event.
    Json,
}

/// Starts logging to standard error.
///
/// `level` is a filter such as `warn` or `goalmill_worker=debug,info`; `RUST_LOG` wins when it is set.
/// Calling it again changes nothing.
pub fn log(level: &str, format: LogFormat) {
    let filter = crate::config::environment("RUST_LOG").unwrap_or_else(|| level.into());
    let filter = EnvFilter::try_new(&filter).unwrap_or_else(|_| EnvFilter::new("warn"));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let colour = crate::config::environment("NO_COLOR").is_none() && std::io::stderr().is_terminal();
    let started = match format {
        LogFormat::Text => builder.with_ansi(colour).try_init(),
        LogFormat::Json => builder.json().try_init(),
    };
    drop(started);
}

/// Waiting times, seconds.
const WAIT: &[f64] = &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0];
/// Execution times, seconds.
const RUN: &[f64] = &[0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1_800.0, 3_600.0];

/// Answers of the API and commits, seconds.
const FAST: &[f64] = &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0];
/// What is measured with them.
const FAST_NAMES: &[&str] = &["goalmill_http_request_duration_seconds", "goalmill_commit_seconds"];

/// Calls of language models, seconds: OpenTelemetry's buckets for generative AI, as those of tokens.
const MODEL: &[f64] = &[0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];
const TOKENS: &[f64] = &[
    1.0,
    4.0,
    16.0,
    64.0,
    256.0,
    1_024.0,
    4_096.0,
    16_384.0,
    65_536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
    67_108_864.0,
];
/// What is measured with them.
const OF_MODELS: &[(&str, &[f64])] =
    &[("gen_ai_client_operation_duration_seconds", MODEL), ("gen_ai_client_token_usage", TOKENS)];

/// The process-wide metrics recorder: installed by the first call, shared by the later ones; `None` when the
/// program that embeds us has one of its own.
///
/// Whoever renders it must call `run_upkeep` every few seconds, or histogram samples pile up.
pub fn metrics() -> Option<PrometheusHandle> {
    static HANDLE: OnceLock<Option<PrometheusHandle>> = OnceLock::new();
    HANDLE.get_or_init(install).clone()
}

fn install() -> Option<PrometheusHandle> {
    let slow = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_wait_seconds".into()), WAIT)
        .and_then(|b| b.set_buckets_for_metric(Matcher::Suffix("_seconds".into()), RUN));
    let fast = |name: &&str| Matcher::Full((*name).to_owned());
    let all = FAST_NAMES.iter().map(fast).fold(slow, |b, name| b?.set_buckets_for_metric(name, FAST));
    let of_models = |b: Result<PrometheusBuilder, _>, (name, buckets): &(&str, &[f64])| {
        b?.set_buckets_for_metric(Matcher::Full((*name).to_owned()), buckets)
    };
    OF_MODELS.iter().fold(all, of_models).ok()?.install_recorder().ok()
}
