//! Traces, as a collector of OpenTelemetry gets them from the program itself.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use goalmill_tests::collector::{Collector, Span, attribute};
use goalmill_tests::dev::{Dev, program};
use goalmill_tests::wait::until;
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_mins(1);
const PARTS: [&str; 4] = ["dispatch", "queue", "execution", "commit"];

/// `goalmill dev --demo`, which ends with its goal.
fn demo(arguments: &[&str]) -> Command {
    let mut command = program();
    command.args(["dev", "--listen", "127.0.0.1:0", "--metrics", "off", "--demo"]).args(arguments);
    command
}

/// What the demo sends until it ends.
async fn traced(arguments: &[&str]) -> Result<Vec<Span>> {
    let collector = Collector::start().await?;
    let mut command = demo(arguments);
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.endpoint);
    let output = tokio::task::spawn_blocking(move || command.output()).await??;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(collector.spans())
}

/// The spans of each trace.
fn by_trace(spans: Vec<Span>) -> BTreeMap<Vec<u8>, Vec<Span>> {
    let mut traces: BTreeMap<Vec<u8>, Vec<Span>> = BTreeMap::new();
    for span in spans {
        traces.entry(span.trace_id.clone()).or_default().push(span);
    }
    traces
}

/// Checks that the spans are one tree, in which a parent encloses its children; gives its root.
fn whole(spans: &[Span]) -> Result<&Span> {
    let by_id: BTreeMap<&[u8], &Span> = spans.iter().map(|span| (span.span_id.as_slice(), span)).collect();
    ensure!(by_id.len() == spans.len(), "two spans have the same id");
    let roots: Vec<&Span> = spans.iter().filter(|span| span.parent_span_id.is_empty()).collect();
    ensure!(roots.len() == 1, "{} spans have no parent", roots.len());
    for span in spans.iter().filter(|span| !span.parent_span_id.is_empty()) {
        let parent =
            by_id.get(span.parent_span_id.as_slice()).with_context(|| format!("`{}` is an orphan", span.name))?;
        let is_within = span.start_time_unix_nano >= parent.start_time_unix_nano
            && span.end_time_unix_nano <= parent.end_time_unix_nano;
        ensure!(is_within || span.name == "submission", "`{}` is not within `{}`", span.name, parent.name);
        ensure!(span.start_time_unix_nano <= span.end_time_unix_nano, "`{}` ends before it begins", span.name);
    }
    Ok(roots[0])
}

fn count(spans: &[Span], name: &str) -> usize {
    spans.iter().filter(|span| span.name == name).count()
}

fn children<'a>(spans: &'a [Span], of: &Span) -> Vec<&'a Span> {
    spans.iter().filter(|span| span.parent_span_id == of.span_id).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_is_one_whole_trace() -> Result<()> {
    let traces = by_trace(traced(&[]).await?);
    assert_eq!(traces.len(), 1, "one plan is one trace");
    let spans = traces.values().next().expect("there is one");
    let root = whole(spans)?;
    assert_eq!((root.name.as_str(), attribute(root, "goalmill.status")?.as_str()), ("plan", "completed"));
    let steps: Vec<&Span> = spans.iter().filter(|span| span.name.starts_with("step ")).collect();
    assert!(steps.len() >= 5, "{steps:?}");
    for step in &steps {
        let parts: BTreeSet<&str> = children(spans, step).iter().map(|part| part.name.as_str()).collect();
        assert_eq!(parts, BTreeSet::from(PARTS), "of `{}`", step.name);
        let status = attribute(step, "goalmill.status")?;
        assert!(["completed", "retrying"].contains(&status.as_str()), "{status}");
        attribute(step, "goalmill.agent_type")?;
    }
    for name in ["submission", "planning", "validation"] {
        assert_eq!(count(spans, name), 1, "{name}");
    }
    assert_eq!(spans.len(), 4 + 5 * steps.len(), "{:?}", spans.iter().map(|span| &span.name).collect::<Vec<_>>());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_of_models_revisions_and_retries_are_in_the_trace() -> Result<()> {
    let traces = by_trace(traced(&["story"]).await?);
    assert_eq!(traces.len(), 2, "the story has two plans");
    let mut revised = 0;
    for spans in traces.values() {
        whole(spans)?;
        revised += spans.iter().filter(|span| span.name.starts_with("revision ")).count();
        for step in spans.iter().filter(|span| span.name.starts_with("step ") && !span.links.is_empty()) {
            let number: u32 = attribute(step, "goalmill.attempt")?.parse()?;
            assert!(number > 1, "`{}` is linked to an attempt before it", step.name);
            let before = spans.iter().find(|span| span.span_id == step.links[0].span_id);
            assert_eq!(before.map(|span| &span.name), Some(&step.name));
        }
    }
    assert!(revised >= 3, "{revised} revisions");
    let spans: Vec<Span> = traces.into_values().flatten().collect();
    assert!(spans.iter().any(|span| !span.links.is_empty()), "a step was tried again");
    let failed =
        spans.iter().find(|span| span.name.starts_with("step ") && span.status.as_ref().is_some_and(|s| s.code == 2));
    attribute(failed.context("a step failed")?, "error.type")?;
    let calls: Vec<&Span> = spans.iter().filter(|span| span.name.starts_with("chat ")).collect();
    assert!(!calls.is_empty(), "a model was asked");
    for call in calls {
        for name in ["gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model"] {
            assert!(!attribute(call, name)?.is_empty());
        }
        assert!(attribute(call, "gen_ai.usage.input_tokens")?.parse::<u64>()? > 0);
        assert!(attribute(call, "gen_ai.usage.output_tokens")?.parse::<u64>()? > 0);
    }
    Ok(())
}

/// An agent that says which trace it is part of.
const SHOW: &str = r#"
[worker.agents.show]
kind = "command"
argv = ["sh", "-c", 'printf "{\"outputs\": {\"trace\": \"$TRACEPARENT\"}}"']
env = ["PATH"]
"#;

/// Runs a plan of one step, and gives the trace context that its agent got.
fn show(dev: &Dev, traceparent: Option<&str>) -> Result<String> {
    let file = dev.file("show.json");
    let plan = json!({"steps": [{"id": "a", "agent_type": "show", "inputs": {}}]});
    std::fs::write(&file, plan.to_string())?;
    let mut command = program();
    command.arg("run").arg(&file).args(["--server", dev.server(), "--wait", "-o", "json"]);
    command.envs(traceparent.map(|value| ("TRACEPARENT", value)));
    let output = command.output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let results: Value = serde_json::from_slice(&output.stdout)?;
    let shown = results.pointer("/results/a/trace").and_then(Value::as_str);
    Ok(shown.with_context(|| format!("{results:#}"))?.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trace_goes_on_from_the_caller_to_the_agent() -> Result<()> {
    let collector = Collector::start().await?;
    let dev = Dev::start_in(
        &[],
        SHOW,
        &[("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", &format!("{}/v1/traces", collector.endpoint))],
    )
    .await?;
    let (trace, caller) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");

    let unsampled = format!("00-{trace}-{caller}-00");
    assert_eq!(show(&dev, Some(&unsampled))?, unsampled, "nobody keeps the trace: the agent gets what the caller gave");

    let agent = show(&dev, Some(&format!("00-{trace}-{caller}-01")))?;
    until(LIMIT, async || collector.spans().iter().any(|span| span.name == "plan")).await;
    let spans = collector.spans();
    assert_eq!(count(&spans, "plan"), 1, "the one before is not sampled");
    let hex = |id: &[u8]| id.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    assert!(spans.iter().all(|span| hex(&span.trace_id) == trace));
    for span in spans.iter().filter(|span| ["plan", "submission"].contains(&span.name.as_str())) {
        assert_eq!(hex(&span.parent_span_id), caller, "{}", span.name);
    }
    let execution = spans.iter().find(|span| span.name == "execution").context("a worker did the step")?;
    assert_eq!(agent, format!("00-{trace}-{}-01", hex(&execution.span_id)), "what the agent does is within it");

    let own = show(&dev, None)?;
    assert!(own.ends_with("-01") && !own.contains(trace), "{own}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_collector_there_are_no_traces_and_a_wrong_setting_is_said() -> Result<()> {
    let dev = Dev::start(&[], SHOW).await?;
    assert_eq!(show(&dev, None)?, "");
    let given = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    assert_eq!(show(&dev, Some(given))?, given);
    let start = |environment: &[(&str, &str)]| {
        let mut command = demo(&[]);
        command.env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9").envs(environment.iter().copied()).output()
    };
    for (name, value) in [
        ("OTEL_TRACES_SAMPLER", "jaeger_remote"),
        ("OTEL_TRACES_SAMPLER_ARG", "2"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "10s"),
    ] {
        let output = start(&[("OTEL_TRACES_SAMPLER", "traceidratio"), (name, value)])?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(8), "{said}");
        assert!(said.contains(name) && said.contains(value), "{said}");
    }
    let output = start(&[])?;
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "a collector that cannot be reached holds nothing up: {said}");
    assert!(said.contains("OTEL_EXPORTER_OTLP_ENDPOINT"), "{said}");
    // The machine accepts the connection, and nobody answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0")?;
    let endpoint = format!("http://{}", silent.local_addr()?);
    let output = start(&[("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint), ("OTEL_EXPORTER_OTLP_TIMEOUT", "500")])?;
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "a collector that is silent holds nothing up for ever: {said}");
    Ok(())
}
