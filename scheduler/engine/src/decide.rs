//! Decides what a command makes happen.

use crate::{Context, Decision, Effect, Envelope, PlanState, Rejection};

/// Decides what a command makes happen, and folds it into the state.
pub fn decide(
    state: &mut PlanState,
    context: &Context,
    envelope: Envelope,
) -> Result<Decision, Rejection> {
    let _ = (state, context, envelope);
    Err(Rejection::NotDue)
}

/// Names the effects that may not have run before a restart.
pub fn pending(state: &PlanState) -> Vec<Effect> {
    let _ = state;
    Vec::new()
}
