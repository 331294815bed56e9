//! One run of a plan in virtual time, with mock agents, recorded outcomes, and agents outside.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use goalmill_common::agent::{Action, Agent};
use goalmill_common::clock::parse_rfc3339;
use goalmill_common::command::{Planned, Submit};
use goalmill_common::constraint::constraints;
use goalmill_common::event::Record;
use goalmill_common::failure::Failure;
use goalmill_common::goal::{Goal, Usage};
use goalmill_common::id::AttemptToken;
use goalmill_common::limits::Limits;
use goalmill_common::problem::{Issue, Problem};
use goalmill_common::report::{Report, What};
use goalmill_common::status::{PlanStatus, StepStatus};
use goalmill_common::task::Task;
use goalmill_engine::{Command, PlanAnswer, PlanState, replan_context};
use goalmill_plan::document;
use goalmill_plan::formats;
use goalmill_plan::validate::{self, Rules};
use goalmill_planning::{
    CallLog, Pipeline, PlanRequest, PlanningError, ReviseRequest, RevisionRules, RulesPlanner, Terms,
};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::mock_agents::{AttemptOutcome, MockAgents};
use crate::recorded_plan::RecordedPlan;
use crate::script::Script;
use crate::test_file::PlanTest;
use crate::virtual_shard::{PlanningRequest, VirtualShard};

/// When tests start that do not say when: `2027-01-04T09:00:00Z`, a Monday.
const START_MS: u64 = 1_799_053_200_000;
/// Things that happen in one run, at most.
const TURNS_MAX: u32 = 1_000_000;
/// How long the planners may take, of real time.
const PLANNING_MAX: Duration = Duration::from_secs(30);

/// Why a run has no end.
#[derive(Clone, Debug, PartialEq)]
pub enum RunError {
    /// The plan or goal is not accepted.
    Refused(Problem),
    /// No agent of the test answers a task.
    NoAnswer(String),
    /// The run is too long, or nothing is left that could happen.
    Stuck(String),
}

impl std::fmt::Display for RunError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Refused(problem) => {
                f.write_str(&problem.detail)?;
                let shown = |issue: &Issue| format!("\n  {} {}: {}", issue.pointer, issue.code, issue.detail);
                f.write_str(&problem.errors.iter().map(shown).collect::<String>())
            }
            Self::NoAnswer(reason) | Self::Stuck(reason) => f.write_str(reason),
        }
    }
}

/// What a run waits for.
#[derive(Clone, Debug, PartialEq)]
pub enum Progress {
    /// Reports of agents outside; with the tasks that are new. The clock stands still meanwhile.
    Tasks(Vec<Task>),
    Ended,
}

/// The end of a run.
#[derive(Clone, Debug, Serialize)]
pub struct RunOutcome {
    pub status: PlanStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// Outputs by step.
    pub results: Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub final_output: Option<Value>,
    /// Steps of the submitted plan and, after them, those of plans inside it.
    pub steps: Vec<StepOutcome>,
    /// Of the submitted plan and the plans inside it.
    pub usage: Usage,
    /// Virtual time from submission to end.
    pub duration_ms: u64,
    /// What of the test was of no use, in words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The log of the submitted plan.
    #[serde(skip)]
    pub log: Vec<Record>,
}

/// The end of a step.
#[derive(Clone, Debug, Serialize)]
pub struct StepOutcome {
    pub id: String,
    pub status: StepStatus,
    /// Attempts so far.
    pub attempt: u32,
}

impl RunOutcome {
    pub(crate) fn step(&self, id: &str) -> Option<&StepOutcome> {
        self.steps.iter().find(|step| step.id == id)
    }
}

/// A run of a plan.
pub struct TestRun {
    shard: VirtualShard,
    script: Script,
    mocks: MockAgents,
    recorded: Option<RecordedPlan>,
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

/// A plan or goal as a run submits it.
///
/// - `plan`: the document of the plan; without one the goal of the test is planned.
pub fn prepare_submission(test: &PlanTest, plan: Option<Value>, limits: &Limits) -> Result<Submit, Vec<Issue>> {
    let start_ms = start_of(test);
    let (goal, planned) = match (plan, &test.goal) {
        (Some(plan), _) => {
            let (goal, planned) = validated_plan(plan, start_ms, limits)?;
            (goal, Some(planned))
        }
        (None, Some(goal)) => (validate::goal(goal, limits)?, None),
        (None, None) => (Goal::default(), None),
    };
    Ok(submission(with_inputs(goal, test, start_ms), planned))
}

pub(crate) fn submission(goal: Goal, plan: Option<Planned>) -> Submit {
    Submit {
        goal,
        plan,
        submission: "test".into(),
        fingerprint: String::new(),
        source: "urn:goalmill:test".into(),
        parent: None,
        traceparent: None,
        fork: None,
    }
}

/// The goal with the inputs of the test, and with a start that is a time.
fn with_inputs(mut goal: Goal, test: &PlanTest, start_ms: u64) -> Goal {
    if !test.inputs.is_empty() {
        goal.metadata.insert("inputs".into(), Value::Object(test.inputs.clone()));
    }
    if let Some(start_in_ms) = goal.start_in_ms.take() {
        goal.start_at_ms = Some(start_ms.saturating_add(start_in_ms));
    }
    goal
}

fn start_of(test: &PlanTest) -> u64 {
    test.start.as_deref().and_then(parse_rfc3339).unwrap_or(START_MS)
}

/// Validates a plan as a scheduler does when it is submitted; no agents are known yet.
fn validated_plan(draft: Value, now_ms: u64, limits: &Limits) -> Result<(Goal, Planned), Vec<Issue>> {
    let mut converted = formats::convert_plan(draft, limits);
    let goal = match document::split_goal(&converted.document) {
        Some(goal) => validate::goal(&goal, limits).map_err(|issues| converted.locate(issues))?,
        None => Goal::default(),
    };
    let rules = Rules {
        constraints: constraints(&goal.constraints),
        seconds_left: goal.deadline_ms.map(|ms| ms.saturating_sub(now_ms) as f64 / 1_000.0),
        ..Rules::default()
    };
    let valid = validate::validate_plan_by(&converted.document, limits, &rules)
        .map_err(|issues| converted.locate(issues))?
        .with_notes(std::mem::take(&mut converted.notes));
    if let Some(at) = valid.plan().steps.iter().position(|step| step.agent_type.is_auto()) {
        return Err(vec![Issue {
            code: "UNROUTABLE".into(),
            pointer: format!("/steps/{at}/agent_type"),
            detail: "a test has no router, and the agent type is `auto`".into(),
            hint: "name the agent type".into(),
        }]);
    }
    Ok((goal, valid.without_routing().submitted()))
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
        let mut script = Script::new(test, start_ms);
        for (at_ms, act) in recorded.iter().flat_map(RecordedPlan::acts) {
            script.plan(at_ms, act);
        }
        // Steps that no agent is named for stay as they are.
        let route = Arc::new(|_: &mut goalmill_common::plan::Plan, _: &validate::Policy| Ok((Vec::new(), Vec::new())));
        let mut run = Self {
            shard: VirtualShard::new(limits, start_ms, test.seed, agents),
            script,
            mocks,
            recorded,
            served: served.iter().cloned().collect(),
            reports: BTreeMap::new(),
            report_count: 0,
            outstanding: BTreeSet::new(),
            planners: Pipeline::new(vec![Arc::new(RulesPlanner::built_in())], PLANNING_MAX, route),
            turns: 0,
            start_ms,
        };
        run.shard.submit(submit)?;
        Ok(run)
    }

    /// Goes on until an agent outside has to answer, or until the end. The clock jumps to what happens next.
    pub async fn advance(&mut self) -> Result<Progress, RunError> {
        loop {
            while let Some(request) = self.shard.settle() {
                self.plan(request).await;
            }
            for token in self.shard.take_cancelled() {
                self.outstanding.remove(&token);
                self.reports.retain(|_, report| report.token != token);
            }
            let tasks = self.give_out_tasks()?;
            if self.root().is_final() {
                return Ok(Progress::Ended);
            }
            if !self.outstanding.is_empty() {
                return Ok(Progress::Tasks(tasks));
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
        self.shard.report(report).is_ok()
    }

    /// The virtual time, Unix milliseconds.
    pub fn now_ms(&self) -> u64 {
        self.shard.now_ms
    }

    /// The log of the submitted plan so far.
    pub fn log(&self) -> &[Record] {
        self.shard.members().first().map_or(&[], |member| &member.log)
    }

    /// What became of the plan so far.
    pub fn outcome(&self) -> RunOutcome {
        let root = self.root();
        let results = root.results();
        let steps = self.shard.members().iter().flat_map(|member| {
            let view = member.state.view(false);
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
            duration_ms: self.shard.now_ms.saturating_sub(self.start_ms),
            warnings,
            log: self.log().to_vec(),
        }
    }

    fn root(&self) -> &PlanState {
        &self.shard.members()[0].state
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
        let now_ms = self.shard.now_ms;
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
        self.shard.now_ms = self.shard.now_ms.max(next_ms);
        if let Some(entry) = self.reports.first_entry().filter(|entry| entry.key().0 <= self.shard.now_ms) {
            let report = entry.remove();
            self.report(report);
        } else if !self.script.act(&mut self.shard) {
            self.shard.fire_timer();
        }
        Ok(())
    }

    /// Asks the planner `rules`, or takes the recorded revision.
    async fn plan(&mut self, request: PlanningRequest) {
        let PlanningRequest { member, revision } = request;
        let state = &self.shard.members()[member].state;
        let recorded = self.recorded.as_ref().filter(|_| member == 0).and_then(|plan| plan.revision(revision));
        let answer = match recorded {
            Some(answer) => Ok(answer),
            None if revision == 0 => {
                self.planners.plan(&self.plan_request(state)).await.map(|planned| PlanAnswer::Plan(Box::new(planned)))
            }
            None => self.revise(state, revision).await,
        };
        let answer = answer.unwrap_or_else(|PlanningError { reason, issues, provenance, .. }| PlanAnswer::Failed {
            reason,
            issues,
            provenance,
        });
        // As in a scheduler, an answer that a plan does not need any more is dropped.
        drop(self.shard.command(member, None, Command::Planned { revision, answer }));
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
            limits: goal.planning.lower_limits(self.shard.limits()).inside(state.depth()),
            goal,
            agents: self.shard.agents.clone(),
            now_ms: self.shard.now_ms,
            revision: 0,
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
