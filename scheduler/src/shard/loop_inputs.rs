//! The inputs of a turn: gathered, with what the store must tell of their plans beforehand.

use std::collections::BTreeSet;

use futures_util::stream::{self, StreamExt, TryStreamExt};
use goalmill_broker::BrokerError;
use goalmill_common::id::PlanId;
use goalmill_engine::PlanState;
use goalmill_shard::{BegunPlan, LoopInput};
use tokio::sync::mpsc;

use super::inbox_reader::InboxBatch;
use super::recover;
use super::shard_loop::{LoopEnd, ShardLoop};
use crate::quarantine;

/// Logs of parked plans that are read together.
const READS_AT_ONCE: usize = 16;

impl ShardLoop {
    /// Adds the inputs that are already there, and asks the store about plans that are submitted. During a careful
    /// takeover only the first input is handled, recorded beforehand.
    pub(super) async fn prepare_inputs(
        &mut self,
        mut inputs: Vec<LoopInput>,
        inbox: &mut mpsc::Receiver<InboxBatch>,
    ) -> Result<Vec<LoopInput>, LoopEnd> {
        if let Some(takeover) = &mut self.takeover {
            self.io.left_over = inputs.split_off(inputs.len().min(1));
            if let Some(input) = inputs.first() {
                takeover.record(&self.scheduler, self.shard, input.plans()).await?;
                if let LoopInput::Entry(place, _) = input {
                    takeover.mark_handled(place);
                }
            }
        } else {
            let room = self.turns.state.room();
            while inputs.len() < room
                && let Ok(batch) = inbox.try_recv()
            {
                inputs.extend(entries(Some(batch))?);
            }
            while inputs.len() < room
                && let Ok(message) = self.messages.try_recv()
            {
                inputs.push(LoopInput::Message(message));
            }
        }
        self.mark_finished_plans(&inputs).await?;
        self.wake_parked(&inputs).await?;
        Ok(inputs)
    }

    /// Reads the parked plans again that are due, or that inputs concern.
    pub(super) async fn wake_parked(&mut self, inputs: &[LoopInput]) -> Result<(), LoopEnd> {
        let state = &self.turns.state;
        let concerned = inputs.iter().flat_map(LoopInput::plans).filter(|plan| state.is_parked(plan));
        let plans: BTreeSet<PlanId> = concerned.chain(state.parked_due()).collect();
        if plans.is_empty() {
            return Ok(());
        }
        let scheduler = self.scheduler.clone();
        let reads = stream::iter(plans).map(async |plan| {
            let state = recover::restore(&scheduler, plan.clone()).await?;
            Ok::<_, BrokerError>((plan, state))
        });
        let read: Vec<(PlanId, Option<PlanState>)> = reads.buffered(READS_AT_ONCE).try_collect().await?;
        for (plan, state) in read {
            let Some(state) = state else {
                self.turns.state.quarantine_parked(plan);
                continue;
            };
            let noted = self.scheduler.stats.with_notes(std::slice::from_ref(&state));
            if self.turns.state.unpark(state) {
                self.scheduler.replay_stats(noted);
            }
        }
        Ok(())
    }

    /// Finds out which submitted plans have already run: memory has only those that are not final.
    async fn mark_finished_plans(&mut self, inputs: &[LoopInput]) -> Result<(), LoopEnd> {
        let mut plans: Vec<PlanId> = Vec::new();
        for (plan, snapshot) in inputs.iter().filter_map(LoopInput::submits) {
            if !self.turns.state.knows_status(plan, snapshot) && !self.scheduler.is_plan_quarantined(plan) {
                plans.push(plan.clone());
            }
        }
        if plans.is_empty() {
            return Ok(());
        }
        let begun = match self.scheduler.broker.begun(&plans).await {
            Ok(begun) => begun,
            Err(error) => {
                quarantine::isolate_unreadable(&self.scheduler, &plans, &error).await;
                return Err(error.into());
            }
        };
        for (plan, begun) in plans.into_iter().zip(begun) {
            if let Some((status, fingerprint)) = begun {
                self.turns.state.mark_finished(plan, BegunPlan { status, fingerprint });
            }
        }
        Ok(())
    }
}

/// The inputs of a batch; a batch that could not be read ends the loop.
pub(super) fn entries(batch: Option<InboxBatch>) -> Result<Vec<LoopInput>, LoopEnd> {
    let batch = batch.ok_or_else(|| LoopEnd::Lost("the inbox reader ended".into()))?;
    Ok(batch?.into_iter().map(|(place, entry)| LoopInput::Entry(place, entry)).collect())
}
