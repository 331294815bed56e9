//! The demo `story`: a trip with failures, planned and revised by a scripted model.
//!
//! It submits one goal twice. First an agent, a hotel and the budget fail, and each failure revises the plan; then
//! there is a fourth failure, which exceeds the limit of three revisions.

use goalmill_client::Client;
use goalmill_common::status::PlanStatus;
use serde_json::{Map, Value, json};

use super::session::{people, watch};
use crate::args::DevArgs;
use crate::commands::results::show_results;
use crate::exit::{CommandResult, Exit, Failed};
use crate::output::{Screen, Tone};

/// The script of the model.
pub const SCRIPT: &str = include_str!("../../../../config/stories/paris.yaml");
/// Path of the script in the repository.
pub const SCRIPT_NAME: &str = "config/stories/paris.yaml";

const GOAL: &str = "Plan a 3-day trip to Paris in May with a $1500 budget";
/// A model's plan starts at confidence 0.75, and three revisions multiply it by 0.63: with the default floor (0.3) the
/// third one would end the plan.
const MIN_CONFIDENCE: f64 = 0.1;

struct Chapter {
    title: &'static str,
    /// Faults by agent.
    faults: &'static [(&'static str, &'static str)],
    status: PlanStatus,
    /// The code of the plan's own failure; empty when it has none.
    code: &'static str,
}

const CHAPTERS: [Chapter; 2] = [
    Chapter {
        title: "Three troubles, and a trip all the same",
        faults: &[("flight_agent", "unavailable"), ("hotel_agent", "fully_booked")],
        status: PlanStatus::Completed,
        code: "",
    },
    Chapter {
        title: "The fourth trouble is one too many: the plan ends, and what was done is kept",
        faults: &[("flight_agent", "unavailable"), ("hotel_agent", "fully_booked"), ("writer_agent", "unavailable")],
        status: PlanStatus::Failed,
        code: "MAX_REVISIONS_EXCEEDED",
    },
];

/// Runs the story; fails when it ends differently than expected.
pub async fn run(screen: &Screen, args: &DevArgs, client: &Client) -> CommandResult {
    for (place, chapter) in CHAPTERS.iter().enumerate() {
        if screen.is_for_people() {
            let title = screen.palette.tone(Tone::Bold, format!("{}. {}", place + 1, chapter.title));
            screen.line(format!("{title}\n$ {}", chapter.command()))?;
        }
        let watched = watch(screen, args, client, &chapter.goal()).await?;
        let Some(board) = watched.board else { return Ok(watched.exit) };
        let results = client.results(&board.plan).await?;
        if screen.is_for_people() {
            people(screen, &results)?;
        } else {
            show_results(screen, &results)?;
        }
        if screen.is_for_people() {
            screen.line("")?;
        }
        let code = board.failure().map(|failure| failure.code.as_str()).unwrap_or_default();
        if (board.status(), code) != (chapter.status, chapter.code) {
            let message = format!("the plan should have ended {} {}", chapter.status.as_str(), chapter.code);
            return Err(Failed::other(message.trim_end()));
        }
    }
    Ok(Exit::Done)
}

impl Chapter {
    /// The equivalent command line.
    fn command(&self) -> String {
        let faults: Vec<String> =
            self.faults.iter().map(|(agent, fault)| format!(" \\\n    --demo-fault {agent}={fault}")).collect();
        format!("goalmill submit '{GOAL}' --watch --min-confidence {MIN_CONFIDENCE}{}", faults.concat())
    }

    fn goal(&self) -> Value {
        let faults: Map<String, Value> =
            self.faults.iter().map(|(agent, fault)| ((*agent).to_owned(), json!(fault))).collect();
        json!({
            "description": GOAL,
            "constraints": {"demo_fault": faults},
            "planning": {"revision": {"confidence_floor": MIN_CONFIDENCE}},
        })
    }
}
