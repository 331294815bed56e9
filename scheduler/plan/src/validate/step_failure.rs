//! The failure of a step: retries, the fallback, the plan.

use goalmill_common::id::{AgentType, is_id};
use goalmill_common::plan::{Fallback, OnFailure, OnPartial, Step};
use serde_json::Value;

use super::policy;
use super::retry::BACKOFF_MS_MAX;
use super::step_id::id_hint;
use crate::document::{Fields, Table, Unit, shorten, text};

const FALLBACK: &Table =
    &[("agent_type", &["agent", "assigned_agent"]), ("action", &["tool", "function", "fallback_action"])];

pub(super) fn fallback(fields: &Fields<'_, '_>) -> Option<Fallback> {
    let field = fields.get("fallback")?;
    let at = fields.at.key(field.key);
    let Value::Object(map) = field.value else {
        let action = text(fields.context, &at, field.value)?;
        return (!action.is_empty()).then_some(Fallback { agent_type: None, action: Some(action) });
    };
    let inner = Fields::from_map(fields.context, &at, map, FALLBACK);
    let agent_type = inner.text("agent_type");
    if let (Some(agent), Some(field)) = (&agent_type, inner.get("agent_type"))
        && !is_id(agent)
    {
        let detail = format!("`{}` is not the name of an agent type", shorten(agent));
        fields.context.error("INVALID_ID", &at.key(field.key), detail, id_hint(agent));
    }
    let agent_type = agent_type.map(AgentType::from);
    if agent_type.as_ref().is_some_and(AgentType::is_auto) {
        let hint = "name an agent type, or omit `agent_type` to use another action of the same one";
        let key = inner.get("agent_type").map_or("agent_type", |field| field.key);
        fields.context.error("INVALID_VALUE", &at.key(key), "`auto` is not allowed in `fallback`", hint);
    }
    let fallback = Fallback { agent_type, action: inner.text("action") };
    Some(fallback)
}

/// The first wait of the retries, beside them.
pub(super) fn retry_delay(fields: &Fields<'_, '_>, step: &mut Step) {
    let Some(field) = fields.get("retry_delay") else { return };
    if fields.get("retry").is_some_and(|retry| retry.value.is_object()) {
        let at = fields.at.key(field.key);
        return fields.context.error(
            "CONFLICTING_FIELDS",
            &at,
            "`retry` says how long to wait",
            "put it into `retry` as `initial`",
        );
    }
    let wait = fields.duration("retry_delay", Unit::Seconds, 0, BACKOFF_MS_MAX, "INVALID_RETRY_POLICY");
    if let Some(wait_ms) = wait {
        (step.retry.initial_ms, step.retry.max_ms) = (wait_ms, step.retry.max_ms.max(wait_ms));
    }
}

pub(super) fn on_partial(fields: &Fields<'_, '_>) -> OnPartial {
    let words = [("continue", OnPartial::Continue), ("replan", OnPartial::Replan), ("fail", OnPartial::Fail)];
    policy::word(fields, "on_partial", &words).unwrap_or_default()
}

/// What becomes of the plan when a step fails, in a step or for all of them.
pub(super) fn on_failure(fields: &Fields<'_, '_>) -> OnFailure {
    let words = [
        ("abort", OnFailure::Abort),
        // Attempts are those of `retry`; then the plan ends.
        ("retry", OnFailure::Abort),
        ("fail", OnFailure::Abort),
        ("stop", OnFailure::Abort),
        ("skip", OnFailure::Skip),
        ("continue", OnFailure::Continue),
        ("skip_and_continue", OnFailure::Continue),
        ("replan", OnFailure::Replan),
        ("ask_user", OnFailure::AskUser),
        ("ask", OnFailure::AskUser),
        // What was done is undone when the plan fails.
        ("undo", OnFailure::Abort),
    ];
    let given = policy::word(fields, "on_failure", &words);
    let goes_on = fields.flag("continue_on_failure");
    if let (Some(given), Some(true), Some(field)) = (given, goes_on, fields.get("continue_on_failure"))
        && given != OnFailure::Continue
    {
        let at = fields.at.key(field.key);
        fields.context.error(
            "CONFLICTING_FIELDS",
            &at,
            "this and `on_failure` say different things",
            "keep one of them",
        );
    }
    match (given, goes_on) {
        (Some(given), _) => given,
        (None, Some(true)) => OnFailure::Continue,
        (None, _) => OnFailure::Abort,
    }
}
