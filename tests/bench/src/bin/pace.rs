//! Measures the engine alone: microseconds per event and bytes per step, for a wide plan, a chain and a fan-in.
//!
//! `cargo run --release -p goalmill-bench --bin pace`

#![expect(clippy::print_stdout, reason = "it prints what it measures")]

use goalmill_common::clock::Clock;
use goalmill_common::command::{Planned, Submit};
use goalmill_common::goal::Goal;
use goalmill_common::json::Json;
use goalmill_common::limits::Limits;
use goalmill_common::plan::{Plan, Step};
use goalmill_common::report::{Report, What};
use goalmill_common::task::Task;
use goalmill_engine::{Command, Decision, Effect, EngineContext, Envelope, PlanState, SubmitCommand, TokenKey, decide};

fn main() {
    let wide = (0..10_000).map(|i| step(i, &[])).collect();
    let chain = (0..10_000).map(|i| step(i, &i.checked_sub(1).map_or(vec![], |before| vec![before]))).collect();
    let mut fan: Vec<Step> = (0..9_999).map(|i| step(i, &[])).collect();
    fan.push(step(9_999, &(0..9_999).collect::<Vec<_>>()));
    for (name, steps) in [("wide", wide), ("chain", chain), ("fan-in", fan)] {
        let (events, micros) = run(steps);
        println!("{name}: {events} events, {:.2} us per event", micros / events as f64);
    }
    let before = resident();
    let steps = (0..100_000).map(|i| step(i, &[])).collect();
    let taken = submit(steps);
    println!("100,000 ready steps: {} MiB", (resident() - before) >> 20);
    drop(taken);
}

fn step(i: usize, after: &[usize]) -> Step {
    let inputs = Json::from_text(format!(r#"{{"place":{i}}}"#)).expect("it is JSON");
    let dependencies = after.iter().map(|k| format!("step-{k}").into()).collect();
    Step { inputs, dependencies, ..Step::new(format!("step-{i}"), "sleep") }
}

fn submit(steps: Vec<Step>) -> (PlanState, Decision) {
    let plan = Planned {
        plan: Plan { steps, ..Plan::default() },
        planner: "submitted".into(),
        confidence: 1.0,
        provenance: None,
        warnings: Vec::new(),
        routes: Vec::new(),
        goal: None,
    };
    let submit = Submit::new(Goal::default(), Some(plan), "r", "pace");
    let command = SubmitCommand { plan_id: "p0-0123456789abcdef".into(), salt: "salt".into(), submit };
    goalmill_engine::submit(&context(), envelope(command)).expect("the plan fits")
}

fn give(state: &mut PlanState, command: Command) -> Decision {
    decide(state, &context(), envelope(command)).expect("the command fits")
}

fn context() -> EngineContext {
    let limits = Limits { steps_max: 100_000, events_max: 1_000_000, ..Limits::default() };
    let policy = goalmill_plan::validate::Policy::default();
    EngineContext {
        cards: Default::default(),
        judge_model: false,
        limits,
        policy,
        hooks: Default::default(),
        task_lease_ms: 30_000,
        reply: "goalmill:{s0}:reports".into(),
        callback_base: String::new(),
        token_key: TokenKey::new("key"),
        recording: None,
    }
}

fn envelope<C>(command: C) -> Envelope<C> {
    Envelope { now_ms: 1_795_293_490_000, random: 7, actor: None, family: Default::default(), command }
}

/// Runs a plan to its end, 64 steps at a time; gives its events and the engine's microseconds.
fn run(steps: Vec<Step>) -> (u64, f64) {
    let clock = Clock::system();
    let begin = clock.now_ms();
    let (mut state, begun) = submit(steps);
    let mut ready = Vec::new();
    let mut tasks: Vec<Task> = Vec::new();
    take(begun, &mut ready, &mut tasks);
    while !state.is_final() {
        for _ in 0..64 {
            let Some(i) = ready.pop() else { break };
            let decision = give(&mut state, Command::Dispatch(i));
            take(decision, &mut ready, &mut tasks);
        }
        for task in std::mem::take(&mut tasks) {
            let decision = give(&mut state, Command::Report(Box::new(done(task))));
            take(decision, &mut ready, &mut tasks);
        }
    }
    (state.seq(), (clock.now_ms() - begin) as f64 * 1_000.0)
}

fn take(decision: Decision, ready: &mut Vec<goalmill_engine::StepIndex>, tasks: &mut Vec<Task>) {
    for effect in decision.effects {
        if let Effect::Ready(i) = effect {
            ready.push(i);
        } else if let Effect::Send(task) = effect {
            tasks.push(*task);
        }
    }
}

fn done(task: Task) -> Report {
    let head = Report::on(&task, task.agent_type.clone(), "1-0".into(), "w".into(), What::Completed);
    Report { outputs: Some(Json::empty_object()), ..head }
}

/// Resident bytes of this process; 0 where the system does not tell.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).unwrap_or(0) * 4_096
}
