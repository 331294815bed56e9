//! Single steps: look at, steer.

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{Path, State};
use goalmill_common::command::Verb;
use goalmill_common::id::StepId;
use goalmill_common::json::Json as Payload;
use goalmill_common::problem::{ErrorCode, Problem};
use goalmill_common::view::StepView;
use serde::Deserialize;

use super::Api;
use super::answer::{self, Refusal};
use super::plans::{state, tell, unknown_verb};

type Answer<T> = Result<Json<T>, Refusal>;

pub(crate) async fn get(State(api): State<Api>, Path((id, step)): Path<(String, String)>) -> Answer<StepView> {
    view(&api, &id, &step).await
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Because {
    reason: String,
    actor: String,
    outputs: Option<Payload>,
}

/// `POST /v1/plans/{id}/steps/{step}:{verb}`.
pub(crate) async fn act(
    State(api): State<Api>,
    Path((id, address)): Path<(String, String)>,
    body: Result<Bytes, BytesRejection>,
) -> Answer<StepView> {
    let because: Because = answer::json(&answer::body(body)?)?;
    let (name, verb) = address.rsplit_once(':').unwrap_or((&address, ""));
    let (step, reason) = (StepId::from(name), because.reason);
    let verb = match verb {
        "retry" => Verb::RetryStep { step, reason },
        "skip" => Verb::SkipStep { step, reason },
        "complete" => Verb::CompleteStep { step, outputs: because.outputs.unwrap_or_default(), reason },
        "approve" => Verb::ApproveStep { step, reason },
        "reject" => Verb::RejectStep { step, reason },
        other => return Err(unknown_verb(other, "retry, skip, complete, approve, reject")),
    };
    tell(&api, &id, because.actor, verb).await?;
    view(&api, &id, name).await
}

async fn view(api: &Api, id: &str, step: &str) -> Answer<StepView> {
    let view = state(api, id).await?.view(true);
    let found = view.steps.into_iter().find(|s| s.id.as_str() == step);
    found
        .map(Json)
        .ok_or_else(|| Refusal(Problem::new(ErrorCode::StepNotFound, format!("plan `{id}` has no step `{step}`"))))
}
