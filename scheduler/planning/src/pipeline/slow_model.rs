//! Starts the plan of a planner without a model when the model takes long.
//!
//! The model is still asked. Its plan, when it comes and is better, revises the one that runs: see
//! [`Trigger::BetterPlan`](goalmill_common::revision::Trigger::BetterPlan).

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use goalmill_common::command::Planned;
use goalmill_common::goal::Goal;
use goalmill_common::plan::Step;
use tokio::sync::Mutex;

use super::refusal::{PlannerRefusal, RefusalReason};
use crate::pipeline::{Pipeline, asks_models};
use crate::stage::Stages;
use crate::{CallLog, PlanRequest, Planner, SinkClosed, StepSink};

/// Which plan began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StartedPlan {
    /// Steps of the plan that the first planner writes.
    Parts,
    /// Another planner's plan.
    Whole,
}

/// A sink that lets only one of two plans begin.
pub struct FirstPlanSink<'a> {
    sink: &'a dyn StepSink,
    begun: Mutex<Option<StartedPlan>>,
}

impl<'a> FirstPlanSink<'a> {
    pub fn new(sink: &'a dyn StepSink) -> Self {
        Self { sink, begun: Mutex::default() }
    }

    /// Whether another planner's plan has begun.
    pub async fn has_fallback(&self) -> bool {
        *self.begun.lock().await == Some(StartedPlan::Whole)
    }

    async fn has_begun(&self) -> bool {
        self.begun.lock().await.is_some()
    }
}

#[async_trait]
impl StepSink for FirstPlanSink<'_> {
    async fn begin(&self, planned: Planned) -> Result<(), SinkClosed> {
        let mut begun = self.begun.lock().await;
        if *begun == Some(StartedPlan::Whole) {
            return Err(SinkClosed::Overtaken);
        }
        *begun = Some(StartedPlan::Parts);
        self.sink.begin(planned).await
    }

    async fn begin_whole(&self, planned: Planned) -> Result<(), SinkClosed> {
        let mut begun = self.begun.lock().await;
        if begun.is_some() {
            return Err(SinkClosed::Overtaken);
        }
        self.sink.begin_whole(planned).await?;
        *begun = Some(StartedPlan::Whole);
        Ok(())
    }

    async fn add(&self, steps: Vec<Step>) -> Result<(), SinkClosed> {
        self.sink.add(steps).await
    }
}

impl Pipeline {
    /// The planner that asks models, and those behind it that ask none: they may plan while it is still asked. None
    /// when the goal asks for one of them, or a person wants to see the plan before it begins.
    fn racers(&self, goal: &Goal) -> Option<(&'static str, Vec<&Arc<dyn Planner>>)> {
        let is_free =
            goal.planning.planner.is_none() && goal.planning.model.is_none() && !goal.planning.require_approval;
        let mut chosen = self.chosen(goal).into_iter().filter(|_| is_free);
        let slow = chosen.find(|planner| asks_models(planner.name()))?;
        let others: Vec<_> = chosen.filter(|planner| !asks_models(planner.name())).collect();
        (!others.is_empty()).then_some((slow.name(), others))
    }

    /// A plan for this goal by a planner that asks no model; none when it would be the generic one.
    ///
    /// - `slow`: the planner that is still asked after `after`.
    /// - `others`: those that may plan instead.
    async fn fallback(
        &self,
        request: &PlanRequest,
        after: Duration,
        slow: &'static str,
        others: Vec<&Arc<dyn Planner>>,
    ) -> Option<Planned> {
        let reason = format!("no answer within {} ms yet", after.as_millis());
        let waiting =
            PlannerRefusal { planner: slow, why: RefusalReason::Timeout, reason, issues: Vec::new(), account: None };
        // The calls of the planner that is still asked are not theirs.
        let request = PlanRequest { call_log: CallLog::default(), ..request.clone() };
        for planner in others {
            let stages = Stages::default();
            if let Ok(planned) = self.ask(planner.as_ref(), &request, &stages).await
                && planned.warnings.iter().all(|w| w.code != "GENERIC_PLAN")
            {
                waiting.falls_back_to(planner.as_ref());
                return Some(self.account(planned, &[waiting], &stages, &request));
            }
        }
        None
    }

    /// Waits for what `asked` comes to; after a while another planner's plan goes to `begin`.
    ///
    /// - `after`: the while; nothing but waiting when it is 0.
    pub async fn race<T, B: Future<Output = ()>>(
        &self,
        request: &PlanRequest,
        sink: &FirstPlanSink<'_>,
        after: Duration,
        asked: impl Future<Output = T>,
        begin: impl FnOnce(Planned) -> B,
    ) -> T {
        let mut asked = pin!(asked);
        let Some((slow, others)) = self.racers(&request.goal).filter(|_| !after.is_zero()) else { return asked.await };
        if let Ok(answer) = tokio::time::timeout(after, &mut asked).await {
            return answer;
        }
        let meanwhile = async {
            if !sink.has_begun().await
                && let Some(planned) = self.fallback(request, after, slow, others).await
            {
                begin(planned).await;
            }
        };
        tokio::join!(asked, meanwhile).0
    }
}
