//! `planner list`, `planner rules`, `planner rules test`, `model list` and `model check`.

use std::path::Path;

use goalmill_common::view::{ModelView, Page, PlannerView, RuleView, SignalView};
use goalmill_planning::RulesPlanner;
use goalmill_planning::rules::{CASES_BYTES_MAX, CaseReport, RuleCases};
use serde::Serialize;
use serde_json::Value;

use super::config::settings;
use super::{input, model_check};
use crate::args::{ModelCommand, PlannerCommand, RulesCommand};
use crate::context::CommandContext;
use crate::exit::{CommandResult, Exit, Failed};
use crate::output::{Palette, Table, Tone};
use crate::watch::limits;

pub async fn run(context: &CommandContext, command: PlannerCommand) -> CommandResult {
    let CommandContext { screen, client, .. } = context;
    match command {
        PlannerCommand::List => {
            let page = client.planners().await?;
            screen.list(&page, &page.items, |planner| planner.planner.clone(), |palette| planners(&page, palette))?;
        }
        PlannerCommand::Rules { command: None } => {
            let items: Vec<RuleView> =
                client.planners().await?.items.into_iter().flat_map(|planner| planner.rules).collect();
            let page = Page { items, next: None };
            screen.list(&page, &page.items, |rule| rule.rule.clone(), |palette| rules(&page, palette))?;
        }
        PlannerCommand::Rules { command: Some(RulesCommand::Test { file, config }) } => {
            return test_rules(context, &file, config.as_deref());
        }
    }
    Ok(Exit::Done)
}

/// What a test of rules found.
#[derive(Serialize)]
struct RulesTest {
    passed: usize,
    failed: usize,
    cases: Vec<CaseReport>,
}

/// Tests the rules of the settings, or the shipped ones, with the cases of a file.
fn test_rules(context: &CommandContext, file: &str, config: Option<&Path>) -> CommandResult {
    let settings = settings(config, &[])?.settings;
    let planner = RulesPlanner::from_setting(&settings.planner.rules_dir)
        .map_err(|error| Failed::invalid(format!("planner.rules_dir: {error}")))?;
    let text = input::read_bounded(file, CASES_BYTES_MAX as u64)?;
    let cases =
        RuleCases::from_yaml(&text, &settings.limits).map_err(|error| Failed::invalid(format!("`{file}`: {error}")))?;
    let cases = cases.test(&planner, &settings.limits, context.clock.now_ms());
    let passed = cases.iter().filter(|case| case.passed).count();
    let test = RulesTest { passed, failed: cases.len() - passed, cases };
    let name = |case: &CaseReport| format!("{} {}", case.case, if case.passed { "passed" } else { "failed" });
    context.screen.list(&test, &test.cases, name, |palette| failures(&test, palette))?;
    Ok(if test.failed == 0 { Exit::Done } else { Exit::Other })
}

/// The fields that are not as expected, the facts of their goals, and a summary.
fn failures(test: &RulesTest, palette: Palette) -> String {
    let mut table = Table::new(&["CASE", "FIELD", "EXPECTED", "FOUND"]);
    let mut facts = String::new();
    for case in test.cases.iter().filter(|case| !case.passed) {
        for failure in &case.failures {
            let cells = [&failure.expected, &failure.found].map(shown);
            table.row([case.case.to_string(), failure.field.clone()].into_iter().chain(cells));
        }
        let read = if case.facts.is_empty() { "nothing".to_owned() } else { limits(case.facts.iter()) };
        facts.push_str(&format!("  case {}: {}\n", case.case, crate::watch::short(&case.goal)));
        facts.push_str(&palette.tone(Tone::Dim, format!("    rule {}, read: {read}\n", case.rule)));
    }
    let tone = if test.failed == 0 { Tone::Good } else { Tone::Bad };
    let summary = palette.tone(tone, format!("{} passed, {} failed", test.passed, test.failed));
    if test.failed == 0 { summary } else { format!("{}\n{facts}\n{summary}", table.render(palette, "")) }
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => "nothing".into(),
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}

pub async fn models(context: &CommandContext, command: &ModelCommand) -> CommandResult {
    let CommandContext { screen, client, .. } = context;
    match command {
        ModelCommand::List => {
            let page = client.models().await?;
            screen.list(&page, &page.items, |model| model.model.clone(), |palette| models_table(&page, palette))?;
        }
        ModelCommand::Check { name, config } => return model_check::run(context, name, config.as_deref()).await,
    }
    Ok(Exit::Done)
}

fn planners(page: &Page<PlannerView>, palette: Palette) -> String {
    let mut table = Table::new(&["PLANNER", "ORDER", "MODELS", "RULES"]);
    for planner in &page.items {
        let order = planner.order.map_or_else(|| "by name only".to_owned(), |order| order.to_string());
        let models = if planner.asks_models { "yes" } else { "no" };
        table.row([planner.planner.clone(), order, models.to_owned(), planner.rules.len().to_string()]);
    }
    table.render(palette, "no planners")
}

fn rules(page: &Page<RuleView>, palette: Palette) -> String {
    let mut table = Table::new(&["RULE", "PLANNER", "GOALS", "CONFIDENCE", "SCORE", "MATCHES"]);
    for rule in &page.items {
        let score = rule.score.map_or_else(|| "-".to_owned(), |score| format!("{score:.1}"));
        let signal = |signal: &SignalView| format!("{:+.1} {}", signal.weight, signal.any.join(" | "));
        let matches: Vec<String> = rule.signals.iter().map(signal).collect();
        let matches = if matches.is_empty() { "what the others leave".to_owned() } else { matches.join("; ") };
        let (id, planner, goals) = (rule.rule.clone(), rule.planner.clone(), rule.goal_type.clone());
        table.row([id, planner, goals, format!("{:.2}", rule.confidence), score, matches]);
    }
    table.render(palette, "no rules")
}

fn models_table(page: &Page<ModelView>, palette: Palette) -> String {
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    let header = ["MODEL", "CALLS", "SUCCESS", "UNPARSED", "INVALID", "LATENCY", "TOKENS", "USD", "USD/PLAN", "STATE"];
    let mut table = Table::new(&header);
    for model in &page.items {
        let state = match &model.obstacle {
            Some(obstacle) => obstacle.clone(),
            None if model.is_circuit_open => "circuit open".into(),
            None => "ready".into(),
        };
        table.row([
            model.model.clone(),
            format!("{:.1}", model.calls),
            percent(model.success_rate),
            percent(model.parse_failure_rate),
            percent(model.validation_failure_rate),
            format!("{:.1} s", model.latency_ms / 1_000.0),
            format!("{}+{}", model.input_tokens, model.output_tokens),
            format!("{:.4}", model.cost),
            model.cost_per_usable_plan.map_or_else(|| "-".to_owned(), |cost| format!("{cost:.4}")),
            state,
        ]);
    }
    table.render(palette, "no models; add one under `models` in the settings")
}
