//! Creates, lists and revokes tokens.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use goalmill_common::access::{ALL_NAMESPACES, NewToken, TOKEN_TTL_MS_MAX, TokenView};
use goalmill_common::id::is_id;
use goalmill_common::problem::{ErrorCode, Issue, Problem};
use goalmill_common::view::Page;

use super::Api;
use super::access::TOKENS_MAX;
use super::principal::{Principal, is_reserved};
use super::response::{self, ApiError, ApiResult, Body, shown};

/// `POST /v1/tokens`.
pub(crate) async fn create(State(api): State<Api>, principal: Principal, body: Body) -> Result<Response, ApiError> {
    let new: NewToken = response::parse_small_json(&response::body(body)?)?;
    let issues = issues(&new);
    if !issues.is_empty() {
        return Err(Problem::new(ErrorCode::InvalidRequest, "the token cannot be created").with_errors(issues).into());
    }
    let created = api.access.tokens.create(new).await?.ok_or_else(|| {
        let detail = format!("the limit of {TOKENS_MAX} tokens is reached; revoke tokens that are not used");
        Problem::new(ErrorCode::NotAllowed, detail)
    })?;
    let (id, actor) = (&created.view.id, &created.view.actor);
    tracing::info!("token `{id}` of `{actor}` was created by `{}`", principal.actor);
    Ok((StatusCode::CREATED, [(header::CACHE_CONTROL, "no-store")], Json(created)).into_response())
}

fn issues(new: &NewToken) -> Vec<Issue> {
    let checks = [
        (is_id(&new.actor), "/actor", "the name is no id", "give up to 128 letters, digits, `.`, `_`, `:`, `-`"),
        (
            !is_reserved(&new.actor),
            "/actor",
            "the name is reserved for the engine, hooks and people of the identity provider",
            "give a name that does not begin with `oidc:`, `token:`, `hook:`, `environment:` or `system:`",
        ),
        (
            new.namespace == ALL_NAMESPACES || is_id(&new.namespace),
            "/namespace",
            "the namespace is no id",
            "give an id, or `*` for all",
        ),
        (!new.roles.is_empty(), "/roles", "there is no role", "give at least one"),
        (
            new.ttl_ms.is_none_or(|ttl_ms| (1..=TOKEN_TTL_MS_MAX).contains(&ttl_ms)),
            "/ttl_ms",
            "the time is out of range",
            "give 1 ms to ten years, or leave it out",
        ),
    ];
    let wrong = checks.into_iter().filter(|(holds, ..)| !holds);
    wrong
        .map(|(_, pointer, detail, hint)| Issue {
            code: "INVALID_VALUE".into(),
            pointer: pointer.into(),
            detail: detail.into(),
            hint: hint.into(),
        })
        .collect()
}

/// `GET /v1/tokens`.
pub(crate) async fn list(State(api): State<Api>) -> ApiResult<Page<TokenView>> {
    Ok(Json(Page { items: api.access.tokens.list().await?, next: None }))
}

/// `DELETE /v1/tokens/{id}`: from its next request on, the token is not valid.
pub(crate) async fn revoke(
    State(api): State<Api>,
    principal: Principal,
    Path(id): Path<String>,
) -> ApiResult<TokenView> {
    let revoked = api
        .access
        .tokens
        .revoke(&id)
        .await?
        .ok_or_else(|| Problem::new(ErrorCode::TokenNotFound, format!("there is no token `{}`", shown(&id))))?;
    tracing::info!("token `{}` of `{}` was revoked by `{}`", revoked.id, revoked.actor, principal.actor);
    Ok(Json(revoked))
}
