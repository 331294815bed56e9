//! Events from outside: sends them to plans.

use axum::Json;
use axum::extract::{Path, State};
use goalmill_common::command::Verb;
use goalmill_common::external_event::ExternalEvent;
use goalmill_common::json::Json as Payload;
use goalmill_common::view::EventReceipt;
use serde::Deserialize;

use super::Api;
use super::plan_access::send_verb;
use super::principal::Principal;
use super::response::{self, ApiResult, Body};

/// The body: an event from outside.
#[derive(Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ExternalEvent")]
pub(super) struct EventBody {
    /// What happened: `payment`, `order.shipped`.
    name: String,
    /// To what it happened: the number of an order.
    #[serde(default)]
    key: String,
    /// Any JSON: the outputs of the step that waits for it.
    #[serde(default)]
    data: Payload,
    /// The sender's; a plan takes an event with the same id once. Without one the event gets a new id.
    #[serde(default)]
    id: String,
    /// An id such as `cli:ann`; default `api`.
    #[serde(default)]
    actor: String,
}

impl EventBody {
    /// The event and its actor.
    fn into_event(self, api: &Api) -> (Box<ExternalEvent>, String) {
        let Self { name, key, data, id, actor } = self;
        let id = if id.is_empty() { format!("event-{}", api.scheduler.random.token()) } else { id };
        (Box::new(ExternalEvent { id, name, key, data }), actor)
    }
}

/// `POST /v1/plans/{id}/events`.
pub(crate) async fn send_to_plan(
    State(api): State<Api>,
    principal: Principal,
    Path(plan): Path<String>,
    body: Body,
) -> ApiResult<EventReceipt> {
    let body: EventBody = response::parse_json(&response::body(body)?)?;
    let (event, actor) = body.into_event(&api);
    let receipt = EventReceipt { id: event.id.clone(), plans: vec![plan.as_str().into()] };
    send_verb(&api, &principal, &plan, &actor, Verb::SendEvent { event }).await?;
    Ok(Json(receipt))
}
