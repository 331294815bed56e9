//! Sessions: signs the web page in and out, and says who the caller is.

use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use goalmill_common::access::{AuthenticationKind, SessionView, SignIn};
use goalmill_common::clock::rfc3339;

use super::Api;
use super::access::SignedIn;
use super::principal::{OpenSession, Principal};
use super::response::{self, ApiError, ApiResult, Body};
use super::serve::Peer;
use super::sign_in_paths::COOKIE;

/// `GET /v1/session`.
pub(crate) async fn get(principal: Principal) -> ApiResult<SessionView> {
    Ok(Json(view(&principal)))
}

/// `POST /v1/session`. An API without authentication opens no session.
pub(crate) async fn sign_in(
    State(api): State<Api>,
    Extension(Peer(peer)): Extension<Peer>,
    body: Body,
) -> Result<Response, ApiError> {
    let SignIn { token } = response::parse_small_json(&response::body(body)?)?;
    if !api.access.is_required() {
        return Ok(Json(view(&Principal::default())).into_response());
    }
    let caller = match api.access.sign_in(&token, peer).await {
        Ok(caller) => caller,
        Err(refusal) => return Ok(refusal.into_response()),
    };
    let (session, seconds) = open(&api, &caller).await?;
    let cookie = cookie(&session.word, seconds);
    let principal = Principal { session: Some(session), ..caller.principal };
    Ok(([(header::SET_COOKIE, cookie), (header::CACHE_CONTROL, no_store())], Json(view(&principal))).into_response())
}

/// Opens a session: the session, and the seconds that its cookie lasts.
pub(super) async fn open(api: &Api, caller: &SignedIn) -> Result<(OpenSession, u64), ApiError> {
    let (word, session) = api.access.sessions.open(caller).await?;
    let seconds = session.expires_ms.saturating_sub(api.scheduler.clock.now_ms()) / 1_000;
    Ok((OpenSession { word, csrf: session.csrf, expires_ms: session.expires_ms }, seconds))
}

/// `DELETE /v1/session`.
pub(crate) async fn sign_out(State(api): State<Api>, principal: Principal) -> Result<Response, ApiError> {
    if let Some(session) = &principal.session {
        api.access.sessions.close(&session.word).await?;
    }
    Ok((StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie("", 0))]).into_response())
}

fn view(principal: &Principal) -> SessionView {
    let session = principal.session.as_ref();
    let authentication = match session {
        Some(_) => AuthenticationKind::Session,
        None if principal.is_authenticated => AuthenticationKind::Token,
        None => AuthenticationKind::None,
    };
    SessionView {
        actor: principal.actor.clone(),
        roles: principal.roles.clone(),
        namespace: principal.scope(),
        authentication,
        csrf: session.map(|session| session.csrf.clone()).unwrap_or_default(),
        expires_at: session.map(|session| rfc3339(session.expires_ms)),
    }
}

/// A cookie that scripts cannot read, and that browsers send only over TLS and only from pages of the same site.
pub(super) fn cookie(word: &str, seconds: u64) -> HeaderValue {
    let text = format!("{COOKIE}={word}; Path=/; Secure; HttpOnly; SameSite=Strict; Max-Age={seconds}");
    HeaderValue::from_str(&text).expect("words are letters and digits")
}

fn no_store() -> HeaderValue {
    HeaderValue::from_static("no-store")
}
