//! Runs plans through the loop of a shard without I/O, so that `tests/instructions/run` can count its instructions.
//!
//! `steps PLANS STEPS` runs as many plans of as many independent steps each. Reports are parsed, and events and tasks are
//! encoded, as a scheduler does it.

use std::time::Duration;

use goalmill_common::clock::Clock;
use goalmill_common::command::{Planned, Request, Submit, Verb};
use goalmill_common::commit::{Activity, TaskWrite};
use goalmill_common::goal::Goal;
use goalmill_common::id::{AgentType, EntryId, ShardId};
use goalmill_common::limits::Limits;
use goalmill_common::plan::{Plan, Step};
use goalmill_common::random::Random;
use goalmill_common::wire::{Inbox, InboxStream};
use goalmill_shard::{
    InboxPlace, LoopInput, Quota, ShardMessage, ShardState, TurnInput, TurnOutput, Turns, VirtualShard,
};

const NOW_MS: u64 = 1_795_293_490_000;
/// Reports of one entry of the inbox.
const REPORTS: usize = 64;

/// Tasks of an agent type that may be in flight.
struct Window(u32);

impl Quota for Window {
    fn in_flight_max(&self, _: &AgentType) -> u32 {
        self.0
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse().expect("a number"));
    let (plans, steps) = (arguments.next().unwrap_or(1), arguments.next().unwrap_or(1));
    let context = VirtualShard::context(Limits::default());
    let state = ShardState::new(ShardId(0), context, Clock::from_fn(|| NOW_MS), Random::seeded(1), 60_000);
    let (now, window) = (Duration::ZERO, Window(1024));
    let mut turns = Turns::new(state, "token".into(), 0, Duration::from_secs(1), now);
    let mut inputs: Vec<LoopInput> = (0..plans).map(|plan| submission(plan, steps)).collect();
    let (mut entries, mut ended) = (0, 0);
    while ended < plans {
        let input = if inputs.is_empty() { TurnInput::Due } else { TurnInput::Inputs(std::mem::take(&mut inputs)) };
        for output in turns.next(input, now, &window) {
            match output {
                TurnOutput::LeftOver(left) => inputs.extend(left),
                TurnOutput::Commit { commit, .. } => {
                    ended += commit.plans.iter().filter(|plan| matches!(plan.activity, Activity::Ends { .. })).count();
                    for tasks in commit.tasks.chunks(REPORTS) {
                        entries += 1;
                        inputs.push(reports(entries, tasks));
                    }
                }
                TurnOutput::Panicked(plan) => panic!("the engine panicked over plan {plan}"),
                TurnOutput::Run(_) | TurnOutput::Renew | TurnOutput::Publish(_) | TurnOutput::Released => {}
            }
        }
        turns.finish_commit();
    }
}

/// A plan of independent steps.
fn submission(plan: usize, steps: usize) -> LoopInput {
    let id = format!("p0-{plan:016}");
    let steps = (0..steps).map(|step| Step::new(format!("s{step}"), "stamp")).collect();
    let submit = Submit::new(
        Goal::default(),
        Some(Planned::submitted(Plan { steps, ..Plan::default() }, Vec::new(), Vec::new())),
        id.clone(),
        "urn:test",
    );
    let verb = Verb::Submit(Box::new(submit));
    let request = Box::new(Request { plan: id.as_str().into(), actor: "test".into(), answer: None, verb });
    LoopInput::Message(ShardMessage::Request { request, reply: None, entry: None, snapshot: None })
}

/// The entry of a worker that has completed the tasks.
fn reports(entry: usize, tasks: &[TaskWrite]) -> LoopInput {
    let mut reports = String::from("[");
    for (place, task) in tasks.iter().enumerate() {
        let task = std::str::from_utf8(&task.data).expect("a task is JSON");
        // The first fields of a task are those that its report echoes: plan, step, attempt, token and agent type.
        let echoed = task.split_once(",\"inputs\"").expect("a task has inputs").0;
        let comma = if place == 0 { "" } else { "," };
        reports.push_str(&format!(
            "{comma}{echoed},\"entry\":\"{NOW_MS}-{entry}{place:02}\",\"worker\":\"vm-66zce8cy\",\"what\":\"completed\",\
             \"started_ms\":{NOW_MS},\"finished_ms\":{NOW_MS},\"outputs\":{{\"at_us\":1795293490000001}}}}"
        ));
    }
    reports.push(']');
    let fields = vec![("v".to_owned(), b"1".to_vec()), ("data".to_owned(), reports.into_bytes())];
    let place = InboxPlace { stream: InboxStream::Reports, id: EntryId::from(format!("{NOW_MS}-{entry}")) };
    LoopInput::Entry(place, Inbox::from_fields(InboxStream::Reports, &fields))
}
