//! `agent`: agent types, their registration, and the router.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

use goalmill_client::Candidates;
use goalmill_common::agent::Agent;
use goalmill_common::card::read_card;
use goalmill_common::event::RouteCandidate;
use goalmill_common::problem::{ErrorCode, Problem};
use goalmill_common::view::Page;
use serde_json::json;

use super::submit::at_file;
use super::{cell, checked_id, input};
use crate::args::{AgentCommand, Language};
use crate::context::CommandContext;
use crate::exit::{CommandResult, Exit, Failed};
use crate::output::{Palette, Screen, Table, Tone, seconds, yaml};

pub async fn run(context: &CommandContext, command: AgentCommand) -> CommandResult {
    let CommandContext { screen, client, .. } = context;
    match command {
        AgentCommand::List => {
            let page = client.agents().await?;
            screen.list(&page, &page.items, |agent| agent.agent_type.to_string(), |_| list(&page, screen))?;
        }
        AgentCommand::Get { agent_type } => {
            let agents = client.agents().await?.items;
            let agent = agents.iter().find(|agent| agent.agent_type.as_str() == agent_type).ok_or_else(|| {
                Failed::new(Exit::NotFound, format!("no agent type is called `{agent_type}`"))
                    .help("list them: goalmill agent list")
            })?;
            screen.show(agent, &agent_type, |_| yaml(agent))?;
        }
        AgentCommand::Init { agent_type, lang, dir } => init(context, &agent_type, lang, dir)?,
        AgentCommand::Register { file } => {
            let agent = card(&file)?;
            client.register(&agent).await?;
            screen.show(&agent, agent.agent_type.as_str(), |_| format!("{} registered", agent.agent_type))?;
        }
        AgentCommand::Route { text, top } => {
            let answer = client.route(&text, top).await?;
            let name = |candidate: &RouteCandidate| candidate.agent_type.to_string();
            screen.list(&answer, &answer.candidates, name, |palette| candidates(&answer, palette))?;
        }
    }
    Ok(Exit::Done)
}

/// Reads a card as the server does: everything that is wrong with it is named.
fn card(file: &str) -> Result<Agent, Failed> {
    let text = input::read_file(file)?;
    let card = input::parse(file, &text)?;
    read_card(card.to_string().as_bytes()).map_err(|issues| {
        let failed: Failed =
            Problem::new(ErrorCode::InvalidRequest, "the card is not valid").with_errors(issues).into();
        at_file(failed, file, &text).help("see: goalmill schema agent")
    })
}

/// A worker without any package but `redis`: the block of this page after [`WORKER_BEGINS`].
const PROTOCOL: &str = include_str!("../../../docs/protocol.md");
const WORKER_BEGINS: &str = "<!-- worker -->\n```python\n";

fn python_worker() -> &'static str {
    let (_, worker) = PROTOCOL.split_once(WORKER_BEGINS).expect("the page has a worker");
    worker.split_once("```\n").expect("the worker has an end").0
}

fn init(context: &CommandContext, agent_type: &str, lang: Language, dir: Option<PathBuf>) -> Result<(), Failed> {
    checked_id("agent type", agent_type)?;
    let Language::Python = lang;
    let dir = dir.unwrap_or_else(|| PathBuf::from(agent_type));
    std::fs::create_dir_all(&dir)?;
    let path = dir.join("worker.py");
    let mut file = File::create_new(&path).map_err(|error| {
        Failed::other(format!("`{}` cannot be made: {error}", path.display())).help("name another place: --dir DIR")
    })?;
    file.write_all(python_worker().as_bytes())?;
    let path = path.display().to_string();
    let run = format!("python {path} {agent_type} redis://127.0.0.1:6379");
    let made = json!({ "agent_type": agent_type, "file": path, "run": run });
    context
        .screen
        .show(&made, &path, |_| format!("{path} is written\n  change `work` in it, then: pip install redis && {run}"))
}

fn list(page: &Page<Agent>, screen: &Screen) -> String {
    let mut head = vec!["AGENT", "SUCCESS", "COST"];
    if screen.is_wide() {
        head.extend(["LATENCY", "CAPABILITIES"]);
    }
    head.extend(["ACTIONS", "DESCRIPTION"]);
    let mut table = Table::new(&head).right(&[1, 2]);
    for agent in &page.items {
        let actions: Vec<&str> = agent.actions.iter().map(|action| action.name.as_str()).collect();
        let mut row =
            vec![agent.agent_type.to_string(), format!("{:.2}", agent.success_rate), format!("{:.3}", agent.cost)];
        if screen.is_wide() {
            row.extend([agent.latency_ms.map(seconds).unwrap_or_default(), agent.capabilities.join(",")]);
        }
        row.extend([actions.join(","), cell(screen, &agent.description)]);
        table.row(row);
    }
    table.render(screen.palette, "no agent types; start a worker: goalmill worker --demo")
}

/// Candidates shown with their factors.
const SHOWN: usize = 20;

fn candidates(answer: &Candidates, palette: Palette) -> String {
    let mut table =
        Table::new(&["AGENT", "SIMILARITY", "SUCCESS", "COST", "SCORE", "", "FACTORS"]).right(&[1, 2, 3, 4]);
    for (place, candidate) in answer.candidates.iter().take(SHOWN).enumerate() {
        let factors: Vec<String> = candidate.factors.iter().map(|(name, value)| format!("{name} {value:.2}")).collect();
        table.row([
            candidate.agent_type.to_string(),
            format!("{:.2}", candidate.similarity),
            format!("{:.2}", candidate.success_rate),
            format!("{:.3}", candidate.cost),
            format!("{:.2}", candidate.score),
            if place == 0 && !answer.abstains { palette.tone(Tone::Good, "←") } else { String::new() },
            factors.join(" "),
        ]);
    }
    let shown = table.render(palette, "no agent type fits; list them: goalmill agent list");
    match answer.confidence {
        Some(confidence) if !answer.candidates.is_empty() => {
            let verdict = if answer.abstains { "too little: `auto` selects no agent" } else { "enough to choose" };
            format!("{shown}probability of a match: {confidence:.2}, {verdict}\n")
        }
        _ => shown,
    }
}
