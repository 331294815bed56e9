//! Signing in at the identity provider with a browser: away to it, and back with a code.
//!
//! These addresses are for browsers: they answer with redirects, to the provider and to the page, and to nowhere else.

use axum::extract::{Query, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Json, Router};
use goalmill_common::access::{SignInMethods, SignInProvider};
use goalmill_common::problem::{ErrorCode, Problem};

use super::Api;
use super::access::{SignInFailure, cookie_value};
use super::response::{ApiError, ApiResult};
use super::serve::Peer;
use super::session;
use super::sign_in_paths::{CALLBACK_PATH, START_PATH};

/// The cookie between the way out and the way back. Browsers send it with a link from another site, unlike the one of
/// the session.
const FLOW_COOKIE: &str = "__Host-goalmill-sign-in";
/// Seconds that signing in may take.
const FLOW_SECONDS: u64 = 600;
/// Characters of a parameter at most.
const PARAMETER_CHARS_MAX: usize = 4_096;

pub(super) fn routes() -> Router<Api> {
    Router::new().route(START_PATH, get(start)).route(CALLBACK_PATH, get(callback))
}

/// `GET /v1/session/methods`.
pub(crate) async fn methods(State(api): State<Api>) -> ApiResult<SignInMethods> {
    let provider = api.access.provider().map(|name| SignInProvider { name: name.to_owned(), start: START_PATH.into() });
    Ok(Json(SignInMethods { provider }))
}

/// `GET /v1/session/oidc/start`: to the provider.
async fn start(State(api): State<Api>) -> Result<Response, ApiError> {
    if api.access.provider().is_none() {
        return Err(no_provider());
    }
    Ok(match api.access.begin_sign_in().await {
        Ok((word, url)) => redirect(&url, &[flow_cookie(&word, FLOW_SECONDS)]),
        Err(failure) => to_page(&api, failure),
    })
}

/// `GET /v1/session/oidc/callback`: back from the provider, with a code or an error.
async fn callback(
    State(api): State<Api>,
    Extension(Peer(peer)): Extension<Peer>,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Response, ApiError> {
    if api.access.provider().is_none() {
        return Err(no_provider());
    }
    let word = cookie_value(&headers, FLOW_COOKIE).unwrap_or_default();
    let (code, state) = (parameter(&uri, "code"), parameter(&uri, "state"));
    let caller = match api.access.finish_sign_in(&word, &code, &state, peer).await {
        Ok(caller) => caller,
        Err(failure) => return Ok(to_page(&api, failure)),
    };
    let (session, seconds) = session::open(&api, &caller).await?;
    let page = api.access.page_url();
    Ok(redirect(&page, &[session::cookie(&session.word, seconds), flow_cookie("", 0)]))
}

/// The one value of a parameter; empty without one, and for more than one. The provider may add others.
fn parameter(uri: &Uri, name: &str) -> String {
    let pairs = Query::<Vec<(String, String)>>::try_from_uri(uri).map(|Query(pairs)| pairs).unwrap_or_default();
    let mut values = pairs.into_iter().filter(|(other, _)| other == name).map(|(_, value)| value);
    match (values.next(), values.next()) {
        (Some(value), None) if value.len() <= PARAMETER_CHARS_MAX => value,
        _ => String::new(),
    }
}

fn no_provider() -> ApiError {
    Problem::new(ErrorCode::NotFound, "no identity provider is set up for the page: see `api.oidc.client_id`").into()
}

/// To the sign-in of the page, which says why it failed.
fn to_page(api: &Api, failure: SignInFailure) -> Response {
    redirect(&format!("{}#/sign-in?failure={}", api.access.page_url(), failure.word()), &[flow_cookie("", 0)])
}

fn flow_cookie(word: &str, seconds: u64) -> HeaderValue {
    let text = format!("{FLOW_COOKIE}={word}; Path=/; Secure; HttpOnly; SameSite=Lax; Max-Age={seconds}");
    HeaderValue::from_str(&text).expect("words are letters and digits")
}

fn redirect(url: &str, cookies: &[HeaderValue]) -> Response {
    let Ok(location) = HeaderValue::from_str(url) else {
        let detail = "the redirect address is not valid; check the addresses in `api.oidc`";
        return ApiError(Problem::new(ErrorCode::Internal, detail)).into_response();
    };
    let fixed: [(HeaderName, HeaderValue); 3] = [
        (header::LOCATION, location),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    ];
    let mut response = (StatusCode::SEE_OTHER, fixed).into_response();
    for cookie in cookies {
        response.headers_mut().append(header::SET_COOKIE, cookie.clone());
    }
    response
}
