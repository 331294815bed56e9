//! Events from outside: sends them to plans.

use axum::Json;
use axum::extract::{Path, State};
use goalmill_common::command::Verb;
use goalmill_common::external_event::ExternalEvent;
use goalmill_common::json::Json as Payload;
use goalmill_common::view::{EventReceipt, Page, WaitView};
use serde::Deserialize;

use super::Api;
use super::plan_access::send_verb;
use super::principal::Principal;
use super::query_parameters::{Parameters, Query, RawParameters};
use super::response::{self, ApiResult, Body, shown};
use crate::event_delivery;

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
    send_verb(&api, &principal, &plan, &actor, Verb::SendEvent { event, waiting_only: false }).await?;
    Ok(Json(receipt))
}

/// `POST /v1/events`: to every plan of the caller's namespace that waits for it.
pub(crate) async fn send(State(api): State<Api>, principal: Principal, body: Body) -> ApiResult<EventReceipt> {
    let body: EventBody = response::parse_json(&response::body(body)?)?;
    let (event, actor) = body.into_event(&api);
    let (namespace, actor) = (principal.place(None)?.unwrap_or_default(), principal.actor_named(&actor)?);
    Ok(Json(event_delivery::send_event(&api.scheduler, &api.shards, &namespace, &actor, event).await?))
}

/// Waits in one page.
const PAGE_MAX: usize = 1_000;
/// The form of a cursor.
const CURSOR_PATTERN: &str = "^[0-9a-f]{1,32}$";
/// Registered waits that are looked at for one page.
const LOOKED_AT_MAX: usize = 5_000;

#[derive(schemars::JsonSchema)]
pub(crate) struct WaitsQuery {
    /// The `next` of the page before.
    #[schemars(regex(pattern = CURSOR_PATTERN))]
    cursor: Option<String>,
}

impl Parameters for WaitsQuery {
    const NAMES: &'static [&'static str] = &["cursor"];

    fn parse(given: &mut RawParameters) -> Self {
        Self {
            cursor: given.value("cursor", |text| {
                let is_one =
                    (1..=32).contains(&text.len()) && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
                let wrong = || (format!("`cursor` is `{}`", shown(text)), "give the `next` of the page before".into());
                is_one.then(|| text.to_owned()).ok_or_else(wrong)
            }),
        }
    }
}

/// `GET /v1/waits`: the waits for events that the caller sees. Within a page the soonest end comes first; a page may be
/// short or empty and still have a `next`.
pub(crate) async fn waits(
    State(api): State<Api>,
    principal: Principal,
    Query(query): Query<WaitsQuery>,
) -> ApiResult<Page<WaitView>> {
    let broker = api.scheduler.broker.as_ref();
    let (key, mut next, mut looked_at) = (broker.keys().waits(), Some(query.cursor.unwrap_or_default()), 0);
    let mut items: Vec<WaitView> = Vec::new();
    while let Some(after) = next.take_if(|_| items.len() < PAGE_MAX && looked_at < LOOKED_AT_MAX) {
        let page = broker.fields_page(&key, &after, PAGE_MAX - items.len()).await?;
        looked_at += page.fields.len().max(1);
        let parse = |(_, text): &(String, String)| serde_json::from_str::<WaitView>(text).ok();
        items.extend(page.fields.iter().filter_map(parse).filter(|wait| principal.may_see(&wait.namespace)));
        next = page.next;
    }
    items.sort_by(|a, b| (&a.due_at, &a.plan_id, &a.step_id).cmp(&(&b.due_at, &b.plan_id, &b.step_id)));
    items.dedup_by(|a, b| (&a.plan_id, &a.step_id) == (&b.plan_id, &b.step_id));
    Ok(Json(Page { items, next }))
}
