//! The calls of an attempt of this worker: their records are reports, and large outcomes are blobs.

use async_trait::async_trait;
use goalmill_common::agent::Agent;
use goalmill_common::call::RecordedCall;
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::json::Json;
use goalmill_common::limits::TaskLimits;
use goalmill_common::report::What;
use goalmill_common::wire::Inbox;

use crate::executor::CallStore;
use crate::held_tasks::Assignment;
use crate::payload;
use crate::worker::Worker;

/// Records calls in Redis.
pub(crate) struct AssignmentCalls<'a> {
    pub worker: &'a Worker,
    pub assignment: &'a Assignment,
}

#[async_trait]
impl CallStore for AssignmentCalls<'_> {
    fn limits(&self) -> TaskLimits {
        self.worker.limits()
    }

    fn now_ms(&self) -> u64 {
        self.worker.clock.now_ms()
    }

    async fn load(&self, reference: Json) -> Result<Json, Failure> {
        payload::read_json(self.worker, &self.assignment.task, &reference).await
    }

    async fn store(&self, outcome: &Json) -> Json {
        let name = format!("{}-call", self.worker.random.token());
        payload::store_blob(self.worker, &self.assignment.task, &name, outcome).await
    }

    async fn record(&self, call: RecordedCall) {
        let (worker, assignment) = (self.worker, self.assignment);
        let mut report = assignment.report(&worker.id, What::Call);
        report.call = Some(Box::new(call));
        let shard = assignment.task.plan.shard().expect("tasks without a shard are dead letters");
        let fields = Inbox::Reports(vec![report]).fields();
        let mut failures = 0;
        while let Err(error) = worker.broker.send(shard, &fields).await {
            failures += 1;
            worker.connection.set_lost(&error);
            tokio::time::sleep(worker.backoff(failures)).await;
        }
    }

    async fn agent_cards(&self) -> Result<Vec<Agent>, Failure> {
        let registry = self.worker.broker.agents().await;
        registry.map(|registry| registry.agents).map_err(|error| {
            let message = format!("the registered agent types cannot be read: {error}");
            Failure::new(FailureClass::Transient, "BLOB_UNAVAILABLE", message)
        })
    }
}
