//! Measures from the submission of a goal to its first step, by the size of the catalogue, with a scripted model.
//!
//! `cargo run --release -p goalmill-bench --bin first_step`
//!
//! The model answers at once, so the time is that of Goalmill: shortlist, prompt and schema of the question, reading, validation,
//! routing and dispatch, over the embedded store.

#![expect(clippy::print_stdout, reason = "it prints what it measures")]

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use goalmill_broker::embedded;
use goalmill_common::clock::Clock;
use goalmill_common::config::Dialect;
use goalmill_common::event::{Event, StepEvent};
use goalmill_common::id::PlanId;
use goalmill_demo::scripted::{Feature, Script, Scripted};
use goalmill_tests::installation::{Installation, settings};
use goalmill_tests::model_server::ModelServer;
use goalmill_tests::wait::{SOON, until};
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_mins(1);
/// Actions of one agent.
const AGENT_ACTIONS: usize = 10;

#[derive(Clone, Debug, Parser)]
#[command(name = "first_step", about = "Measures from a goal to its first step, by the size of the catalogue")]
struct Arguments {
    /// Actions of the catalogue; sizes are measured one after the other.
    #[arg(long, value_name = "N,M", value_delimiter = ',', default_value = "10,100,1000",
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    actions: Vec<u32>,
    /// Goals of each size.
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    println!("{:>7}  {:<8}  {:>8}  {:>8}", "actions", "schema", "p50 ms", "max ms");
    for actions in arguments.actions {
        for (schema, refuses) in [("grammar", &[][..]), ("prompt", &[Feature::JsonSchema, Feature::ForcedTool])] {
            let took = measure(actions as usize, arguments.repeat, refuses).await?;
            println!("{actions:>7}  {schema:<8}  {:>8}  {:>8}", took[took.len() / 2], took[took.len() - 1]);
        }
    }
    Ok(())
}

/// Milliseconds from acceptance to the start of the first step, sorted.
///
/// - `refuses`: what the server of the model does not know.
async fn measure(actions: usize, repeat: u32, refuses: &[Feature]) -> Result<Vec<u64>> {
    let step =
        json!({"id": "s1", "description": "say it", "agent_type": "echo", "inputs": {"n": 1}, "dependencies": []});
    let answer = Scripted { json: Some(json!({"steps": [step]})), times: Some(u64::MAX), ..Scripted::default() };
    let script = Script { refuses: refuses.iter().copied().collect(), ..Script::new([answer]) };
    let server = ModelServer::start(script).await?;
    let mut settings = settings();
    settings.models = vec![server.settings("scripted", Dialect::Openai)];
    settings.planner.order = vec!["llm".into()];
    let at = Installation::start(embedded::open(None, Clock::system())?, settings).await?;
    let agents = actions.div_ceil(AGENT_ACTIONS);
    for number in 0..agents {
        let (status, answer) = at.post("/v1/agents", &agent(number)).await?;
        ensure!(status < 300, "{status}: {answer}");
    }
    let last = format!("\"agent_{}\"", agents - 1);
    let knows_all = async || {
        at.get("/v1/agents")
            .await
            .is_ok_and(|page| ["\"echo\"", &last].iter().all(|name| page.to_string().contains(name)))
    };
    until(SOON, knows_all).await;
    let mut took = Vec::new();
    // The first goal opens connections and finds the mode of the server.
    for number in 0..=repeat {
        let ms = first_step(&at, number).await?;
        took.extend((number > 0).then_some(ms));
    }
    at.stop().await;
    took.sort_unstable();
    Ok(took)
}

async fn first_step(at: &Installation, number: u32) -> Result<u64> {
    let goal = json!({"description": format!("Do part {number} of the work")});
    let (status, answer) = at.post("/v1/goals", &goal).await?;
    ensure!(status == 202, "{status}: {answer}");
    let id = PlanId::from(answer["plan_id"].as_str().unwrap_or_default());
    at.await_end(&id, LIMIT).await?;
    let log = at.log(&id).await?;
    let started = log.iter().find(|record| matches!(record.event, Event::Step { event: StepEvent::Started(_), .. }));
    let accepted = log.first().context("a plan has a first event")?;
    Ok(started.context("its step has started")?.time_ms.saturating_sub(accepted.time_ms))
}

/// An agent with actions of three inputs, which no worker serves.
fn agent(number: usize) -> Value {
    let text = || json!({"type": "string"});
    let fields = |names: [&str; 3]| {
        let properties: Value = names.iter().map(|name| ((*name).to_owned(), text())).collect();
        json!({"type": "object", "properties": properties, "required": names, "additionalProperties": false})
    };
    let action = |at: usize| {
        json!({"name": format!("action_{number}_{at}"), "description": format!("Does part {at} of the work {number}"),
               "inputs": fields(["subject", "style", "place"]), "outputs": fields(["text", "source", "note"])})
    };
    let actions: Vec<Value> = (0..AGENT_ACTIONS).map(action).collect();
    json!({"agent_type": format!("agent_{number}"), "description": format!("Works in field {number}"), "actions": actions})
}
