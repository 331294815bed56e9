//! The interpreter: what the laws say about a plan. It is naive on purpose, and shares nothing with the engine but parser,
//! validator and expressions.

pub(crate) mod attempt;
mod fork;
mod people;
mod plan_run;
mod revise;
mod seen;
mod step_run;
mod undo;
mod world;

use goalmill_common::goal::{Budget, Goal};
use goalmill_common::limits::Limits;
use goalmill_common::plan::Plan;
use goalmill_common::status::PlanStatus;

use crate::run::{Ask, Run, StepEnd};
use crate::script::{START_MS, Script};
use plan_run::PlanRun;
use step_run::Part;
use world::World;

/// Things that happen in one run, at most.
const TURNS_MAX: u32 = 5_000;

/// Why the laws do not say what happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undecided {
    /// The plan waits for something that never comes.
    Stuck,
    /// The random part of a wait matters.
    Random,
}

/// Runs a plan by the laws.
///
/// - `order`: questions to agents in the order in which a driver saw them; followed where the laws leave the order free.
///   So the questions of the driver are a linear extension of what the laws demand if and only if they are those of the
///   result.
/// - `arbiter`: seed of the order of other things that happen in one millisecond, where it is free; without it they happen
///   in the order of their lists.
pub fn run(plan: &Plan, script: &Script, order: &[Ask], arbiter: Option<u64>) -> Result<Run, Undecided> {
    let mut world = World::new(script, order, arbiter);
    let deadline_ms =
        START_MS + script.deadline_ms.unwrap_or(script.start_ms.unwrap_or(0) + Limits::default().plan_ms_max);
    let goal = Goal { budget: Budget { ..plan.budget }, ..Goal::default() };
    let mut root = PlanRun::new(plan.clone(), goal, deadline_ms);
    root.delay(script.start_ms.is_some());
    let mut deeds = script.deeds.iter();
    let (mut forking, mut forked) = (script.fork.as_ref().map(|fork| (fork, None)), None);
    for _ in 0..TURNS_MAX {
        while root.settle(&mut world) {}
        if root.is_ended() && forking.is_none() {
            return Ok(Run { forked, ..result(&root, &world) });
        }
        world.held = root.held();
        let mut ready = Vec::new();
        root.find_ready(usize::MAX, &[], &mut world, &mut ready);
        // Two steps may ask the same.
        if let Some(next) = world.in_free_order(ready).into_iter().min_by_key(|next| (next.place, next.since_ms)) {
            root.ask(&next.path, &mut world);
            continue;
        }
        let deed_ms = deeds.as_slice().first().map(|deed| START_MS + deed.at_ms);
        let event_ms = world.next_event_ms();
        let fork_ms = forking.as_mut().filter(|_| root.is_ended());
        let fork_ms = fork_ms.map(|(fork, at_ms)| *at_ms.get_or_insert(world.now_ms + fork.after_ms));
        let start_ms = script.start_ms.filter(|_| !root.has_begun).map(|start_ms| START_MS + start_ms);
        let mut due: Vec<u64> = [deed_ms, event_ms, start_ms, fork_ms].into_iter().flatten().collect();
        root.due(&mut due);
        // A plan inside that begins late is over at once: time never goes back.
        let Some(due_ms) = due.into_iter().min() else { return Err(Undecided::Stuck) };
        world.now_ms = world.now_ms.max(due_ms);
        let from_outside = [
            (Outside::Deed, deed_ms),
            (Outside::Start, start_ms),
            (Outside::Event, event_ms),
            (Outside::Fork, fork_ms),
        ];
        let now = from_outside.into_iter().filter(|(_, at_ms)| at_ms.is_some_and(|at_ms| at_ms <= world.now_ms));
        let now = now.map(|(what, _)| Some(what)).chain([None]);
        for what in world.in_free_order(now.collect::<Vec<_>>()) {
            match what {
                Some(Outside::Deed) => deeds.next().into_iter().for_each(|deed| root.heed(&deed.does, &mut world)),
                Some(Outside::Start) => root.delay(false),
                Some(Outside::Event) => {
                    world.accept_event();
                    root.offer_event(&mut world);
                }
                Some(Outside::Fork) => {
                    let step = forking.take().and_then(|(fork, _)| fork.step.as_deref());
                    if let Some(fork) = root.fork(step, &mut world) {
                        let ended = result(&root, &world);
                        (forked, root) = (Some((ended.status, ended.code)), fork);
                    }
                }
                None if root.come_due(&mut world) => {}
                None => continue,
            }
            break;
        }
    }
    Err(Undecided::Stuck)
}

/// What comes from outside.
enum Outside {
    Deed,
    Start,
    Event,
    Fork,
}

fn result(root: &PlanRun, world: &World<'_>) -> Run {
    let main = root.steps.iter().filter(|step| step.part == Part::Main);
    let end = |step: &step_run::StepRun| {
        let outputs = step.outputs.as_ref().map(|outputs| outputs.value());
        let status = step.status().unwrap_or(goalmill_common::status::StepStatus::Pending);
        (step.spec.id.to_string(), StepEnd { status, outputs, partial: step.partial })
    };
    Run {
        status: root.end.as_ref().map_or(PlanStatus::Running, |end| end.status),
        code: root.end.as_ref().and_then(|end| Some(end.failure.as_ref()?.code.clone())),
        steps: main.map(end).collect(),
        ended_ms: world.now_ms - START_MS,
        asks: world.asks.clone(),
        tokens: root.tokens,
        forked: None,
        laws: world.laws.clone(),
    }
}
