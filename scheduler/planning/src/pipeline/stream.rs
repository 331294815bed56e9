//! The streaming pipeline: validates and sends steps while the rest of the plan is written.

use std::collections::BTreeMap;

use async_trait::async_trait;
use futures_util::FutureExt;
use goalmill_common::command::Planned;
use goalmill_common::event::Route;
use goalmill_common::id::StepId;
use goalmill_common::json::Json;
use goalmill_common::plan::{Plan, Step};
use goalmill_common::problem::Issue;
use goalmill_engine::Closing;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::refusal::{failure, refusal, without_prompts};
use crate::pipeline::{Pipeline, acts, has_side_effect, note_answer};
use crate::stage::Stages;
use crate::{Part, PlanRequest, PlanningError};

/// Parts that wait between a planner and the checks.
const PARTS_MAX: usize = 64;
/// A plan's confidence until its planner says how sure it is of the whole.
const PROVISIONAL: f64 = 0.75;

/// Where a plan goes while it is written.
#[async_trait]
pub trait StepSink: Send + Sync {
    /// The first steps: they may run immediately.
    async fn begin(&self, planned: Planned) -> Result<(), SinkClosed>;
    /// A whole plan, while the planner that writes parts is still asked. It is refused once steps of that one are out.
    async fn begin_whole(&self, planned: Planned) -> Result<(), SinkClosed>;
    /// The next steps; each depends on steps before it, or with it.
    async fn add(&self, steps: Vec<Step>) -> Result<(), SinkClosed>;
}

/// Why a sink takes no more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SinkClosed {
    /// The plan is no longer awaited.
    Gone,
    /// Another planner's plan has begun: this one is of use only as a whole.
    Overtaken,
    /// The steps do not fit the plan as it stands.
    Refused { reason: String, issues: Vec<Issue> },
}

/// What became of a plan that could have begun early.
#[derive(Clone, Debug, PartialEq)]
pub enum StreamOutcome {
    /// Nothing was handed over: it begins as a whole.
    Whole(Box<Planned>),
    /// It has begun; this is how the writing ended.
    Closed(Box<Closing>),
    /// It is no longer awaited.
    Gone,
}

impl Pipeline {
    /// As [`Pipeline::plan_goal`], with steps handed over while the rest is written. Once a step is out no other planner
    /// is asked: what is missing then is a task for a revision.
    pub async fn stream(&self, request: &PlanRequest, sink: &dyn StepSink) -> Result<StreamOutcome, PlanningError> {
        let stages = Stages::default();
        let mut refusals = Vec::new();
        let chosen = self.chosen(&request.goal);
        for (at, planner) in chosen.iter().enumerate() {
            let mut writer = Writer::new(self, planner.name(), request, sink);
            let begun = Instant::now();
            let (parts, taken) = mpsc::channel(PARTS_MAX);
            let writing = planner.stream(request, parts).map(Ok::<_, SinkClosed>);
            let both = futures_util::future::try_join(writing, writer.pump(taken));
            let answer = match tokio::time::timeout(self.timeout(), both).await {
                Ok(Ok((answer, ()))) => answer.map_err(|error| refusal(planner.as_ref(), error, &request.call_log)),
                Ok(Err(stopped)) => {
                    let account = request.call_log.to_json().map(without_prompts);
                    request.call_log.close().await;
                    return Ok(stop(stopped, account));
                }
                Err(_) => Err(self.too_late(planner.as_ref(), &request.call_log)),
            };
            request.call_log.close().await;
            note_answer(planner.as_ref(), &answer, &stages, begun);
            if writer.has_begun() {
                return Ok(match answer {
                    Ok(answer) => {
                        let planned = self.account(answer.planned, &refusals, &stages, request);
                        writer.finish(planned).await.unwrap_or_else(|stopped| stop(stopped, None))
                    }
                    Err(refusal) => {
                        let provenance = Some(Json::from_value(&json!({"tried": [refusal.to_json()]})));
                        StreamOutcome::Closed(Box::new(Closing::Broken {
                            reason: refusal.reason,
                            issues: refusal.issues,
                            provenance,
                        }))
                    }
                });
            }
            match answer.and_then(|answer| self.route_answer(planner.as_ref(), answer, request, &stages)) {
                Ok(planned) => {
                    return Ok(StreamOutcome::Whole(Box::new(self.account(planned, &refusals, &stages, request))));
                }
                Err(refusal) => {
                    if let Some(next) = chosen.get(at + 1) {
                        refusal.falls_back_to(next.as_ref());
                    }
                    refusals.push(refusal);
                }
            }
        }
        Err(failure(refusals, &stages))
    }
}

/// - `account`: what was said to models.
fn stop(stopped: SinkClosed, account: Option<Value>) -> StreamOutcome {
    match stopped {
        SinkClosed::Gone | SinkClosed::Overtaken => StreamOutcome::Gone,
        SinkClosed::Refused { reason, issues } => {
            let provenance = account.map(|account| Json::from_value(&account));
            StreamOutcome::Closed(Box::new(Closing::Broken { reason, issues, provenance }))
        }
    }
}

fn broken(reason: impl Into<String>, issues: Vec<Issue>) -> Closing {
    Closing::Broken { reason: reason.into(), issues, provenance: None }
}

/// One plan on its way out.
struct Writer<'a> {
    pipeline: &'a Pipeline,
    planner: &'static str,
    request: &'a PlanRequest,
    sink: &'a dyn StepSink,
    /// The plan without its steps.
    head: Plan,
    /// What is out, as it was given and as it runs.
    sent: Vec<(Step, Step)>,
    routes: Vec<Route>,
    /// A step does not hold, or a person is asked first: the rest waits for the whole plan.
    halted: bool,
}

impl<'a> Writer<'a> {
    fn new(pipeline: &'a Pipeline, planner: &'static str, request: &'a PlanRequest, sink: &'a dyn StepSink) -> Self {
        let (head, sent, routes) = (Plan::default(), Vec::new(), Vec::new());
        // A person agrees to a whole plan.
        let halted = request.goal.planning.require_approval;
        Self { pipeline, planner, request, sink, head, sent, routes, halted }
    }

    fn has_begun(&self) -> bool {
        !self.sent.is_empty()
    }

    /// Hands over what comes, until nothing more does.
    async fn pump(&mut self, mut parts: mpsc::Receiver<Part>) -> Result<(), SinkClosed> {
        let mut batch = Vec::new();
        while parts.recv_many(&mut batch, PARTS_MAX).await > 0 {
            let mut steps = Vec::new();
            for part in batch.drain(..) {
                match part {
                    Part::Head(head) if self.sent.is_empty() => self.head = Plan { steps: Vec::new(), ..*head },
                    Part::Head(_) => self.halted = true,
                    Part::Step(step) => steps.push(*step),
                }
            }
            self.hand_over(steps).await?;
        }
        Ok(())
    }

    async fn hand_over(&mut self, steps: Vec<Step>) -> Result<(), SinkClosed> {
        if steps.is_empty() || self.halted {
            return Ok(());
        }
        if self.try_out(&steps).await? || steps.len() == 1 {
            return Ok(());
        }
        // One of them does not hold: those before it still may go.
        self.halted = false;
        for step in steps {
            if !self.try_out(std::slice::from_ref(&step)).await? {
                break;
            }
        }
        Ok(())
    }

    /// Sends the steps out if they hold with those before them.
    async fn try_out(&mut self, steps: &[Step]) -> Result<bool, SinkClosed> {
        let before = self.sent.iter().map(|(_, checked)| checked.clone());
        let plan = Plan { steps: before.chain(steps.iter().cloned()).collect(), ..self.head.clone() };
        let routed = match self.pipeline.validate_part(self.planner, &plan, self.request) {
            // How sure its planner is of the whole is said at the end: what changes something waits for that.
            Ok(routed) if routed.plan().approve.is_none() && !has_side_effect(routed.plan(), &self.request.agents) => {
                routed
            }
            Ok(_) => {
                self.halted = true;
                return Ok(false);
            }
            Err(issues) => {
                tracing::debug!(planner = self.planner, "a step waits for the whole plan: {} issues", issues.len());
                self.halted = true;
                return Ok(false);
            }
        };
        let (plan, warnings, routes) = routed.into_parts();
        let mut by_id = by_id(plan.steps.clone());
        let fresh: Vec<(Step, Step)> =
            steps.iter().filter_map(|raw| by_id.remove(&raw.id).map(|checked| (raw.clone(), checked))).collect();
        if fresh.len() < steps.len() {
            self.halted = true;
            return Ok(false);
        }
        if self.sent.is_empty() {
            let beginning = Planned {
                plan,
                planner: self.planner.into(),
                confidence: PROVISIONAL,
                provenance: None,
                warnings,
                routes,
                goal: self.request.read_goal(),
            };
            match self.sink.begin(beginning).await {
                Err(SinkClosed::Overtaken) => {
                    self.halted = true;
                    return Ok(false);
                }
                begun => begun?,
            }
        } else {
            self.sink.add(fresh.iter().map(|(_, checked)| checked.clone()).collect()).await?;
            self.routes.extend(routes);
        }
        self.sent.extend(fresh);
        Ok(true)
    }

    /// The whole plan is there: what is not out yet goes out, if it holds and what is out is still as it was.
    async fn finish(mut self, planned: Planned) -> Result<StreamOutcome, SinkClosed> {
        let account = planned.provenance.clone();
        let closing = match self.rest(planned.plan.clone()) {
            Ok((mut steps, warnings, routes)) => {
                if planned.plan.approve.is_some() {
                    // The plan runs already: a person is asked about each step that changes something.
                    let acting = steps.iter_mut().filter(|step| acts(step, &self.request.agents));
                    acting.for_each(|step| _ = step.approve.get_or_insert_default());
                }
                if !steps.is_empty() {
                    self.sink.add(steps).await?;
                }
                self.routes.extend(routes);
                self.routes.extend(planned.routes);
                Closing::Whole {
                    confidence: planned.confidence,
                    provenance: planned.provenance,
                    warnings: planned.warnings.into_iter().chain(warnings).collect(),
                    routes: self.routes,
                }
            }
            Err(Closing::Broken { reason, issues, .. }) => Closing::Broken { reason, issues, provenance: account },
            Err(closing @ Closing::Whole { .. }) => closing,
        };
        Ok(StreamOutcome::Closed(Box::new(closing)))
    }

    /// The steps that are not out yet, checked and routed with those that are.
    #[expect(clippy::type_complexity, reason = "three lists that are taken apart at once")]
    fn rest(&self, mut plan: Plan) -> Result<(Vec<Step>, Vec<Issue>, Vec<Route>), Closing> {
        if plan.phases != self.head.phases {
            return Err(broken("the phases are other ones than the plan began with", Vec::new()));
        }
        let mut steps = by_id(std::mem::take(&mut plan.steps));
        for (raw, checked) in &self.sent {
            let same = steps.remove(&raw.id).is_some_and(|whole| whole == *raw || whole == *checked);
            if !same {
                return Err(broken(format!("step `{}` is not as it began", raw.id), Vec::new()));
            }
            plan.steps.push(checked.clone());
        }
        let order = |step: &Step| step.id.clone();
        let later: Vec<StepId> = steps.values().map(order).collect();
        plan.steps.extend(steps.into_values());
        let routed = self.pipeline.validate_part(self.planner, &plan, self.request);
        let routed = routed.map_err(|issues| broken("the rest of the plan is not valid", issues))?;
        let (plan, warnings, routes) = routed.into_parts();
        let mut whole = by_id(plan.steps);
        let moved = self.sent.iter().find(|(_, checked)| whole.get(&checked.id) != Some(checked));
        if let Some((step, _)) = moved {
            return Err(broken(format!("step `{}` is not as it began", step.id), Vec::new()));
        }
        let rest = later.iter().filter_map(|id| whole.remove(id)).collect();
        Ok((rest, warnings, routes))
    }
}

fn by_id(steps: Vec<Step>) -> BTreeMap<StepId, Step> {
    steps.into_iter().map(|step| (step.id.clone(), step)).collect()
}
