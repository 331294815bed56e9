//! Checks who sends a request, and whether the caller may: each route names the roles that it needs.

mod asked_route;
mod credentials;
mod environment_token;
mod failure_limit;
mod identity;
mod oidc;
mod refusal;
mod secret_digest;
mod session_store;
mod token_store;

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use goalmill_broker::BrokerError;
use goalmill_common::clock::Clock;
use goalmill_common::config::Authentication;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::namespaces;
use super::openapi::RouteAccess;
use super::principal::{OpenSession, Principal};
use super::serve::Peer;
use crate::plan_reader::PlanReader;
use crate::scheduler::Scheduler;

use asked_route::{AskedAccess, AskedRoute, is_read};
use credentials::Credentials;
pub(super) use credentials::cookie_value;
use environment_token::EnvironmentToken;
pub(crate) use environment_token::environment_tokens;
use failure_limit::FailureLimit;
use identity::OidcIdentity;
pub(super) use identity::SignInFailure;
pub(crate) use oidc::OidcVerifier;
pub(super) use refusal::AccessRefusal;
use secret_digest::SecretDigest;
use session_store::{SessionIdentity, SessionStore, StoredSession};
pub(super) use token_store::TOKENS_MAX;
use token_store::TokenStore;

const CSRF: &str = "x-csrf-token";
/// Stands for the id of a token of the identity provider; no id of a token has its `:`.
const OIDC_TOKEN: &str = "oidc:token";
/// Tokens of tasks that are looked up at the same time; each reads the log of a plan.
const LOOKUPS_MAX: usize = 16;

/// Who may call.
pub(crate) struct AccessGuard {
    is_required: bool,
    environment: Vec<EnvironmentToken>,
    /// The identity provider, if there is one.
    oidc: Option<OidcVerifier>,
    pub(super) tokens: TokenStore,
    pub(super) sessions: SessionStore,
    failures: FailureLimit,
    /// Counts wrong tokens of tasks, which shut their address out of callbacks only.
    secret_failures: FailureLimit,
    /// Permits of requests whose token of a task is being looked up.
    lookups: Semaphore,
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

/// A caller whose token is valid.
pub(super) struct SignedIn {
    /// The token's id.
    pub(super) token: String,
    pub(super) sha256: SecretDigest,
    pub(super) principal: Principal,
    /// When a token that no store has expires, Unix milliseconds.
    pub(super) expires_ms: Option<u64>,
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
            secret_failures: FailureLimit::new(settings.failures_per_minute),
            lookups: Semaphore::new(LOOKUPS_MAX),
            plans: scheduler.plans.clone(),
            clock: clock.clone(),
        }
    }

    /// Whether callers need credentials.
    pub(super) fn is_required(&self) -> bool {
        self.is_required
    }

    /// Warns of an API without callers.
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
        Ok(SignedIn { token: OIDC_TOKEN.into(), sha256: SecretDigest::from_secret(code), principal, expires_ms: None })
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

    /// Waits for a place to look up a secret of another kind than the tokens of callers.
    pub(super) async fn begin_lookup(&self, peer: IpAddr) -> Result<SemaphorePermit<'_>, AccessRefusal> {
        let permit = self.lookups.acquire().await.expect("the semaphore is never closed");
        self.secret_failures.check_address(peer, self.clock.now_ms())?;
        Ok(permit)
    }

    /// Checks such a secret; failures count, apart from those of callers' tokens.
    ///
    /// - `expected`: the right one; none if there is nothing that the secret could be for.
    pub(super) fn is_secret(&self, peer: IpAddr, expected: Option<&str>, given: &str) -> bool {
        let given = SecretDigest::from_secret(given);
        let is_right = expected.is_some_and(|expected| SecretDigest::from_secret(expected).matches(&given));
        if !is_right {
            self.secret_failures.record(peer, self.clock.now_ms());
            metrics::counter!("goalmill_http_sign_in_failures_total").increment(1);
        }
        is_right
    }

    fn check_limit(&self, peer: IpAddr) -> Result<(), AccessRefusal> {
        self.failures.check_address(peer, self.clock.now_ms())
    }

    async fn find_token(&self, text: &str) -> Result<Option<SignedIn>, AccessRefusal> {
        let sha256 = SecretDigest::from_secret(text);
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
            // Without an identity provider in the settings, it is no longer valid.
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
        let asked = AskedRoute::from_request(&mut request).await;
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
        asked.access.check_principal(&principal)?;
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

fn repeats_csrf(headers: &HeaderMap, session: &OpenSession) -> bool {
    let sent = headers.get(CSRF).and_then(|value| value.to_str().ok()).unwrap_or_default();
    SecretDigest::from_secret(sent).matches(&SecretDigest::from_secret(&session.csrf))
}
