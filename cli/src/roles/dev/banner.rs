//! The start-up message of `dev`: addresses and the next command.

use std::net::SocketAddr;

use goalmill_client::Client;
use goalmill_common::agent::Agent;
use goalmill_common::config::Settings;

use super::model::DevModel;
use super::store::Store;
use crate::args::{DevArgs, SERVER};
use crate::exit::Failed;
use crate::output::{Screen, Tone};

/// Characters of a line of agents.
const WIDTH: usize = 76;

/// What the message tells.
pub struct BannerFacts<'a> {
    pub args: &'a DevArgs,
    pub settings: &'a Settings,
    pub store: &'a Store,
    pub model: &'a DevModel,
    pub metrics: Option<SocketAddr>,
}

/// - `agents`: those of the program; the settings may have more.
pub async fn print(screen: &Screen, facts: &BannerFacts<'_>, agents: &[Agent], client: &Client) -> Result<(), Failed> {
    let BannerFacts { args, settings, store, model, metrics } = *facts;
    let base = client.base();
    let palette = screen.palette;
    let dim = |text: &str| palette.tone(Tone::Dim, text);
    let version = env!("CARGO_PKG_VERSION");
    let mut lines = vec![
        format!(
            "{} · development mode, not for production · {}",
            palette.tone(Tone::Bold, format!("goalmill {version}")),
            store.promise
        ),
        String::new(),
    ];
    let mut fact = |name: &str, value: String| lines.push(format!("  {name:<11} {value}"));
    if client.has_page().await {
        fact("Web page", base.into());
    }
    fact("API", format!("{base}/v1"));
    if let Some(metrics) = metrics {
        fact("Metrics", format!("http://{metrics}/metrics"));
    }
    fact("Store", store.place.clone());
    fact("Planner", planner(&settings.planner.order));
    if let (Some(source), Some(used)) = (&model.source, settings.models.first()) {
        fact("Model", format!("{} at {}  ({source})", used.name, used.base_url));
    }
    let names: Vec<String> = agents.iter().map(|agent| agent.agent_type.to_string()).collect();
    for (place, line) in wrapped(&names).into_iter().enumerate() {
        fact(if place == 0 { "Agents" } else { "" }, line);
    }
    if model.serves_agents {
        let own = &settings.worker.files_dir;
        fact(
            "Files",
            if own.is_empty() { goalmill_agents::default_files_dir().display().to_string() } else { own.clone() },
        );
    } else {
        fact("", dim("(demo data, not real prices)"));
    }
    lines.push(String::new());
    if args.demo.is_none() {
        let server = if base == SERVER { String::new() } else { format!(" --server {base}") };
        lines.push("Try, in another terminal:".into());
        lines.push(format!("  goalmill submit '{}' --watch{server}", super::super::DEMO_GOAL));
        lines.push("Ctrl-C stops everything.".into());
    }
    if screen.is_for_people() {
        lines.iter().try_for_each(|line| screen.line(line))
    } else {
        lines.iter().for_each(|line| screen.note(line));
        Ok(())
    }
}

fn planner(order: &[String]) -> String {
    let names = order.join(", ");
    if order.iter().any(|name| name == "llm") { names } else { format!("{names} (deterministic; no API key needed)") }
}

fn wrapped(names: &[String]) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for name in names {
        match lines.last_mut() {
            Some(line) if line.chars().count() + name.len() + 3 <= WIDTH => line.push_str(&format!(" · {name}")),
            _ => lines.push(name.clone()),
        }
    }
    lines
}
