//! The trip on which everything goes wrong: a backup agent, neighbouring districts, a cheaper stay, and an end that
//! keeps what was done. Told by the program itself, with the shipped agents; by its scripted model and by its rules.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result};
use goalmill_demo::scripted::Script;
use goalmill_tests::dev::{Dev, program};
use goalmill_tests::model_server::held::HeldModel;
use goalmill_tests::process::{Signal, signal};
use goalmill_tests::wait::until;
use serde_json::{Value, json};

use crate::docs::root;

const SCRIPT: &str = "config/stories/paris.yaml";
const GOAL: &str = "Plan a 3-day trip to Paris in May with a $1500 budget";
const LIMIT: Duration = Duration::from_mins(1);

#[test]
fn one_command_tells_a_stranger_the_whole_story() -> Result<()> {
    let output = program().args(["dev", "--demo", "story", "--listen", "127.0.0.1:0", "--metrics", "off"]).output()?;
    let text = String::from_utf8(output.stdout)?;
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(!text.contains('\u{1b}'), "there are control codes in a pipe:\n{text}");
    let (first, second) = text.split_once("\n2. ").context("there are two chapters")?;
    for told in [first, second] {
        let revisions: Vec<&str> = told.lines().filter(|line| line.contains("↻ revision ")).collect();
        let expected = [
            ("revision 1: retry with agent", "confidence 0.75 → 0.65"),
            ("revision 2: workaround", "confidence 0.65 → 0.40"),
            ("revision 3: adjust", "confidence 0.40 → 0.12"),
        ];
        assert_eq!(revisions.len(), expected.len(), "{told}");
        for (line, (begin, end)) in revisions.iter().zip(expected) {
            assert!(line.contains(begin) && line.ends_with(end), "`{line}` is not {begin} … {end}");
        }
        for part in [
            "[UNAVAILABLE]",
            "backup_flight_agent",
            "670.00 USD  NYC → CDG, return",
            "[FULLY_BOOKED]",
            "3 nights, 11e",
            "[OVER_BUDGET]",
            "18.40 USD",
            "3 nights, 12e",
            "41.60 USD",
        ] {
            assert!(told.contains(part), "`{part}` is missing in\n{told}");
        }
        assert_eq!(bill(told), [670.0, 387.0, 116.4, 285.0, 1458.4], "{told}");
    }
    assert!(first.contains("completed in") && first.contains("✓ itinerary"), "{first}");
    assert!(second.contains("failed in") && second.contains("[MAX_REVISIONS_EXCEEDED]"), "{second}");
    Ok(())
}

#[test]
fn the_story_ends_when_it_is_interrupted() -> Result<()> {
    let mut command = program();
    command.args(["dev", "--demo", "story", "--listen", "127.0.0.1:0", "--metrics", "off"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let lines = BufReader::new(child.stdout.take().context("its output is piped")?).lines();
    let mut after = Vec::new();
    for line in lines {
        let line = line?;
        match after.is_empty() && !line.contains("revision 1") {
            true => continue,
            false if after.is_empty() => signal(child.id(), Signal::SIGINT)?,
            false => {}
        }
        after.push(line);
    }
    assert_eq!(child.wait()?.code(), Some(130), "{after:#?}");
    assert!(!after.iter().any(|line| line.contains("MAX_REVISIONS_EXCEEDED")), "{after:#?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn four_failures_end_the_plan_and_its_log_holds_every_number() -> Result<()> {
    let dev = Dev::start(&["--model-script", &shipped()], "").await?;
    let faults = ["flight_agent=unavailable", "hotel_agent=fully_booked", "writer_agent=unavailable"];
    let told = dev.says(&submit(&["--min-confidence", "0.1", "--wait", "-o", "json"], &faults), 3)?;
    let told: Value = serde_json::from_str(&told)?;
    assert_eq!(told["status"], "failed", "{told:#}");
    let kept = |step: &str| told["results"][step]["total"].as_f64();
    assert_eq!(
        [kept("flights"), kept("hotels"), kept("activities"), kept("cheaper_hotel"), kept("budget")],
        [Some(670.0), Some(447.0), Some(116.4), Some(387.0), Some(1458.4)],
        "what was done is kept: {told:#}"
    );
    let plan = told["plan_id"].as_str().context("it has an id")?;
    let events = dev.events(plan)?;
    let expected =
        [("retry_with_agent", 0.75, -0.1, 0.65), ("workaround", 0.65, -0.25, 0.4), ("adjust", 0.4, -0.28, 0.12)];
    assert_eq!(revisions(&events), expected.map(|(strategy, a, b, c)| json!([strategy, "llm", a, b, c])));
    let ended = data(&events, "plan_failed").context("it failed")?;
    assert_eq!(ended["failure"]["code"], "MAX_REVISIONS_EXCEEDED", "{ended:#}");
    assert!(ended["failure"]["message"].as_str().is_some_and(|m| m.starts_with("max_revisions_exceeded")), "{ended:#}");
    let log = dev.file("log.jsonl");
    std::fs::write(&log, dev.says(&["events", plan, "-o", "jsonl"], 0)?)?;
    dev.says(&["replay", &log.display().to_string()], 0)?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revision_below_the_least_confidence_is_not_taken() -> Result<()> {
    let dev = Dev::start(&["--model-script", &shipped()], "").await?;
    let told = dev.says(&submit(&["--wait"], &["flight_agent=unavailable", "hotel_agent=fully_booked"]), 3)?;
    let events = dev.events("@latest")?;
    assert_eq!(revisions(&events).len(), 2, "{told}");
    let ended = data(&events, "plan_failed").context("it failed")?;
    let message = ended["failure"]["message"].as_str().unwrap_or_default();
    assert!(message.starts_with("low_confidence: ") && message.contains("0.12"), "{ended:#}");
    Ok(())
}

/// The steps of the trip with the agents that do them, as each fault lets them: the outcome, the strategies of revisions,
/// and who did the step that the fault strikes.
#[tokio::test(flavor = "multi_thread")]
async fn a_trip_is_completed_only_by_agents_that_have_the_actions() -> Result<()> {
    const FAULTS: [&str; 5] = ["unavailable", "fully_booked", "timeout", "declined", "too_complex"];
    let dev = Dev::start(&[], "").await?;
    let goal = "Plan a 3-day trip to Paris in May with a $2000 budget";
    let agents = [
        ("flight_agent", "flights"),
        ("backup_flight_agent", "flights"),
        ("hotel_agent", "hotels"),
        ("activity_agent", "activities"),
        ("validation_agent", "budget"),
    ];
    let mut begun = Vec::new();
    for (agent, step) in agents {
        for fault in FAULTS {
            let line = ["submit", goal, "-o", "name", "--demo-fault", &format!("{agent}={fault}")];
            begun.push((agent, step, fault, dev.says(&line, 0)?.trim().to_owned()));
        }
    }
    for (agent, step, fault, id) in begun {
        let expected = match (agent, fault) {
            ("backup_flight_agent", _) => Some((None, "flight_agent")),
            ("flight_agent", "unavailable" | "timeout") => Some((Some("retry_with_agent"), "backup_flight_agent")),
            ("hotel_agent", "fully_booked") => Some((Some("workaround"), "hotel_agent")),
            _ => None,
        };
        let output = dev.run(&["watch", &id, "--timeout", "60s"])?;
        let said = String::from_utf8(output.stdout)?;
        let (code, events) = (output.status.code(), dev.events(&id)?);
        let sent = events.iter().filter(|event| event["type"] == "step_queued" && event["step_id"] == step);
        let mut agents = sent.filter_map(|event| event["data"]["agent_type"].as_str());
        // A step that becomes a plan is with no agent.
        let did = agents.rfind(|agent_type| !agent_type.is_empty()).unwrap_or_default();
        let is_done = events.iter().any(|event| event["type"] == "step_completed" && event["step_id"] == step);
        let strategies: Vec<Value> = revisions(&events).iter().map(|revised| revised[0].clone()).collect();
        let Some((strategy, who)) = expected else {
            assert_eq!((code, is_done, strategies.len()), (Some(3), false, 0), "{agent}={fault}: {said}");
            assert_eq!(did, if step == "flights" { "flight_agent" } else { agent }, "{agent}={fault}: {said}");
            continue;
        };
        let wanted: Vec<Value> = strategy.into_iter().map(|strategy| json!(strategy)).collect();
        assert_eq!((code, is_done, did, strategies), (Some(0), true, who, wanted), "{agent}={fault}: {said}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_goal_of_an_unknown_kind_waits_for_a_person_before_anything_is_done() -> Result<()> {
    let dev = Dev::start(&[], "").await?;
    for goal in ["Book a table for 4", "Transfer 500 EUR to Bob"] {
        dev.says(&["submit", goal, "--wait"], 7)?;
        let begun = dev.events("@latest")?.iter().any(|event| event["type"] == "step_queued");
        assert!(!begun, "{goal}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_step_begins_before_a_quarter_of_the_plan_has_arrived() -> Result<()> {
    let script = Script::load(Path::new(&shipped()))?;
    let plan = script.answers[0].json.as_ref().context("the first answer is the plan")?.to_string();
    // This model is asked for no revision.
    let plan = plan.replace("1500", "2000");
    let quarter = (plan.len() - 1) / 4;
    let model = HeldModel::start(&plan, (0..=quarter).rev().find(|at| plan.is_char_boundary(*at)).unwrap_or(0)).await?;
    let dev = Dev::start(&["--demo-agents"], &settings_for(&model)).await?;
    let id = dev.says(&["submit", GOAL, "-o", "name"], 0)?;
    let id = id.trim();
    let has_begun = || dev.events(id).is_ok_and(|events| data(&events, "step_started").is_some());
    // Not a byte more is written until the first step runs.
    until(LIMIT, async || has_begun()).await;
    let events = dev.events(id)?;
    assert!(!events.iter().any(|event| event["type"] == "plan_extended" && event["data"]["open"] == false));
    model.go_on();
    dev.says(&["watch", id, "--timeout", "60s"], 0)?;
    let whole = dev.events(id)?;
    let closed = whole.iter().find(|event| event["type"] == "plan_extended" && event["data"]["open"] == false);
    let arrived = &closed.context("the plan was written")?["data"]["provenance"]["arrived"];
    assert_eq!(arrived["bytes"], plan.len(), "{arrived:#}");
    let first = arrived["steps"][0]["bytes"].as_u64().context("the first step came early")?;
    assert!(first * 4 < plan.len() as u64, "{arrived:#}");
    Ok(())
}

/// Nothing gives up on the model while it is held.
fn settings_for(model: &HeldModel) -> String {
    format!(
        "[planner]\norder = [\"llm\", \"rules\"]\ntimeout_ms = 120000\n\n[[models]]\nname = \"held\"\nbase_url = \"{}\"\n\
         first_byte_ms = 120000\nidle_ms = 120000\ncall_ms = 120000\n",
        model.base_url()
    )
}

fn shipped() -> String {
    root().join(SCRIPT).display().to_string()
}

fn submit<'a>(flags: &[&'a str], faults: &[&'a str]) -> Vec<&'a str> {
    let faults = faults.iter().flat_map(|fault| ["--demo-fault", *fault]);
    ["submit", GOAL].into_iter().chain(flags.iter().copied()).chain(faults).collect()
}

/// Strategy, planner, confidence before, what it changed by, confidence after.
fn revisions(events: &[Value]) -> Vec<Value> {
    let revised = events.iter().filter(|event| event["type"] == "plan_revised").map(|event| &event["data"]);
    let names = ["strategy", "planner", "confidence_before", "confidence_delta", "confidence_after"];
    revised.map(|data| names.iter().map(|name| data[*name].clone()).collect()).collect()
}

fn data<'e>(events: &'e [Value], kind: &str) -> Option<&'e Value> {
    events.iter().find(|event| event["type"] == kind).map(|event| &event["data"])
}

/// The amounts of the bill, the total last.
fn bill(told: &str) -> Vec<f64> {
    let lines = told.lines().skip_while(|line| !line.starts_with("Results")).skip(1);
    let lines = lines.take_while(|line| line.starts_with("  ") && !line.contains("within"));
    lines.filter_map(|line| line.split_whitespace().last()?.parse().ok()).collect()
}
