//! What was checked a moment ago: a planner that checks its own plan hands it to the pipeline, which asks again.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use goalmill_common::goal::Goal;
use goalmill_common::plan::Plan;
use tokio::time::Instant;

use crate::PlanRequest;
use crate::pipeline::{Candidate, Checked, Validate};

/// Agents and workers change: what is older is checked anew.
const AGE_MAX: Duration = Duration::from_secs(1);

/// The plan that was checked last, and for what it was asked.
struct Recalled {
    at: Instant,
    plan: Plan,
    goal: Goal,
    now_ms: u64,
    revision: u32,
    checked: Checked,
}

impl Recalled {
    fn is_for(&self, plan: &Plan, request: &PlanRequest) -> bool {
        self.at.elapsed() < AGE_MAX
            && (self.now_ms, self.revision) == (request.now_ms, request.revision)
            && self.goal == request.goal
            && self.plan == *plan
    }
}

/// The same checks, which answer at once when the very same is asked a second time.
pub fn recalling(validate: Validate) -> Validate {
    let last: Mutex<Option<Recalled>> = Mutex::new(None);
    Arc::new(move |candidate: Candidate, request| {
        let recalled = last.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(recalled) = recalled.filter(|recalled| recalled.is_for(candidate.plan(), request)) {
            return Ok(recalled.checked);
        }
        let asked = candidate.plan().clone();
        let checked = validate(candidate, request)?;
        *last.lock().unwrap_or_else(PoisonError::into_inner) = Some(Recalled {
            at: Instant::now(),
            plan: asked,
            goal: request.goal.clone(),
            now_ms: request.now_ms,
            revision: request.revision,
            checked: checked.clone(),
        });
        Ok(checked)
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use goalmill_common::limits::Limits;
    use goalmill_common::plan::Step;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_the_very_same_is_recalled_once_and_for_a_moment() {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = asked.clone();
        let validate = recalling(Arc::new(move |candidate: Candidate, _: &PlanRequest| {
            count.fetch_add(1, Ordering::Relaxed);
            Ok(Checked { plan: candidate.plan().clone(), warnings: Vec::new(), routes: Vec::new() })
        }));
        let plan = |id: &str| Plan { steps: vec![Step::new(id, "echo")], ..Plan::default() };
        let mut request = PlanRequest {
            goal: Goal::default(),
            agents: Vec::new(),
            limits: Limits::default(),
            now_ms: 1,
            revision: 0,
            ledger: Default::default(),
            terms: Default::default(),
        };
        let check = |id: &str, request: &PlanRequest| {
            let checked = validate(Candidate::Plan(plan(id)), request).expect("all is well");
            assert_eq!(checked.plan, plan(id));
            asked.swap(0, Ordering::Relaxed)
        };
        assert_eq!((check("a", &request), check("a", &request)), (1, 0), "the second is recalled");
        assert_eq!((check("a", &request), check("b", &request)), (1, 1), "another plan is not");
        request.now_ms = 2;
        assert_eq!(check("b", &request), 1, "nor is another request");
        tokio::time::advance(AGE_MAX).await;
        assert_eq!(check("b", &request), 1, "nor what is old");
    }
}
