//! The use of the calls of an attempt, and the end of the budget of the plan.

use goalmill_common::call::{CallBudget, CallNeeds};
use goalmill_common::failure::Failure;
use goalmill_common::report::TokenSplit;
use goalmill_llm::{BudgetExceeded, ModelError, SpendLimit, TokenUsage, Usd};
use goalmill_worker::executor::{CallResult, CallUsage, over_budget};

use super::AgentLoop;

impl AgentLoop<'_> {
    /// What was used up by calls that have failed: no recorded call has it.
    pub fn unrecorded(&self) -> CallUsage {
        let spent = self.budget.spent();
        let (tokens, cost) = &self.recorded;
        CallUsage {
            cost: spent.cost.minus(*cost).dollars(),
            tokens: TokenSplit {
                prompt_tokens: spent.input_tokens.saturating_sub(tokens.prompt_tokens),
                completion_tokens: spent.output_tokens.saturating_sub(tokens.completion_tokens),
            },
        }
    }

    /// Ends the attempt because a call does not fit into the budget of the plan: it waits for more, if there may be
    /// more.
    pub(super) fn end_over_budget(&self, name: &str, inputs: &str, needs: CallNeeds) -> Failure {
        match &self.task.budget {
            Some(CallBudget { last: false, .. }) => self.calls.wait_for_budget(name, inputs, needs),
            Some(CallBudget { last: true, .. }) | None => over_budget(name, needs),
        }
    }

    /// Counts a call whose usage is recorded.
    pub(super) fn count(&mut self, result: &CallResult) {
        let (tokens, cost) = &mut self.recorded;
        let more = result.usage.tokens;
        tokens.prompt_tokens = tokens.prompt_tokens.saturating_add(more.prompt_tokens);
        tokens.completion_tokens = tokens.completion_tokens.saturating_add(more.completion_tokens);
        *cost += Usd::from_dollars(result.usage.cost);
        if result.is_replayed {
            let (usage, cost) = reserved(&result.usage);
            self.budget.record_call(&usage, cost);
        }
    }
}

/// The limit that the plan sets.
pub(super) fn limit_of(budget: Option<&CallBudget>) -> SpendLimit {
    let Some(budget) = budget else { return SpendLimit::default() };
    SpendLimit { tokens: budget.tokens, cost: budget.cost.map(Usd::from_dollars) }
}

pub(super) fn needs_of((tokens, cost): (u64, Usd)) -> CallNeeds {
    CallNeeds { tokens, cost: cost.dollars() }
}

/// Whether a call was not made because of the budget of the plan, and not because of the agent's own limits.
pub(super) fn is_over_plan(error: &ModelError) -> bool {
    matches!(error, ModelError::OverBudget { exceeded: BudgetExceeded::Shared(_), .. })
}

pub(super) fn used(usage: &TokenUsage, cost: Usd) -> CallUsage {
    let tokens = TokenSplit { prompt_tokens: usage.input_tokens, completion_tokens: usage.output_tokens };
    CallUsage { cost: cost.dollars(), tokens }
}

/// The usage of a replayed call, in the types of budgets.
fn reserved(usage: &CallUsage) -> (TokenUsage, Usd) {
    let TokenSplit { prompt_tokens: input_tokens, completion_tokens: output_tokens } = usage.tokens;
    (TokenUsage { input_tokens, output_tokens, estimated: false }, Usd::from_dollars(usage.cost))
}
