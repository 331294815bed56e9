//! Checks who sends a request, and whether the caller may: each route names the roles that it needs.

mod credentials;
mod failure_limit;
mod identity;
#[cfg_attr(not(feature = "oidc"), path = "oidc_disabled.rs")]
mod oidc;
mod secret_digest;
mod session_store;
mod token_store;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{FromRequestParts, MatchedPath, RawPathParams, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use goalmill_broker::BrokerError;
use goalmill_common::access::{ALL_NAMESPACES, Role};
use goalmill_common::clock::Clock;
use goalmill_common::config::{ApiSettings, Authentication, environment};
use goalmill_common::problem::{ErrorCode, Problem};

use super::namespaces;
use super::openapi::{RouteAccess, route_access};
use super::page;
use super::principal::{OpenSession, Principal};
use super::response::ApiError;
use super::serve::Peer;
use super::sign_in_paths::is_sign_in;
use crate::plan_reader::PlanReader;
use crate::scheduler::Scheduler;

use credentials::Credentials;
pub(super) use credentials::{COOKIE, cookie_value};
use failure_limit::FailureLimit;
use identity::OidcIdentity;
pub(super) use identity::SignInFailure;
pub(crate) use oidc::OidcVerifier;
use secret_digest::SecretDigest;
use session_store::{SessionIdentity, SessionStore, StoredSession};
pub(super) use token_store::TOKENS_MAX;
use token_store::TokenStore;

/// Characters of a token from the environment, at the least.
const ENVIRONMENT_CHARS_MIN: usize = 32;
const CSRF: &str = "x-csrf-token";
/// What the paths of one plan begin with, in the router.
const PLAN_PATH: &str = "/v1/plans/{id}";
/// Writes below these paths change what all namespaces share. `/v1/agents:route` only reads.
const SHARED_PATHS: [&str; 3] = ["/v1/agents", "/v1/workers", "/v1/queues"];
/// Stands for the id of a token of the identity provider; no id of a token has its `:`.
const OIDC_TOKEN: &str = "oidc:token";

/// Who may call.
pub(crate) struct AccessGuard {
    is_required: bool,
    environment: Vec<EnvironmentToken>,
    /// The identity provider, if there is one.
    oidc: Option<OidcVerifier>,
    pub(super) tokens: TokenStore,
    pub(super) sessions: SessionStore,
    failures: FailureLimit,
    plans: Arc<dyn PlanReader>,
    clock: Clock,
}

/// The caller of a request that this process makes, who has been checked before. Nothing that comes over a connection has
/// one.
#[derive(Clone, Debug)]
pub(super) struct CheckedCaller(pub(super) Principal);

/// What the settings accept besides the tokens of the store.
pub(crate) struct ApiCredentials {
    pub(crate) environment: Vec<EnvironmentToken>,
    pub(crate) oidc: Option<OidcVerifier>,
}

/// A token of the settings, from an environment variable.
pub(crate) struct EnvironmentToken {
    /// Stands for the id of a token; no id of a token has its `:`.
    id: &'static str,
    sha256: SecretDigest,
    actor: &'static str,
    role: Role,
}

/// A caller whose token is valid.
pub(super) struct SignedIn {
    /// The token's id.
    pub(super) token: String,
    pub(super) sha256: SecretDigest,
    pub(super) principal: Principal,
    /// When a token that no store has expires, Unix milliseconds.
    pub(super) expires_ms: Option<u64>,
}

/// Reads the tokens that the settings name. An error says what is wrong, without the value.
pub(crate) fn environment_tokens(settings: &ApiSettings) -> Result<Vec<EnvironmentToken>, String> {
    let named = [
        ("api.admin_token_env", &settings.admin_token_env, "environment:admin", "admin", Role::Admin),
        ("api.scaling_token_env", &settings.scaling_token_env, "environment:scaling", "autoscaler", Role::Scaler),
    ];
    let mut tokens = Vec::new();
    for (setting, name, id, actor, role) in named {
        if name.is_empty() {
            continue;
        }
        let value = environment(name)
            .ok_or_else(|| format!("`{setting}` names the environment variable `{name}`, which is not set: set it"))?;
        if value.len() < ENVIRONMENT_CHARS_MIN || !value.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(format!(
                "the environment variable `{name}` of `{setting}` needs at least {ENVIRONMENT_CHARS_MIN} visible ASCII \
                 characters, for example from `openssl rand -hex 32`"
            ));
        }
        tokens.push(EnvironmentToken { id, sha256: SecretDigest::of(&value), actor, role });
    }
    Ok(tokens)
}

impl AccessGuard {
    pub(super) fn new(scheduler: &Scheduler, credentials: ApiCredentials) -> Self {
        let ApiCredentials { environment, oidc } = credentials;
        let settings = &scheduler.settings.api;
        let (broker, clock, random) = (&scheduler.broker, &scheduler.clock, &scheduler.random);
        Self {
            is_required: settings.authentication == Authentication::Required,
            environment,
            oidc,
            tokens: TokenStore::new(broker.clone(), clock.clone(), random.clone()),
            sessions: SessionStore::new(broker.clone(), clock.clone(), random.clone(), settings.session_ms),
            failures: FailureLimit::new(settings.failures_per_minute),
            plans: scheduler.plans.clone(),
            clock: clock.clone(),
        }
    }

    /// Whether callers need credentials.
    pub(super) fn is_required(&self) -> bool {
        self.is_required
    }

    /// Warns of an API that nobody can call.
    pub(super) async fn warn_if_closed(&self) {
        if self.is_required
            && self.environment.is_empty()
            && self.oidc.is_none()
            && matches!(self.tokens.is_empty().await, Ok(true))
        {
            tracing::warn!(
                "the API needs a token, and there is none: set `api.admin_token_env` to create the first one"
            );
        }
    }

    /// Signs in with the text of a token; failures count.
    pub(super) async fn sign_in(&self, token: &str, peer: IpAddr) -> Result<SignedIn, AccessRefusal> {
        self.check_limit(peer)?;
        let caller = self.count_failure(peer, self.find_token(token).await)?;
        if caller.principal.roles.is_empty() {
            let detail = "the identity provider gives this person no role here: see `api.oidc.roles`";
            return Err(AccessRefusal::forbidden(detail));
        }
        Ok(caller)
    }

    /// The name of the identity provider, if people can sign in there.
    pub(super) fn provider(&self) -> Option<&str> {
        self.oidc.as_ref().and_then(OidcVerifier::provider).filter(|_| self.is_required)
    }

    /// The address of the page for browsers.
    pub(super) fn page_url(&self) -> String {
        self.oidc.as_ref().map(OidcVerifier::page_url).unwrap_or_default()
    }

    /// Begins to sign in at the provider: the word for the browser's cookie, and the address to go to.
    pub(super) async fn begin_sign_in(&self) -> Result<(String, String), SignInFailure> {
        let oidc = self.oidc.as_ref().ok_or(SignInFailure::Unavailable)?;
        let word = self.sessions.new_word();
        let url = oidc.authorization_url(&word).await?;
        Ok((word, url))
    }

    /// Signs in with what the provider sent back; failures count.
    pub(super) async fn finish_sign_in(
        &self,
        word: &str,
        code: &str,
        state: &str,
        peer: IpAddr,
    ) -> Result<SignedIn, SignInFailure> {
        let oidc = self.oidc.as_ref().ok_or(SignInFailure::Unavailable)?;
        self.check_limit(peer).map_err(|_| SignInFailure::Limited)?;
        let counted = |failure: SignInFailure| {
            if matches!(failure, SignInFailure::Expired | SignInFailure::Invalid) {
                self.record_failure(peer);
            }
            failure
        };
        if word.is_empty() || !OidcVerifier::is_state(word, state) {
            return Err(counted(SignInFailure::Expired));
        }
        if code.is_empty() {
            return Err(SignInFailure::Denied);
        }
        let OidcIdentity { actor, roles, namespace, .. } = oidc.exchange(word, code).await.map_err(counted)?;
        if roles.is_empty() {
            tracing::info!("`{actor}` of the identity provider has no role here, and gets no session");
            return Err(SignInFailure::NoRole);
        }
        let principal = Principal::authenticated(actor, roles, &namespace);
        Ok(SignedIn { token: OIDC_TOKEN.into(), sha256: SecretDigest::of(code), principal, expires_ms: None })
    }

    fn record_failure(&self, peer: IpAddr) {
        self.failures.record(peer, self.clock.now_ms());
        metrics::counter!("goalmill_http_sign_in_failures_total").increment(1);
    }

    /// The caller; invalid credentials count as a failure of `peer`.
    fn count_failure(
        &self,
        peer: IpAddr,
        found: Result<Option<SignedIn>, AccessRefusal>,
    ) -> Result<SignedIn, AccessRefusal> {
        found?.ok_or_else(|| {
            self.record_failure(peer);
            AccessRefusal::unauthenticated("the token or session is not valid, or has expired")
        })
    }

    /// Checks a secret of another kind than the tokens of callers; failures count.
    ///
    /// - `expected`: the right one; none if there is nothing that the secret could be for.
    pub(super) fn is_secret(&self, peer: IpAddr, expected: Option<&str>, given: &str) -> bool {
        let given = SecretDigest::of(given);
        let is_right = expected.is_some_and(|expected| SecretDigest::of(expected).matches(&given));
        if !is_right {
            self.record_failure(peer);
        }
        is_right
    }

    pub(super) fn check_limit(&self, peer: IpAddr) -> Result<(), AccessRefusal> {
        match self.failures.wait_ms(peer, self.clock.now_ms()) {
            None => Ok(()),
            Some(wait_ms) => Err(AccessRefusal::TooManyFailures { wait_ms }),
        }
    }

    async fn find_token(&self, text: &str) -> Result<Option<SignedIn>, AccessRefusal> {
        let sha256 = SecretDigest::of(text);
        // All are compared, so that the time does not tell which one is near.
        let known: Vec<&EnvironmentToken> =
            self.environment.iter().filter(|token| token.sha256.matches(&sha256)).collect();
        if let Some(token) = known.first() {
            return Ok(Some(token.signed_in()));
        }
        let Some((id, token)) = self.tokens.verify(text).await? else { return self.find_identity(text, sha256).await };
        self.tokens.note_use(&id).await;
        let principal = Principal::authenticated(token.actor, token.roles, &token.namespace);
        Ok(Some(SignedIn { token: id, sha256: token.sha256, principal, expires_ms: None }))
    }

    /// The caller that a token of the identity provider names.
    async fn find_identity(&self, text: &str, sha256: SecretDigest) -> Result<Option<SignedIn>, AccessRefusal> {
        let Some(oidc) = &self.oidc else { return Ok(None) };
        let found = oidc.verify(text).await.map_err(AccessRefusal::Problem)?;
        Ok(found.map(|OidcIdentity { actor, roles, namespace, expires_ms }| SignedIn {
            token: OIDC_TOKEN.into(),
            sha256,
            principal: Principal::authenticated(actor, roles, &namespace),
            expires_ms: Some(expires_ms),
        }))
    }

    async fn find_session(&self, word: &str) -> Result<Option<SignedIn>, AccessRefusal> {
        let Some(session) = self.sessions.find(word).await? else { return Ok(None) };
        let Some(mut caller) = self.caller_of(&session).await? else { return Ok(None) };
        // The secret may have changed since.
        if !caller.sha256.matches(&session.sha256) {
            return Ok(None);
        }
        if session.identity.is_none() && !self.environment.iter().any(|token| token.id == caller.token) {
            self.tokens.note_use(&caller.token).await;
        }
        let StoredSession { csrf, expires_ms, .. } = session;
        caller.principal.session = Some(OpenSession { word: word.to_owned(), csrf, expires_ms });
        Ok(Some(caller))
    }

    async fn caller_of(&self, session: &StoredSession) -> Result<Option<SignedIn>, BrokerError> {
        if let Some(SessionIdentity { actor, roles, namespace }) = &session.identity {
            // Without an identity provider in the settings, nobody vouches for it any more.
            return Ok(self.oidc.as_ref().map(|_| SignedIn {
                token: session.token.clone(),
                sha256: session.sha256.clone(),
                principal: Principal::authenticated(actor.clone(), roles.clone(), namespace),
                expires_ms: Some(session.expires_ms),
            }));
        }
        if let Some(token) = self.environment.iter().find(|token| token.id == session.token) {
            return Ok(Some(token.signed_in()));
        }
        let found = self.tokens.find(&session.token).await?;
        Ok(found.map(|token| SignedIn {
            token: session.token.clone(),
            sha256: token.sha256,
            principal: Principal::authenticated(token.actor, token.roles, &token.namespace),
            expires_ms: None,
        }))
    }

    /// The request with its caller, if the caller may send it.
    async fn admit(&self, mut request: Request) -> Result<Request, AccessRefusal> {
        let asked = AskedRoute::of(&mut request).await;
        if matches!(asked.access, AskedAccess::Route(RouteAccess::Public)) {
            return Ok(request);
        }
        let mut principal = if let Some(CheckedCaller(principal)) = request.extensions_mut().remove() {
            principal
        } else if self.is_required {
            let peer = request.extensions().get::<Peer>().map_or(IpAddr::from([0, 0, 0, 0]), |peer| peer.0);
            self.authenticate(request.headers(), request.method(), peer).await?
        } else {
            Principal::default()
        };
        asked.access.check(&principal)?;
        if asked.is_shared && !principal.is_unbound {
            let detail = "it changes what all namespaces share, and the token belongs to one; use one for `*`";
            return Err(AccessRefusal::forbidden(detail));
        }
        if let Some(namespace) = namespaces::selected(request.headers())? {
            principal.select(namespace)?;
        }
        if let Some(plan) = &asked.plan {
            namespaces::require_plan(self.plans.as_ref(), &principal, plan).await?;
        }
        request.extensions_mut().insert(principal);
        Ok(request)
    }

    async fn authenticate(
        &self,
        headers: &HeaderMap,
        method: &Method,
        peer: IpAddr,
    ) -> Result<Principal, AccessRefusal> {
        let credentials = Credentials::parse(headers);
        if matches!(credentials, Credentials::None) {
            return Err(AccessRefusal::unauthenticated(
                "send `Authorization: Bearer TOKEN`, or sign in at the web page",
            ));
        }
        self.check_limit(peer)?;
        let found = match &credentials {
            Credentials::Bearer(token) => self.find_token(token).await,
            Credentials::Session(word) => self.find_session(word).await,
            Credentials::None | Credentials::Invalid => Ok(None),
        };
        let principal = self.count_failure(peer, found)?.principal;
        if let Some(session) = &principal.session
            && !is_read(method)
            && !repeats_csrf(headers, session)
        {
            return Err(AccessRefusal::forbidden("a request that writes in a session needs its `X-CSRF-Token`"));
        }
        Ok(principal)
    }
}

impl SignedIn {
    /// What a session keeps of a caller whom the store does not know.
    fn identity(&self) -> Option<SessionIdentity> {
        let Principal { actor, roles, .. } = &self.principal;
        let identity =
            || SessionIdentity { actor: actor.clone(), roles: roles.clone(), namespace: self.principal.scope() };
        (self.token == OIDC_TOKEN).then(identity)
    }
}

impl EnvironmentToken {
    fn signed_in(&self) -> SignedIn {
        let principal = Principal::authenticated(self.actor.into(), BTreeSet::from([self.role]), ALL_NAMESPACES);
        SignedIn { token: self.id.into(), sha256: self.sha256.clone(), principal, expires_ms: None }
    }
}

/// Why a caller is refused.
#[derive(Debug)]
pub(super) enum AccessRefusal {
    Problem(Problem),
    TooManyFailures { wait_ms: u64 },
}

impl AccessRefusal {
    fn unauthenticated(detail: &str) -> Self {
        Self::Problem(Problem::new(ErrorCode::Unauthenticated, detail))
    }

    fn forbidden(detail: impl Into<String>) -> Self {
        Self::Problem(Problem::new(ErrorCode::Forbidden, detail))
    }
}

impl From<ApiError> for AccessRefusal {
    fn from(ApiError(problem): ApiError) -> Self {
        Self::Problem(problem)
    }
}

impl From<BrokerError> for AccessRefusal {
    fn from(error: BrokerError) -> Self {
        Self::Problem(error.into())
    }
}

impl IntoResponse for AccessRefusal {
    fn into_response(self) -> Response {
        let wait_ms = match self {
            Self::Problem(problem) => return ApiError(problem).into_response(),
            Self::TooManyFailures { wait_ms } => wait_ms,
        };
        let seconds = wait_ms.div_ceil(1_000).max(1);
        let detail = format!("too many requests from this address had invalid credentials; wait {seconds} s");
        let mut response = ApiError(Problem::new(ErrorCode::TooManyFailures, detail)).into_response();
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        response
    }
}

/// Passes requests on with their [`Principal`], if the caller may send them.
pub(super) async fn check_access(State(guard): State<Arc<AccessGuard>>, request: Request, next: Next) -> Response {
    let mut response = match guard.admit(request).await {
        Ok(request) => next.run(request).await,
        Err(refusal) => refusal.into_response(),
    };
    if guard.is_required {
        forbid_sharing(response.headers_mut());
    }
    response
}

/// What one caller may see is kept by no cache between, and is never taken for something else than it says.
fn forbid_sharing(headers: &mut HeaderMap) {
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    headers.entry(header::X_CONTENT_TYPE_OPTIONS).or_insert(HeaderValue::from_static("nosniff"));
}

/// What the place of a request asks of its caller.
enum AskedAccess {
    Route(RouteAccess),
    /// The path is that of a route, but the table has no such method or verb.
    Unlisted,
    /// No route has this path: nothing happens there.
    NoRoute,
}

impl AskedAccess {
    fn check(&self, principal: &Principal) -> Result<(), AccessRefusal> {
        let roles: &[Role] = match self {
            Self::Route(RouteAccess::Public | RouteAccess::SignedIn) | Self::NoRoute => return Ok(()),
            Self::Route(RouteAccess::Roles(roles)) => roles,
            Self::Unlisted => &[Role::Admin],
        };
        Ok(principal.require(roles)?)
    }
}

/// What a request asks for.
struct AskedRoute {
    access: AskedAccess,
    /// The plan that the path names.
    plan: Option<String>,
    /// Whether it changes what all namespaces share.
    is_shared: bool,
}

impl AskedRoute {
    /// Reads path and parameters as the router and the handlers do.
    async fn of(request: &mut Request) -> Self {
        let Some(path) = request.extensions().get::<MatchedPath>().cloned() else {
            return Self { access: AskedAccess::NoRoute, plan: None, is_shared: false };
        };
        let path = path.as_str();
        let method = match *request.method() {
            Method::HEAD => Method::GET,
            ref method => method.clone(),
        };
        if method == Method::GET && (page::is_page(path) || is_sign_in(path)) {
            return Self { access: AskedAccess::Route(RouteAccess::Public), plan: None, is_shared: false };
        }
        let mut parameters = parameters(request).await;
        let mut verb = String::new();
        // Only `POST` has verbs. They stand in the last parameter.
        if method == Method::POST
            && let Some(last) = parameters.last_mut()
            && let Some((id, tail)) = last.rsplit_once(':')
        {
            tail.clone_into(&mut verb);
            *last = id.to_owned();
        }
        let access = route_access(method.as_str(), path, &verb).map_or(AskedAccess::Unlisted, AskedAccess::Route);
        // What the table does not have is refused for its method or verb, whatever it names.
        let is_of_plan = path.starts_with(PLAN_PATH) && !matches!(access, AskedAccess::Unlisted);
        let plan = is_of_plan.then(|| parameters.into_iter().next().unwrap_or_default());
        let is_shared = !is_read(&method)
            && path != "/v1/agents:route"
            && SHARED_PATHS.iter().any(|shared| path.starts_with(shared))
            || path.starts_with("/v1/tokens");
        Self { access, plan, is_shared }
    }
}

/// The parameters of the path, decoded; empty if they cannot be.
async fn parameters(request: &mut Request) -> Vec<String> {
    let (mut parts, body) = std::mem::take(request).into_parts();
    let parameters = match RawPathParams::from_request_parts(&mut parts, &()).await {
        Ok(parameters) => parameters.iter().map(|(_, value)| value.to_owned()).collect(),
        Err(_) => Vec::new(),
    };
    *request = Request::from_parts(parts, body);
    parameters
}

/// Whether a method changes nothing.
fn is_read(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

fn repeats_csrf(headers: &HeaderMap, session: &OpenSession) -> bool {
    let sent = headers.get(CSRF).and_then(|value| value.to_str().ok()).unwrap_or_default();
    SecretDigest::of(sent).matches(&SecretDigest::of(&session.csrf))
}
