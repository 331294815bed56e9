//! One run of a plan in virtual time, with mock agents, recorded outcomes, and agents outside.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use goalmill_common::agent::{Action, Agent};
use goalmill_common::command::Submit;
use goalmill_common::event::Record;
use goalmill_common::id::AttemptToken;
use goalmill_common::limits::Limits;
use goalmill_common::report::{Report, What};
use goalmill_common::task::Task;
use goalmill_engine::{PlanAnswer, PlanState, replan_context, sub_plan};
use goalmill_plan::validate::Policy;
use goalmill_planning::{
    CallLog, Pipeline, PlanRequest, PlanningError, ReviseRequest, RevisionRules, RulesPlanner, Terms,
};
use goalmill_shard::{PlanningRequest, VirtualShard};

use crate::mock_agents::{AttemptOutcome, MockAgents};
use crate::recorded_plan::RecordedPlan;
use crate::run_outcome::{RunError, RunOutcome, StepOutcome};
use crate::script::TestScript;
use crate::submission::start_of;
use crate::test_file::PlanTest;

/// Things that happen in one run, at most.
const TURNS_MAX: u32 = 1_000_000;
/// How long the planners may take, of real time.
const PLANNING_MAX: Duration = Duration::from_secs(30);

/// What a run waits for.
#[derive(Clone, Debug, PartialEq)]
pub enum RunProgress {
    /// Reports of agents outside; with the tasks that are new. The clock stands still meanwhile.
    Tasks(Vec<Task>),
    Ended,
}

/// A run of a plan.
pub struct TestRun {
    shard: VirtualShard,
    script: TestScript,
    mocks: MockAgents,
    recorded: Option<RecordedPlan>,
    /// The agents that planners see.
    agents: Vec<Agent>,
    /// Agent types that are served outside.
    served: BTreeSet<String>,
    /// Reports of mock agents, by time and order.
    reports: BTreeMap<(u64, u64), Report>,
    report_count: u64,
    /// Attempts that agents outside work on.
    outstanding: BTreeSet<AttemptToken>,
    planners: Pipeline,
    turns: u32,
    start_ms: u64,
}

impl TestRun {
    /// Submits the plan or goal.
    ///
    /// - `served`: agent types whose tasks [`TestRun::advance`] returns.
    /// - `recorded`: answers where no mock does.
    pub fn start(
        test: &PlanTest,
        submit: Submit,
        limits: Limits,
        served: &[String],
        recorded: Option<RecordedPlan>,
    ) -> Result<Self, RunError> {
        let start_ms = recorded.as_ref().map_or_else(|| start_of(test), RecordedPlan::start_ms);
        let mocks = MockAgents::new(test.agents.clone());
        let mut agents: Vec<Agent> = mocks.names().map(|(name, actions)| card(name, &actions)).collect();
        agents.extend(served.iter().map(|name| card(name, &[])));
        let mut script = TestScript::new(test, start_ms);
        for (at_ms, act) in recorded.iter().flat_map(RecordedPlan::acts) {
            script.add_act(at_ms, act);
        }
        // Steps that no agent is named for stay as they are.
        let route = Arc::new(|_: &mut goalmill_common::plan::Plan, _: &Policy| Ok((Vec::new(), Vec::new())));
        let mut run = Self {
            shard: VirtualShard::new(limits, start_ms, test.seed),
            script,
            mocks,
            recorded,
            agents,
            served: served.iter().cloned().collect(),
            reports: BTreeMap::new(),
            report_count: 0,
            outstanding: BTreeSet::new(),
            planners: Pipeline::new(vec![Arc::new(RulesPlanner::built_in())], PLANNING_MAX, route),
            turns: 0,
            start_ms,
        };
        run.shard.submit(submit).map_err(RunError::Refused)?;
        Ok(run)
    }

    /// Goes on until an agent outside has to answer, or until the end. The clock jumps to what happens next.
    pub async fn advance(&mut self) -> Result<RunProgress, RunError> {
        loop {
            while let Some(request) = self.shard.settle() {
                self.ask_planner(request).await;
            }
            for token in self.shard.take_cancelled() {
                self.outstanding.remove(&token);
                self.reports.retain(|_, report| report.token != token);
            }
            let tasks = self.give_out_tasks()?;
            if self.root().is_final() {
                return Ok(RunProgress::Ended);
            }
            if !self.outstanding.is_empty() {
                return Ok(RunProgress::Tasks(tasks));
            }
            self.script.answer_waits(&self.shard);
            self.turn()?;
        }
    }

    /// Takes the report of an agent outside; a report of a superseded attempt changes nothing. Returns whether it was
    /// taken.
    pub fn report(&mut self, report: Report) -> bool {
        let ends = match report.what {
            What::Started | What::Progress | What::Call => false,
            What::Completed | What::PartialSuccess | What::Failed | What::Lost | What::Suspended | What::Released => {
                true
            }
        };
        if ends {
            self.outstanding.remove(&report.token);
        }
        self.shard.report(report)
    }

    /// Whether the run waits for the end of an attempt.
    pub fn is_outstanding(&self, attempt: &AttemptToken) -> bool {
        self.outstanding.contains(attempt)
    }

    /// The virtual time, in Unix milliseconds.
    pub fn now_ms(&self) -> u64 {
        self.shard.now_ms()
    }

    /// The log of the submitted plan so far.
    pub fn log(&self) -> &[Record] {
        self.shard.log(0)
    }

    /// What became of the plan so far.
    pub fn outcome(&self) -> RunOutcome {
        let root = self.root();
        let results = root.results();
        let steps = (0..self.shard.members()).flat_map(|member| {
            let view = self.shard.state(member).view(false);
            view.steps.into_iter().map(|step| StepOutcome {
                id: step.id.to_string(),
                status: step.status,
                attempt: step.attempt,
            })
        });
        let mut warnings = self.mocks.unused();
        warnings.extend(self.script.unused(&self.shard));
        RunOutcome {
            status: root.status(),
            failure: root.ended().and_then(|ended| ended.failure.clone()),
            results: results.results,
            final_output: results.final_output.map(|output| output.value()),
            steps: steps.collect(),
            usage: root.usage(),
            duration_ms: self.shard.now_ms().saturating_sub(self.start_ms),
            warnings,
            log: self.log().to_vec(),
        }
    }

    fn root(&self) -> &PlanState {
        self.shard.state(0)
    }

    /// Gives new tasks to mock agents, and returns those of agents outside.
    fn give_out_tasks(&mut self) -> Result<Vec<Task>, RunError> {
        let mut outside = Vec::new();
        for task in self.shard.take_tasks() {
            if self.served.contains(task.agent_type.as_str()) {
                self.outstanding.insert(task.token.clone());
                outside.push(task);
                continue;
            }
            let outcome = match &self.recorded {
                Some(recorded) if !self.mocks.has(task.agent_type.as_str()) => recorded.answer(&task),
                Some(_) | None => self.mocks.answer(&task),
            };
            self.schedule(&task, outcome.map_err(RunError::NoAnswer)?);
        }
        Ok(outside)
    }

    /// Lets the attempt begin, and plans its report.
    fn schedule(&mut self, task: &Task, outcome: AttemptOutcome) {
        let now_ms = self.shard.now_ms();
        let end_ms = now_ms.saturating_add(outcome.delay_ms);
        let head = |report: Report| Report {
            plan: task.plan.clone(),
            step: task.step.clone(),
            attempt: task.attempt,
            token: task.token.clone(),
            agent_type: task.agent_type.clone(),
            started_ms: Some(now_ms),
            ..report
        };
        let blank = AttemptOutcome::new(What::Started, 0).report;
        if outcome.is_started && (outcome.delay_ms > 0 || !outcome.calls.is_empty()) {
            self.report(head(blank.clone()));
        }
        for call in outcome.calls {
            self.report(head(Report { what: What::Call, call: Some(Box::new(call)), ..blank.clone() }));
        }
        self.report_count += 1;
        let report = Report { finished_ms: Some(end_ms), ..head(outcome.report) };
        self.reports.insert((end_ms, self.report_count), report);
    }

    /// Moves the clock to what happens next, and lets it happen: reports first, then the script, then timers, as they
    /// stand in the inbox of a shard.
    fn turn(&mut self) -> Result<(), RunError> {
        self.turns += 1;
        if self.turns > TURNS_MAX {
            return Err(RunError::Stuck(format!("more than {TURNS_MAX} things happened: test a smaller plan")));
        }
        let report_ms = self.reports.first_key_value().map(|((at_ms, _), _)| *at_ms);
        let next = [report_ms, self.script.next_ms(), self.shard.next_due_ms()].into_iter().flatten().min();
        let Some(next_ms) = next else {
            return Err(RunError::Stuck(format!(
                "the plan is `{}`, and nothing can happen",
                self.root().status().as_str()
            )));
        };
        self.shard.advance_to(next_ms);
        if let Some(entry) = self.reports.first_entry().filter(|entry| entry.key().0 <= self.shard.now_ms()) {
            let report = entry.remove();
            self.report(report);
        } else if !self.script.act(&mut self.shard) {
            self.shard.fire_timer();
        }
        Ok(())
    }

    /// Asks the planner `rules`, or takes the recorded revision.
    async fn ask_planner(&mut self, request: PlanningRequest) {
        let PlanningRequest { member, revision, .. } = request;
        let state = self.shard.state(member);
        let recorded = self.recorded.as_ref().filter(|_| member == 0).and_then(|plan| plan.revision(revision));
        let answer = match recorded {
            Some(answer) => Ok(answer),
            None if revision == 0 => self
                .planners
                .plan_goal(&self.plan_request(state))
                .await
                .map(|planned| PlanAnswer::Plan(Box::new(planned))),
            None => self.revise(state, revision).await,
        };
        let answer = answer.unwrap_or_else(|PlanningError { reason, issues, provenance, .. }| PlanAnswer::Failed {
            reason,
            issues,
            provenance,
        });
        self.shard.answer_planning(request, answer);
    }

    async fn revise(&self, state: &PlanState, revision: u32) -> Result<PlanAnswer, PlanningError> {
        let limits = self.shard.limits();
        let Some(situation) = replan_context(state, limits).filter(|situation| situation.revision == revision) else {
            return Err(PlanningError::new("the plan has moved on"));
        };
        let PlanRequest { agents, limits: lowered, now_ms, call_log, terms, .. } = self.plan_request(state);
        let request = ReviseRequest { situation, agents, limits: lowered, now_ms, call_log, terms };
        let rules = RevisionRules { state, limits, catalogue: request.terms.catalogue(&request.agents) };
        self.planners.revise(request, &rules).await.map(|proposal| PlanAnswer::Revision(Box::new(proposal)))
    }

    fn plan_request(&self, state: &PlanState) -> PlanRequest {
        let goal = state.accepted().goal.clone();
        PlanRequest {
            limits: goal.planning.lower_limits(self.shard.limits()).inside(sub_plan::depth(state)),
            goal,
            agents: self.agents.clone(),
            now_ms: self.shard.now_ms(),
            revision: 0,
            is_part: sub_plan::depth(state) > 0,
            call_log: CallLog::default(),
            terms: Terms::default(),
            reading: None,
        }
    }
}

/// The card of a mock agent.
///
/// - `actions`: what it can be asked to do; none for anything.
fn card(name: &str, actions: &[&str]) -> Agent {
    let action = |name: &&str| Action {
        name: (*name).to_owned(),
        description: String::new(),
        inputs: None,
        outputs: None,
        side_effect: false,
    };
    Agent { actions: actions.iter().map(action).collect(), ..Agent::named(name.into()) }
}
