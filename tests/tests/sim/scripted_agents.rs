//! What the agents of scripted plans do, and what became of their attempts instead.

use std::collections::{BTreeMap, BTreeSet};

use goalmill_broker::Commit;
use goalmill_common::clock::parse_rfc3339;
use goalmill_common::event::{Event, StepEvent, read_entry};
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::id::{PlanId, StepId};
use goalmill_common::task::Task;
use goalmill_common::wire::read_task;
use goalmill_spec::{Act, Ask, Does, Script};

/// One attempt of one step of one plan.
type Attempt = (PlanId, StepId, u32);

/// The scripts of the plans of a run, by the prefixes of their actions.
///
/// Everything is taken from the commits that were applied, and turns back with the server. What faults did to an attempt becomes a part of the script.
#[derive(Clone, Default)]
pub struct ScriptedAgents {
    scripts: BTreeMap<String, Script>,
    /// Prefixes of plans whose scripts faults have changed, and of those to which something else happened.
    pub changed: BTreeSet<String>,
    pub unscripted: BTreeSet<String>,
    /// Questions in the order of the log.
    pub asks: Vec<Ask>,
    /// The questions of attempts, when they were sent, and whether they have ended.
    attempts: BTreeMap<Attempt, (String, usize, u64, bool)>,
}

impl ScriptedAgents {
    pub fn add(&mut self, prefix: &str, script: Script) {
        self.scripts.insert(prefix.into(), script);
    }

    /// Whether the run has scripted plans.
    pub fn has_plans(&self) -> bool {
        !self.scripts.is_empty()
    }

    /// What happened to the attempts of a plan, and around it.
    pub fn script(&self, prefix: &str) -> &Script {
        &self.scripts[prefix]
    }

    /// What the agent does that gets a task.
    pub fn act(&self, plan: &PlanId, step: &StepId, attempt: u32) -> Option<Act> {
        let (action, time, ..) = self.attempts.get(&(plan.clone(), step.clone(), attempt))?;
        Some(self.scripts.get(prefix_of(action))?.act(action, *time))
    }

    /// Follows a commit that was applied.
    pub fn applied(&mut self, commit: &Commit, now_ms: u64) {
        commit.tasks.iter().filter_map(|write| read_task(&write.data).ok()).for_each(|task| self.sent(task, now_ms));
        for write in &commit.plans {
            let time_ms = parse_rfc3339(&write.time).unwrap_or_default();
            let records = read_entry(&String::from_utf8_lossy(&write.events), time_ms).unwrap_or_default();
            for record in records {
                if let Event::Step { step, attempt, event, .. } = record.event
                    && event.ends_attempt()
                {
                    self.ended((write.plan.clone(), step, attempt), &event, now_ms);
                }
            }
        }
    }

    fn sent(&mut self, task: Task, now_ms: u64) {
        let time = self.asks.iter().filter(|ask| ask.action == task.action).count();
        self.attempts.insert((task.plan, task.step, task.attempt), (task.action.clone(), time, now_ms, false));
        self.asks.push(Ask { at_ms: 0, action: task.action, inputs: task.inputs.value() });
    }

    fn ended(&mut self, attempt: Attempt, event: &StepEvent, now_ms: u64) {
        let Some((action, time, sent_ms, has_ended)) = self.attempts.get_mut(&attempt) else { return };
        let prefix = prefix_of(action);
        let Some(script) = self.scripts.get_mut(prefix) else { return };
        if std::mem::replace(has_ended, true) {
            return;
        }
        if matches!(event, StepEvent::Released(_) | StepEvent::Recalled(_)) {
            self.unscripted.insert(prefix.into());
        }
        let Some(does) = event.failure().and_then(cut_off) else { return };
        let act = script.act(action, *time);
        if act.does != does {
            let acts = script.acts.entry(action.clone()).or_default();
            let missing: Vec<Act> = (acts.len()..=*time).map(|n| Script::default().act(action, n)).collect();
            acts.extend(missing);
            acts[*time] = Act::new(now_ms - *sent_ms, does);
            self.changed.insert(prefix.into());
        }
    }
}

/// The prefix of an action.
fn prefix_of(action: &str) -> &str {
    action.find('-').map_or(action, |end| &action[..=end])
}

/// How an attempt ended whose agent was not heard.
fn cut_off(failure: &Failure) -> Option<Does> {
    match (failure.class, failure.code.as_str()) {
        (FailureClass::Lost, _) | (_, "STEP_POISONED") => Some(Does::Lost),
        (FailureClass::Timeout, _) => Some(Does::Silent),
        _ => None,
    }
}
