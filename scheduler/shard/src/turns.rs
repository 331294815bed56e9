//! The turns of a shard's loop, without I/O: which inputs a turn takes, when it is committed, what happens afterwards.
//!
//! Times are durations since the loop began. While one turn is being written, the next one is decided; it is committed once
//! the first is written.

use std::time::Duration;

use goalmill_common::commit::Commit;
use goalmill_common::id::PlanId;
use goalmill_common::json::Json;

use crate::Slot;
use crate::counts::ShardCounts;
use crate::message::LoopInput;
use crate::post_commit::PostCommit;
use crate::quota::Quota;
use crate::state::{SealedTurn, ShardState};

/// What the loop tells its turns.
pub enum TurnInput {
    Inputs(Vec<LoopInput>),
    /// A timer or a heartbeat is due, a queue has room, or the shard is to be released.
    Due,
    /// A plan that was recovered from its log may start.
    Start(Slot),
    /// The commit is written. The next input follows immediately.
    Committed,
}

/// What the loop has to do, in this order.
pub enum TurnOutput {
    /// Inputs that the turn had no time for; the next turn takes them first.
    LeftOver(Vec<LoopInput>),
    /// Write it and answer with [`TurnInput::Committed`].
    Commit {
        commit: Commit,
        /// Large inputs, by the key of their blob; to be stored first.
        inputs: Vec<(String, Json)>,
    },
    /// Run an action whose events are written.
    Run(PostCommit),
    /// Renew the ownership of the shard.
    Renew,
    /// Publish how many plans and steps are in which state.
    Publish(ShardCounts),
    /// Everything is written and the shard can be released.
    Released,
    /// The engine panicked over this plan: nothing of the turn may be written.
    Panicked(PlanId),
}

/// The turns of one owned shard.
pub struct Turns {
    /// What the turns change.
    pub state: ShardState,
    token: String,
    /// Number of the last commit under the token.
    number: u64,
    heartbeat: Duration,
    /// The turn that is being written.
    committing: Option<SealedTurn>,
    is_releasing: bool,
    /// When the last commit began or the ownership was last renewed.
    renewed: Duration,
    /// When the last commit that checks everything began.
    checked: Duration,
    published: Option<Duration>,
    committed: Duration,
}

impl Turns {
    /// - `number`: number of the last commit under `token`.
    pub fn new(state: ShardState, token: String, number: u64, heartbeat: Duration, now: Duration) -> Self {
        Self {
            state,
            token,
            number,
            heartbeat,
            committing: None,
            is_releasing: false,
            renewed: now,
            checked: now,
            published: None,
            committed: now,
        }
    }

    /// Ends the turns with [`TurnOutput::Released`] once everything is written.
    pub fn release(&mut self) {
        self.is_releasing = true;
    }

    /// When the ownership must be renewed unless something is committed.
    pub fn renew_at(&self) -> Duration {
        self.renewed + self.heartbeat
    }

    /// When the last commit began.
    pub fn last_commit(&self) -> Duration {
        self.committed
    }

    /// Handles one input.
    pub fn next(&mut self, input: TurnInput, now: Duration, quota: &dyn Quota) -> Vec<TurnOutput> {
        let mut outputs = Vec::new();
        match input {
            TurnInput::Inputs(inputs) => {
                self.state.begin_turn();
                let mut inputs = inputs.into_iter();
                while self.state.takes_more()
                    && let Some(input) = inputs.next()
                {
                    match input {
                        LoopInput::Entry(place, entry) => self.state.handle_entry(place, entry),
                        LoopInput::Message(message) => self.state.handle_message(message),
                    }
                }
                if inputs.len() > 0 {
                    outputs.push(TurnOutput::LeftOver(inputs.collect()));
                }
            }
            TurnInput::Due => self.state.begin_turn(),
            TurnInput::Start(slot) => {
                self.state.begin_turn();
                self.state.resume_plan(slot);
            }
            // Its actions must not wait for the next decisions.
            TurnInput::Committed => return self.finish_commit().into_iter().map(TurnOutput::Run).collect(),
        }
        self.state.fire_timers();
        self.state.continue_decisions();
        self.state.dispatch(quota);
        if let Some(plan) = self.state.broken().cloned() {
            outputs.push(TurnOutput::Panicked(plan));
            return outputs;
        }
        if self.committing.is_none() {
            self.commit(now, &mut outputs);
        }
        if self.published.is_none_or(|at| now >= at + self.heartbeat) {
            self.published = Some(now);
            outputs.push(TurnOutput::Publish(self.state.counts()));
        }
        outputs
    }

    /// The actions of the turn that was written last.
    pub fn finish_commit(&mut self) -> Vec<PostCommit> {
        let sealed = self.committing.take();
        sealed.map(|sealed| self.state.finish_commit(sealed)).unwrap_or_default()
    }

    fn commit(&mut self, now: Duration, outputs: &mut Vec<TurnOutput>) {
        let checks_all = self.number == 0 || now >= self.checked + self.heartbeat;
        let (commit, mut sealed) = self.state.build_commit(&self.token, self.number + 1, checks_all);
        if let Some(mut commit) = commit {
            sealed.encode_events(&mut commit);
            self.number += 1;
            (self.renewed, self.committed) = (now, now);
            if checks_all {
                self.checked = now;
            }
            let inputs = std::mem::take(&mut sealed.inputs);
            self.committing = Some(sealed);
            outputs.push(TurnOutput::Commit { commit, inputs });
            return;
        }
        outputs.extend(self.state.finish_commit(sealed).into_iter().map(TurnOutput::Run));
        if self.is_releasing {
            outputs.push(TurnOutput::Released);
        } else if now >= self.renewed + self.heartbeat {
            self.renewed = now;
            outputs.push(TurnOutput::Renew);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use goalmill_common::goal::Goal;
    use goalmill_common::id::AgentType;
    use goalmill_common::plan::{Plan, Step};

    use super::*;
    use crate::state::tests::{empty, request};
    use crate::{Reply, RequestReply, ShardMessage};

    const HEARTBEAT: Duration = Duration::from_secs(1);

    /// Tasks of each agent type at most.
    struct Max(u32);

    impl Quota for Max {
        fn in_flight_max(&self, _: &AgentType) -> u32 {
            self.0
        }
    }

    fn turns() -> Turns {
        Turns::new(empty(), "token".into(), 0, HEARTBEAT, Duration::ZERO)
    }

    /// The submission of a plan with the independent steps `a`, `b` and `c`, and where its result arrives.
    fn submission(plan: &str) -> (TurnInput, mpsc::Receiver<RequestReply>) {
        let steps = ["a", "b", "c"].map(|id| Step::new(id, "w")).to_vec();
        let request = Box::new(request(plan, Goal::default(), Plan { steps, ..Plan::default() }));
        let (reply, result) = mpsc::channel();
        let reply = Reply::new(move |answer| reply.send(answer).expect("the client waits"));
        let message = ShardMessage::Request { request, reply: Some(reply), entry: None, snapshot: None };
        (TurnInput::Inputs(vec![LoopInput::Message(message)]), result)
    }

    fn commit(outputs: &[TurnOutput]) -> Option<&Commit> {
        outputs
            .iter()
            .find_map(|output| if let TurnOutput::Commit { commit, .. } = output { Some(commit) } else { None })
    }

    #[test]
    fn the_next_turn_is_decided_while_one_is_written_and_committed_after_it() {
        let now = Duration::ZERO;
        let mut turns = turns();
        let (first, _result) = submission("p0-first");
        let outputs = turns.next(first, now, &Max(10));
        let written = commit(&outputs).expect("there are events");
        assert_eq!((written.number, written.full_check, written.plans.len()), (1, true, 1));
        let (second, _result) = submission("p0-second");
        assert!(commit(&turns.next(second, now, &Max(10))).is_none(), "the first one is being written");
        assert!(commit(&turns.next(TurnInput::Committed, now, &Max(10))).is_none());
        let outputs = turns.next(TurnInput::Due, now, &Max(10));
        let written = commit(&outputs).expect("the second plan has events");
        assert_eq!((written.number, written.full_check, written.tasks.len()), (2, false, 3));
    }

    #[test]
    fn replies_wait_for_the_commit() {
        let now = Duration::ZERO;
        let mut turns = turns();
        let (input, result) = submission("p0-plan");
        let outputs = turns.next(input, now, &Max(10));
        assert!(commit(&outputs).is_some() && result.try_recv().is_err());
        let outputs = turns.next(TurnInput::Committed, now, &Max(10));
        for output in outputs {
            if let TurnOutput::Run(PostCommit::Reply(reply, result)) = output {
                reply.send(Ok(result));
            }
        }
        assert!(matches!(result.try_recv().expect("it is answered"), Ok(Ok(_))));
    }

    #[test]
    fn the_quota_limits_the_tasks_in_flight() {
        let now = Duration::ZERO;
        let mut turns = turns();
        let (input, _result) = submission("p0-plan");
        let outputs = turns.next(input, now, &Max(1));
        assert_eq!(commit(&outputs).map(|commit| commit.tasks.len()), Some(1));
        turns.next(TurnInput::Committed, now, &Max(1));
        assert!(commit(&turns.next(TurnInput::Due, now, &Max(1))).is_none());
        let outputs = turns.next(TurnInput::Due, now, &Max(3));
        assert_eq!(commit(&outputs).map(|commit| commit.tasks.len()), Some(2));
    }

    #[test]
    fn a_shard_without_work_renews_its_ownership_once_a_heartbeat_and_is_released_on_request() {
        let now = Duration::ZERO;
        let mut turns = turns();
        let renews = |outputs: Vec<TurnOutput>| outputs.iter().any(|output| matches!(output, TurnOutput::Renew));
        assert!(!renews(turns.next(TurnInput::Due, now, &Max(1))));
        assert!(renews(turns.next(TurnInput::Due, turns.renew_at(), &Max(1))));
        assert!(!renews(turns.next(TurnInput::Due, now + HEARTBEAT, &Max(1))));
        let (input, _result) = submission("p0-plan");
        turns.next(input, now + HEARTBEAT, &Max(1));
        turns.release();
        let released = |outputs: Vec<TurnOutput>| outputs.iter().any(|output| matches!(output, TurnOutput::Released));
        assert!(!released(turns.next(TurnInput::Due, now + HEARTBEAT, &Max(1))), "the commit is being written");
        turns.next(TurnInput::Committed, now + HEARTBEAT, &Max(1));
        assert!(released(turns.next(TurnInput::Due, now + HEARTBEAT, &Max(1))));
    }
}
