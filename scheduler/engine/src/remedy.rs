//! The end of a chain of causes: what holds up its last step, and what could be done about it.

use std::collections::{BTreeMap, BTreeSet};

use goalmill_common::failure::TASK_MISSING;
use goalmill_common::id::{AgentType, WorkerId};
use goalmill_common::plan::Kind;
use goalmill_common::status::{PlanStatus, StepStatus};

use crate::PlanState;
use crate::explain::lasted;
use crate::graph::StepIndex;

/// What a plan's log cannot tell: who serves the queues at the moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// Every queue that is served or holds something.
    pub queues: BTreeMap<AgentType, Serving>,
    /// Workers that were heard of lately, draining ones too.
    pub workers: BTreeSet<WorkerId>,
    /// Queues in quarantine, and what is wrong with each.
    pub quarantined: BTreeMap<AgentType, String>,
    /// A task whose worker is gone goes out again after so long.
    pub lease_ms: u64,
}

/// How a queue is served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Serving {
    /// Live workers that take tasks.
    pub workers: u32,
    /// Their slots.
    pub slots: u32,
    /// Slots in use, for whatever agent type.
    pub busy: u32,
    /// Tasks that no worker has taken.
    pub waiting: u64,
    /// Tasks that workers have taken.
    pub running: u64,
    /// Nothing new is put on it.
    pub paused: bool,
}

/// The end of a chain of causes, and what could be done about it.
#[derive(Default)]
pub(crate) struct Root {
    pub(crate) because: Option<String>,
    pub(crate) hint: String,
}

impl PlanState {
    /// What holds up the last step of a chain, and the hint.
    pub(crate) fn root(&self, i: StepIndex, around: Option<&Surroundings>) -> Root {
        let (id, plan) = (&self.plan.steps[i].id, self.id().map_or("", |plan| plan.as_str()));
        let only = |hint: String| Root { because: None, hint };
        match self.steps[i].status {
            StepStatus::AwaitingApproval if self.asked(i).is_some() => {
                only(format!("answer it: `goalmill step answer {plan} {id} ANSWER`"))
            }
            StepStatus::AwaitingApproval => {
                only(format!("`goalmill step approve {plan} {id}`, or `goalmill step reject {plan} {id}`"))
            }
            StepStatus::Queued => around.map_or_else(|| only(self.mend_unserved(i)), |around| self.queued(i, around)),
            StepStatus::Running => self.running(i, around),
            StepStatus::Pending | StepStatus::Blocked | StepStatus::Ready | StepStatus::Retrying
                if self.status != PlanStatus::Running =>
            {
                only(self.mend_plan(plan))
            }
            StepStatus::Ready => self.ready(i, around),
            StepStatus::Retrying => only(format!(
                "try it at once: `goalmill step retry {plan} {id}`, or skip it: `goalmill step skip {plan} {id}`"
            )),
            StepStatus::Pending
            | StepStatus::Blocked
            | StepStatus::Completed
            | StepStatus::Failed
            | StepStatus::Skipped
            | StepStatus::Cancelled
            | StepStatus::Revised => Root::default(),
        }
    }

    /// What lets a plan go on whose steps wait for the plan itself.
    fn mend_plan(&self, plan: &str) -> String {
        if let Some(asked) = self.question() {
            return format!("answer it: `goalmill plan answer {plan} {} ANSWER`", asked.id);
        }
        if self.proposed().is_some() {
            return format!("`goalmill plan approve {plan}`, or `goalmill plan reject {plan}`");
        }
        match self.status {
            PlanStatus::AwaitingApproval => {
                format!("`goalmill plan approve {plan}`, or `goalmill plan reject {plan}`")
            }
            PlanStatus::Paused => format!("resume the plan: `goalmill plan resume {plan}`"),
            PlanStatus::Replanning if self.waiting.is_for_person() => format!(
                "go on without what failed: `goalmill plan approve {plan}`; or end the plan: `goalmill plan reject {plan}`"
            ),
            PlanStatus::Planning | PlanStatus::Replanning => {
                format!("wait for the planner, or end the plan: `goalmill plan cancel {plan}`")
            }
            PlanStatus::Running
            | PlanStatus::Completed
            | PlanStatus::Partial
            | PlanStatus::Failed
            | PlanStatus::Cancelled
            | PlanStatus::Rejected => String::new(),
        }
    }

    fn mend_unserved(&self, i: StepIndex) -> String {
        let queue = self.queue(i).map_or("", |queue| queue.as_str());
        format!("start workers for it: `goalmill worker --agents {queue}`")
    }

    fn ready(&self, i: StepIndex, around: Option<&Surroundings>) -> Root {
        let wait = "wait for room, or start more workers";
        let (Some(around), Some(queue)) = (around, self.queue(i)) else {
            return Root { because: None, hint: wait.into() };
        };
        if queue.as_str().is_empty() {
            return Root::default();
        }
        if let Some(root) = quarantined(queue, around) {
            return root;
        }
        let serving = around.queues.get(queue).copied().unwrap_or_default();
        if serving.paused {
            return paused(queue);
        }
        if serving.workers == 0 {
            let because = Some(format!("no live worker serves `{queue}`"));
            return Root { because, hint: self.mend_unserved(i) };
        }
        Root { because: None, hint: wait.into() }
    }

    /// A task that is on its stream, or in the hands of a worker that has not said so.
    fn queued(&self, i: StepIndex, around: &Surroundings) -> Root {
        let Some(queue) = self.queue(i) else { return Root::default() };
        if let Some(root) = quarantined(queue, around) {
            return root;
        }
        let Serving { workers, slots, busy, waiting, running, paused: _ } =
            around.queues.get(queue).copied().unwrap_or_default();
        let lease = lasted(0, around.lease_ms);
        if waiting == 0 && running == 0 {
            let because =
                format!("the queue `{queue}` holds no task: its entry or stream was deleted [{TASK_MISSING}]");
            let hint = format!("wait: once it has been missing for {lease}, the step is sent again");
            return Root { because: Some(because), hint };
        }
        if waiting == 0 {
            let because = format!(
                "a worker has taken it and said nothing yet; if that worker is gone, its lease ends within {lease}, \
                 and the step is tried again"
            );
            let hint = if workers == 0 {
                self.mend_unserved(i)
            } else {
                format!("wait {lease}: {} `{queue}`", serve(workers))
            };
            return Root { because: Some(because), hint };
        }
        if workers == 0 {
            return Root { because: Some(format!("no live worker serves `{queue}`")), hint: self.mend_unserved(i) };
        }
        let free = slots.saturating_sub(busy);
        if free == 0 {
            let because = format!("all {slots} slots for `{queue}` are busy ({workers} workers)");
            return Root { because: Some(because), hint: format!("wait, or {}", self.mend_unserved(i)) };
        }
        let because = format!("{} `{queue}`, with {free} of {slots} slots free", serve(workers));
        Root { because: Some(because), hint: "wait: it is about to be taken; if not, see `goalmill doctor`".into() }
    }

    fn running(&self, i: StepIndex, around: Option<&Surroundings>) -> Root {
        let (spec, step) = (&self.plan.steps[i], &self.steps[i]);
        let plan = self.id().map_or("", |plan| plan.as_str());
        if spec.kind == Kind::Plan {
            let own = self.sub_plan_id(i).map(|plan| plan.to_string()).unwrap_or_default();
            return Root { because: None, hint: format!("see why that is not moving: `goalmill explain {own}`") };
        }
        if let (Some(around), Some(worker)) = (around, &step.worker)
            && !around.workers.contains(worker)
        {
            let lease = lasted(0, around.lease_ms);
            let because = format!("nothing was heard of worker `{worker}` lately: its lease ends within {lease}");
            let hint = match self.queue(i).and_then(|queue| around.queues.get(queue)) {
                Some(serving) if serving.workers > 0 => {
                    format!("wait {lease}: the step is then tried again by another")
                }
                Some(_) | None => self.mend_unserved(i),
            };
            return Root { because: Some(because), hint };
        }
        Root { because: None, hint: format!("wait, or skip it: `goalmill step skip {plan} {}`", spec.id) }
    }
}

fn serve(workers: u32) -> String {
    if workers == 1 { "1 live worker serves".into() } else { format!("{workers} live workers serve") }
}

/// A queue to which nothing can be sent.
fn quarantined(queue: &AgentType, around: &Surroundings) -> Option<Root> {
    let problem = around.quarantined.get(queue)?;
    let because = Some(format!("the queue `{queue}` is in quarantine: {problem}"));
    Some(Root { because, hint: "the queue recovers when the key is deleted".into() })
}

fn paused(queue: &AgentType) -> Root {
    Root {
        because: Some(format!("the queue `{queue}` is paused")),
        hint: format!("resume it: `goalmill queue resume {queue}`"),
    }
}
