//! `planner list`, `planner rules` and `model list`.

use goalmill_common::view::{ModelView, Page, PlannerView, RuleView, SignalView};

use crate::args::{ModelCommand, PlannerCommand};
use crate::context::CommandContext;
use crate::exit::{CommandResult, Exit};
use crate::output::{Palette, Table};

pub async fn run(context: &CommandContext, command: PlannerCommand) -> CommandResult {
    let CommandContext { screen, client, .. } = context;
    let page = client.planners().await?;
    match command {
        PlannerCommand::List => {
            screen.list(&page, &page.items, |planner| planner.planner.clone(), |palette| planners(&page, palette))?;
        }
        PlannerCommand::Rules => {
            let items: Vec<RuleView> = page.items.into_iter().flat_map(|planner| planner.rules).collect();
            let page = Page { items, next: None };
            screen.list(&page, &page.items, |rule| rule.rule.clone(), |palette| rules(&page, palette))?;
        }
    }
    Ok(Exit::Done)
}

pub async fn models(context: &CommandContext, command: &ModelCommand) -> CommandResult {
    let CommandContext { screen, client, .. } = context;
    match command {
        ModelCommand::List => {
            let page = client.models().await?;
            screen.list(&page, &page.items, |model| model.model.clone(), |palette| models_table(&page, palette))?;
        }
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
        let mut matches: Vec<String> = rule.signals.iter().map(signal).collect();
        if !rule.examples.is_empty() {
            matches.push(format!("{} examples", rule.examples.len()));
        }
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
