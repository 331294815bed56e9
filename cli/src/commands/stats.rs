//! `stats`: the quality of planning and execution.

use goalmill_client::StatsQuery;
use goalmill_common::number::milliseconds;
use goalmill_common::quality::{MeasureValue, ModelQuality, QualityReport, QualityTarget};

use crate::args::StatsArgs;
use crate::context::CommandContext;
use crate::exit::{CommandResult, Exit};
use crate::output::{Palette, Table, Tone};

pub async fn run(context: &CommandContext, args: &StatsArgs) -> CommandResult {
    let CommandContext { screen, client, clock, .. } = context;
    let since_ms = clock.now_ms().saturating_sub(milliseconds(args.since));
    let report = client.stats(&StatsQuery { since_ms, plans: args.plans }).await?;
    screen.show(&report, "stats", |palette| people(&report, palette))?;
    if report.plans == 0 {
        screen.note("no plan ended in that time whose log is kept; logs are kept for `scheduler.retention_ms`");
    }
    Ok(Exit::Done)
}

fn people(report: &QualityReport, palette: Palette) -> String {
    let mut table = Table::new(&["MEASURE", "VALUE", "TARGET", "SAMPLES", ""]).right(&[1, 2, 3]);
    for value in &report.measures {
        let name = value.measure.as_str().replace('_', " ");
        let mark = match value.is_met {
            Some(true) => palette.tone(Tone::Good, "✓"),
            Some(false) => palette.tone(Tone::Bad, "✗"),
            None => String::new(),
        };
        table.row([name, shown(value), target(value), value.samples.to_string(), mark]);
    }
    let more = if report.is_partial { ", the latest of the period" } else { "" };
    let head = format!("{} plans ended{more}", report.plans);
    let costs = format!(
        "cost: steps {}, planning {}, routing {}",
        dollars(report.step_cost),
        dollars(report.planning_cost),
        dollars(report.routing_cost)
    );
    let mut text = format!("{}\n{}{}\n", palette.tone(Tone::Bold, head), table.render(palette, ""), costs);
    if !report.models.is_empty() {
        text.push('\n');
        text.push_str(&models(&report.models, palette));
    }
    text
}

fn models(models: &[ModelQuality], palette: Palette) -> String {
    let mut table =
        Table::new(&["MODEL", "CALLS", "SUCCESS", "UNREADABLE", "INVALID", "P50", "P95", "COST", "PER PLAN"])
            .right(&[1, 2, 3, 4, 5, 6, 7, 8]);
    let seconds = |value: Option<f64>| value.map_or_else(none, |value| format!("{value:.2} s"));
    for model in models {
        table.row([
            model.model.clone(),
            model.calls.to_string(),
            share(model.success),
            share(model.parse_failures),
            share(model.validation_failures),
            seconds(model.latency_p50),
            seconds(model.latency_p95),
            dollars(model.cost),
            model.cost_per_usable.map_or_else(none, dollars),
        ]);
    }
    table.render(palette, "")
}

fn shown(value: &MeasureValue) -> String {
    value.value.map_or_else(none, |number| number_of(value, number))
}

fn target(value: &MeasureValue) -> String {
    match value.target {
        Some(QualityTarget::Above(least)) => format!("> {}", number_of(value, least)),
        Some(QualityTarget::Below(most)) => format!("< {}", number_of(value, most)),
        None => String::new(),
    }
}

fn number_of(value: &MeasureValue, number: f64) -> String {
    if value.measure.is_seconds() {
        format!("{number:.2} s")
    } else if value.measure.is_share() {
        format!("{:.1} %", number * 100.0)
    } else {
        format!("{number:.2}")
    }
}

fn share(value: Option<f64>) -> String {
    value.map_or_else(none, |value| format!("{:.1} %", value * 100.0))
}

fn dollars(value: f64) -> String {
    format!("${value:.4}")
}

fn none() -> String {
    "–".into()
}
