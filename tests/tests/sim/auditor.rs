//! The auditor: checks every applied commit against the invariants.
//!
//! The numbers in brackets are those of the invariants in `docs/simulation.md`.

use std::collections::{BTreeMap, BTreeSet};

use goalmill_broker::{Activity, Commit, Delivery, InboxCursor, ParkMark, PlanWrite};
use goalmill_common::clock::parse_rfc3339;
use goalmill_common::event::{Event, PlanEvent, Record, StepEvent, read_entry};
use goalmill_common::id::{AgentType, AttemptToken, EntryId, PlanId, ShardId, StepId, WorkerId};
use goalmill_common::plan::{StepKind, Strategy};
use goalmill_common::report::{Report, What};
use goalmill_common::status::StepStatus;
use goalmill_common::wire::{Fields, read_task};
use goalmill_engine::{PlanState, StepIndex, SummarySnapshot, TokenKey, replay};

/// One attempt of one step of one plan.
type Attempt = (PlanId, StepId, u32);

/// Findings before a run is aborted: one violation causes many.
const FOUND_MAX: usize = 20;

/// The part of the auditor that turns back with the server.
#[derive(Clone, Default)]
pub struct AuditState {
    pub plans: BTreeMap<PlanId, PlanState>,
    /// The summary of each plan.
    shown: BTreeMap<PlanId, SummarySnapshot>,
    shards: BTreeMap<ShardId, Shard>,
    /// The attempt of each delivered entry.
    entries: BTreeMap<(AgentType, EntryId), (Attempt, AttemptToken)>,
}

#[derive(Clone, Default)]
struct Shard {
    /// Every token that has written, in order.
    tokens: Vec<String>,
    number: u64,
    cursor: InboxCursor,
    /// The last entries that any owner has read.
    read_to: Option<InboxCursor>,
}

/// Everything that the auditor knows of a run.
#[derive(Default)]
pub struct Auditor {
    audit_state: AuditState,
    /// The setting `scheduler.window_min`.
    pub window_min: u32,
    /// By how much the clock of a process may be ahead of that of the server: a process may stand still while it asks.
    pub ahead_ms_max: u64,
    /// The key of attempt tokens.
    pub token_key: Option<TokenKey>,
    slots: BTreeMap<WorkerId, u32>,
    /// The token under which each process has claimed a shard last.
    claimed: BTreeMap<(String, ShardId), String>,
    /// After which entries the reader began that serves a token.
    begun: BTreeMap<String, InboxCursor>,
    /// Outputs that were reported of each attempt.
    outputs: BTreeMap<Attempt, BTreeSet<String>>,
    tokens: BTreeMap<Attempt, AttemptToken>,
    /// Every entry of reports, for those who send old ones again.
    pub heard: Vec<(ShardId, Fields)>,
    pub found: Vec<String>,
    /// How often what happened: commits by their outcome, events by their type, calls by their fate.
    pub counts: BTreeMap<&'static str, u64>,
}

impl Auditor {
    pub fn report(&mut self, what: String) {
        if self.found.len() < FOUND_MAX {
            self.found.push(what);
        }
    }

    pub fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    pub fn plans(&self) -> &BTreeMap<PlanId, PlanState> {
        &self.audit_state.plans
    }

    pub fn keep(&self) -> AuditState {
        self.audit_state.clone()
    }

    pub fn turn_back(&mut self, audit_state: AuditState) {
        self.audit_state = audit_state;
        // A plan that is made anew has another secret, so its attempts have other tokens.
        self.tokens.clear();
    }

    pub fn seq(&self, plan: &PlanId) -> u64 {
        self.audit_state.plans.get(plan).map_or(0, PlanState::seq)
    }

    /// Number of the last commit under `token`.
    pub fn number(&self, shard: ShardId, token: &str) -> u64 {
        let shard = self.audit_state.shards.get(&shard);
        shard.filter(|shard| shard.tokens.last().is_some_and(|last| last == token)).map_or(0, |shard| shard.number)
    }

    pub fn read_to(&self, shard: ShardId) -> Option<InboxCursor> {
        self.audit_state.shards.get(&shard).and_then(|shard| shard.read_to.clone())
    }

    pub fn beat(&mut self, worker: &WorkerId, slots: u32) {
        self.slots.insert(worker.clone(), slots);
    }

    pub fn delivered(&mut self, deliveries: &[Delivery]) {
        for delivery in deliveries {
            let Ok(task) = read_task(&delivery.data) else { continue };
            let attempt = (task.plan, task.step, task.attempt);
            self.audit_state
                .entries
                .insert((delivery.agent_type.clone(), delivery.entry.clone()), (attempt, task.token));
        }
    }

    /// The attempt that was delivered as an entry.
    pub fn attempt(&self, entry: &(AgentType, EntryId)) -> Option<Attempt> {
        self.audit_state.entries.get(entry).map(|(attempt, _)| attempt.clone())
    }

    pub fn sent(&mut self, shard: ShardId, fields: &Fields, reports: &[Report]) {
        self.heard.push((shard, fields.clone()));
        for report in reports.iter().filter(|report| report.what == What::Completed) {
            let attempt = (report.plan.clone(), report.step.clone(), report.attempt);
            let outputs = report.outputs.as_ref().map_or("{}", |outputs| outputs.text());
            self.outputs.entry(attempt).or_default().insert(outputs.to_owned());
        }
    }

    /// Notes under which token a process is going to own a shard.
    pub fn claims(&mut self, process: &str, shard: ShardId, token: &str) {
        self.claimed.insert((process.to_owned(), shard), token.to_owned());
    }

    /// Notes where a process that took a shard over begins to read.
    ///
    /// It is judged when what was read is committed: the server may go back between the reading of the cursor and
    /// the reading of the inbox, but then the token is gone as well, and nothing of it can be written.
    ///
    /// Each token has a reader of its own, and a commit is judged by the reader of its token, not by the newest one of
    /// its process: a commit that is late may arrive after the server went back to a moment at which its token held.
    /// If its number follows as well, it is the very commit that comes next in that past. It is right to take it, however
    /// far the same process has read under a newer token, which that past does not know.
    pub fn begins_to_read(&mut self, process: &str, shard: ShardId, after: &InboxCursor) {
        let Some(token) = self.claimed.get(&(process.to_owned(), shard)) else {
            return self.report(format!("[L2] {process} reads shard {shard}, which it never claimed"));
        };
        self.begun.insert(token.clone(), after.clone());
    }

    pub fn has_read(&mut self, shard: ShardId, last: &InboxCursor) {
        let shard = self.audit_state.shards.entry(shard).or_default();
        let read_to = shard.read_to.get_or_insert_default();
        for (read, last) in [(&mut read_to.reports, &last.reports), (&mut read_to.requests, &last.requests)] {
            if read.parts() < last.parts() {
                read.clone_from(last);
            }
        }
    }

    /// Checks one commit that was applied.
    pub fn applied(&mut self, commit: &Commit, now_ms: u64) {
        self.check_owner(commit);
        let mut sent = Vec::new();
        for write in &commit.plans {
            self.fold(write, now_ms, &mut sent);
        }
        self.check_tasks(commit, sent);
        self.check_acknowledged(commit);
        self.check_window(commit);
    }

    fn check_owner(&mut self, commit: &Commit) {
        let begun = self.begun.get(&commit.token).cloned();
        let shard = self.audit_state.shards.entry(commit.shard).or_default();
        let mut found = Vec::new();
        if shard.tokens.last() != Some(&commit.token) {
            if shard.tokens.contains(&commit.token) {
                found.push(format!("[I8] token {} writes again in shard {}", commit.token, commit.shard));
            }
            shard.tokens.push(commit.token.clone());
            shard.number = 0;
        }
        if commit.number != shard.number + 1 {
            found.push(format!("[I8] commit {} of shard {} follows {}", commit.number, commit.shard, shard.number));
        }
        shard.number = commit.number;
        let moves = [
            (&commit.cursor, &mut shard.cursor.reports, begun.as_ref().map(|begun| &begun.reports)),
            (&commit.requests_cursor, &mut shard.cursor.requests, begun.as_ref().map(|begun| &begun.requests)),
        ];
        for (cursor, place, begun) in moves {
            let Some(cursor) = cursor else { continue };
            let before = std::mem::replace(place, cursor.clone());
            if cursor.parts() <= before.parts() {
                found.push(format!("[L2] a cursor of shard {} goes from {before} to {cursor}", commit.shard));
            }
            if begun.is_none_or(|begun| begun.parts() > before.parts()) {
                let begun = begun.map_or("nothing".to_owned(), ToString::to_string);
                found.push(format!(
                    "[L2] shard {} was read after {begun}, but was dealt with up to {before}",
                    commit.shard
                ));
            }
        }
        found.into_iter().for_each(|what| self.report(what));
    }

    fn fold(&mut self, write: &PlanWrite, now_ms: u64, sent: &mut Vec<(Attempt, AgentType, AttemptToken)>) {
        let time_ms = parse_rfc3339(&write.time).unwrap_or_default();
        if time_ms > now_ms + self.ahead_ms_max {
            self.report(format!("[I5] an event of `{}` is of {time_ms}, and it is {now_ms}", write.plan));
        }
        let records = match read_entry(&String::from_utf8_lossy(&write.events), time_ms) {
            Ok(records) => records,
            // The summary alone.
            Err(_) if write.events.is_empty() => Vec::new(),
            Err(error) => return self.report(format!("[I5] `{}` cannot be read: {error}", write.plan)),
        };
        let mut state = self.audit_state.plans.remove(&write.plan);
        let seq = state.as_ref().map_or(0, PlanState::seq);
        if seq != write.base_seq {
            self.report(format!("[I5] `{}` is at {seq}, not at {}", write.plan, write.base_seq));
        }
        for record in &records {
            if let Err(error) = replay(&mut state, record) {
                self.report(format!("[I5] the log of `{}` does not add up: {error}", write.plan));
            }
            self.count(record.event.type_name());
            if let Some(state) = &state {
                self.check_record(write, state, record, sent);
            }
        }
        if let Some(state) = state {
            self.check_write(write, &state);
            self.audit_state.plans.insert(write.plan.clone(), state);
        }
    }

    fn check_write(&mut self, write: &PlanWrite, state: &PlanState) {
        if state.seq() != write.last_seq {
            self.report(format!("[I5] `{}` ends at {}, not at {}", write.plan, state.seq(), write.last_seq));
        }
        let folded = state.summary_fields(None);
        let shown = self.audit_state.shown.get(&write.plan);
        // Counts and usage may be late, as long as nothing else has changed and more events can come.
        let may_wait =
            !write.events.is_empty() && !state.is_final() && shown.is_some_and(|s| !state.needs_summary_update(s));
        let network_bug = state.summary_fields(shown).into_iter().any(|field| !write.summary.contains(&field));
        let wrong = write.summary.iter().any(|field| match field.0 {
            "updated" => false,
            ParkMark::FIELD => !is_mark_of(&field.1, write, state),
            _ => !folded.contains(field),
        });
        if (network_bug && !(may_wait && write.summary.is_empty())) || wrong {
            self.report(format!("[I5] the summary of `{}` says {:?}, its log {folded:?}", write.plan, write.summary));
        }
        if !network_bug {
            self.audit_state.shown.insert(write.plan.clone(), state.shown());
        }
        if matches!(write.activity, Activity::Ends { .. }) != state.is_final() {
            self.report(format!("[I6] `{}` is {} and {:?}", write.plan, state.status(), write.activity));
        }
        let most = match state.plan().strategy {
            Strategy::Sequential => 1,
            Strategy::Parallel | Strategy::Adaptive => state.plan().max_parallel.unwrap_or(u32::MAX),
        };
        // A step that holds a plan takes no place.
        let takes_place = |i: &StepIndex| state.step(*i).is_some_and(|step| step.spec.kind != StepKind::Plan);
        let flying = state.steps_in_flight().filter(takes_place).count();
        if flying > usize::try_from(most).unwrap_or(usize::MAX) {
            self.report(format!("[I7] {flying} steps of `{}` are in flight, {most} may be", write.plan));
        }
        if !state.is_final() && !state.is_kept() && state.plan_due().is_none() {
            self.report(format!("[I15] `{}` waits for nothing", write.plan));
        }
    }

    fn check_record(
        &mut self,
        write: &PlanWrite,
        state: &PlanState,
        record: &Record,
        sent: &mut Vec<(Attempt, AgentType, AttemptToken)>,
    ) {
        let (step, number, event) = match &record.event {
            Event::Plan(PlanEvent::GoalAccepted(accepted)) => {
                if accepted.plan_id != write.plan {
                    self.report(format!("[I9] `{}` was accepted as `{}`", accepted.plan_id, write.plan));
                }
                return;
            }
            Event::Plan(_) => return,
            Event::Step { step, attempt, event, phase: _ } => (step, *attempt, event),
        };
        let Some(index) = state.step_index(step) else { return };
        let Some(at) = state.step(index) else { return };
        let attempt = (write.plan.clone(), step.clone(), number);
        if let StepEvent::Queued(queued) = event
            && !queued.agent_type.as_str().is_empty()
        {
            let Some(token) = self.token(state, index) else { return };
            sent.push((attempt, queued.agent_type.clone(), token));
        } else if let StepEvent::Completed(completed) = event
            && !at.spec.kind.is_inline()
            && !at.spec.starts_plan()
        {
            let reported = self.outputs.get(&attempt).is_some_and(|o| o.contains(completed.outputs.text()));
            if record.actor.is_none() && !reported {
                self.report(format!(
                    "[I3] attempt {number} of `{step}` of `{}` completes with what nobody reported of it",
                    write.plan
                ));
            }
        } else if let StepEvent::Retrying(retrying) = event {
            let asked = retrying.failure.retry_after_ms.unwrap_or(0);
            let told = if retrying.told_to_wait { asked.max(60_000) * 3 / 2 } else { asked };
            let most = at.spec.retry.max_ms.max(told);
            if retrying.due_ms > record.time_ms + most {
                self.report(format!("[I11] `{step}` waits until {}", retrying.due_ms));
            }
        }
        let waits = matches!(at.status, StepStatus::Retrying | StepStatus::Running | StepStatus::AwaitingApproval);
        if waits && at.due_ms.is_none() && at.spec.plan.is_none() {
            self.report(format!("[I15] `{step}` of `{}` is {} with no timer", write.plan, at.status));
        }
    }

    /// A task is on its stream if and only if the log says so (I14).
    fn check_tasks(&mut self, commit: &Commit, mut logged: Vec<(Attempt, AgentType, AttemptToken)>) {
        for write in &commit.tasks {
            let Ok(task) = read_task(&write.data) else {
                self.report("[I14] a task cannot be read".into());
                continue;
            };
            let attempt = (task.plan.clone(), task.step.clone(), task.attempt);
            let said = (attempt.clone(), write.agent_type.clone(), task.token.clone());
            match logged.iter().position(|one| *one == said) {
                Some(place) => drop(logged.swap_remove(place)),
                None => self.report(format!("[I14] a task for {attempt:?} that the log does not know")),
            }
            if self.tokens.insert(attempt.clone(), task.token).is_some() {
                self.report(format!("[I4] {attempt:?} goes out twice"));
            }
        }
        for (attempt, ..) in logged {
            self.report(format!("[I14] the log sends {attempt:?}, but there is no task"));
        }
    }

    /// The token of the step's current attempt.
    fn token(&self, state: &PlanState, step: StepIndex) -> Option<AttemptToken> {
        state.token(step, self.token_key?)
    }

    /// No task is taken off its stream while the log counts on it (I14).
    fn check_acknowledged(&mut self, commit: &Commit) {
        for entry in &commit.acknowledged {
            let Some(((plan, step, attempt), token)) = self.audit_state.entries.get(entry).cloned() else { continue };
            let Some(state) = self.audit_state.plans.get(&plan) else { continue };
            let Some(index) = state.step_index(&step) else { continue };
            let flies = state.step(index).is_some_and(|at| at.attempt == attempt && at.status.is_in_flight());
            if flies && self.token(state, index) == Some(token) {
                self.report(format!("[I14] attempt {attempt} of `{step}` of `{plan}` is acknowledged and in flight"));
            }
        }
    }

    /// No more tasks of an agent type are out than the window lets (I7).
    fn check_window(&mut self, commit: &Commit) {
        let window = self.window_min.max(self.slots.values().sum::<u32>() * 2);
        let mut out = BTreeMap::<AgentType, u32>::new();
        for (plan, state) in &self.audit_state.plans {
            if state.is_final() || plan.shard() != Some(commit.shard) {
                continue;
            }
            for queue in state.steps_in_flight().filter_map(|step| state.queue(step)) {
                *out.entry(queue.clone()).or_default() += u32::from(!queue.as_str().is_empty());
            }
        }
        for (agent_type, count) in out {
            if count > window {
                self.report(format!("[I7] {count} tasks of `{agent_type}` are out, {window} may be"));
            }
        }
    }

    /// Nothing whose time has come long ago may still wait (I15): for when nothing goes wrong any more.
    pub fn check_overdue(&mut self, now_ms: u64, patience_ms: u64) {
        let late = |state: &&PlanState| {
            !state.is_final() && state.next_due().is_some_and(|due_ms| due_ms + patience_ms < now_ms)
        };
        let overdue: Vec<PlanId> =
            self.audit_state.plans.values().filter(late).map(|state| state.id().clone()).collect();
        for plan in overdue {
            self.report(format!("[I15] something of `{plan}` was due more than {patience_ms} ms ago"));
        }
    }
}

/// Whether a mark says of the plan what its log says, and nothing is left to do.
fn is_mark_of(text: &str, write: &PlanWrite, state: &PlanState) -> bool {
    let mark = ParkMark {
        seq: state.seq(),
        due_ms: state.next_due().unwrap_or(0),
        updated_ms: state.updated_ms(),
        status: state.status(),
        waits: state.waits(),
    };
    write.events.is_empty() && state.in_flight() == 0 && ParkMark::parse(text) == Some(mark)
}
