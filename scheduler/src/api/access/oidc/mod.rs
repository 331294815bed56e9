//! Access tokens of an identity provider (OpenID Connect).

mod claims;
mod code_flow;
mod issuer;
mod key_set;
mod signed_token;

use std::sync::Arc;

use goalmill_common::clock::Clock;
use goalmill_common::config::{OidcSettings, environment};
use goalmill_common::problem::{ErrorCode, Problem};
use serde_json::Value;
use tokio_util::task::TaskTracker;

use code_flow::{CodeFlow, ExchangeError};
use issuer::{Issuer, IssuerUnavailable};
use signed_token::SignedToken;

use super::identity::{OidcIdentity, SignInFailure};

/// Checks the access tokens of one issuer.
pub(crate) struct OidcVerifier {
    settings: OidcSettings,
    issuer: Arc<Issuer>,
    /// How people sign in at the page, if they can.
    flow: Option<CodeFlow>,
    clock: Clock,
    tasks: TaskTracker,
}

impl OidcVerifier {
    /// - `tasks`: where keys are read in the background.
    pub(crate) fn new(settings: &OidcSettings, clock: Clock, tasks: TaskTracker) -> Result<Self, String> {
        let issuer = Arc::new(Issuer::new(settings, clock.clone())?);
        let flow = match settings.client_id.as_str() {
            "" => None,
            _ => Some(CodeFlow::new(settings, client_secret(settings)?)?),
        };
        Ok(Self { settings: settings.clone(), issuer, flow, clock, tasks })
    }

    /// The name of the provider, if people can sign in there.
    pub(super) fn provider(&self) -> Option<&str> {
        self.flow.as_ref().map(|_| self.settings.provider_name.as_str())
    }

    /// The address of the page.
    pub(super) fn page_url(&self) -> String {
        format!("{}/", self.settings.public_url.trim_end_matches('/'))
    }

    /// Where a browser goes to sign in.
    ///
    /// - `word`: a secret that the browser keeps.
    pub(super) async fn authorization_url(&self, word: &str) -> Result<String, SignInFailure> {
        let flow = self.flow.as_ref().ok_or(SignInFailure::Unavailable)?;
        let endpoints = self.issuer.endpoints(&self.tasks).await.map_err(|_| SignInFailure::Unavailable)?;
        flow.authorization_url(&endpoints, word).ok_or(SignInFailure::Unavailable)
    }

    /// Whether a browser with this word began the sign-in with this state.
    pub(super) fn is_state(word: &str, state: &str) -> bool {
        CodeFlow::is_state(word, state)
    }

    /// The person whom the provider names for a code.
    pub(super) async fn exchange(&self, word: &str, code: &str) -> Result<OidcIdentity, SignInFailure> {
        let flow = self.flow.as_ref().ok_or(SignInFailure::Unavailable)?;
        let endpoints = self.issuer.endpoints(&self.tasks).await.map_err(|_| SignInFailure::Unavailable)?;
        let tokens = flow.exchange(&endpoints, word, code).await.map_err(|error| {
            let (why, failure) = match error {
                ExchangeError::Unavailable(why) => (why, SignInFailure::Unavailable),
                ExchangeError::Refused(why) => (why, SignInFailure::Invalid),
            };
            tracing::warn!("the identity provider did not exchange a code: {why}");
            failure
        })?;
        let claims = self.signed_claims(&tokens.id_token).await.map_err(|_| SignInFailure::Unavailable)?;
        let claims = claims.filter(|claims| flow.is_answer(claims, word)).ok_or(SignInFailure::Invalid)?;
        let meant = [flow.client_id().to_owned()];
        let now_ms = self.clock.now_ms();
        let mut person = claims::identity(&claims, &self.settings, &meant, now_ms).ok_or(SignInFailure::Invalid)?;
        // Some providers put groups into access tokens only.
        if let (true, Some(access)) = (person.roles.is_empty(), &tokens.access_token)
            && let Ok(Some(same)) = self.verify(access).await
            && same.actor == person.actor
        {
            (person.roles, person.namespace) = (same.roles, same.namespace);
        }
        Ok(person)
    }

    /// The claims of a token that the issuer has signed.
    async fn signed_claims(&self, text: &str) -> Result<Option<Value>, IssuerUnavailable> {
        match SignedToken::parse(text) {
            Some(token) if self.settings.algorithms.contains(&token.algorithm) => {
                self.issuer.verify(&token, &self.tasks).await
            }
            Some(_) | None => Ok(None),
        }
    }

    /// The caller that a valid access token names.
    pub(super) async fn verify(&self, text: &str) -> Result<Option<OidcIdentity>, Problem> {
        let claims = self.signed_claims(text).await.map_err(|IssuerUnavailable| {
            Problem::new(
                ErrorCode::IssuerUnavailable,
                "the keys of the identity provider cannot be read; try again later",
            )
        })?;
        let now_ms = self.clock.now_ms();
        Ok(claims.and_then(|claims| claims::identity(&claims, &self.settings, &self.settings.audiences, now_ms)))
    }
}

/// The secret of the page at the provider. An error does not have it.
fn client_secret(settings: &OidcSettings) -> Result<Option<String>, String> {
    let name = &settings.client_secret_env;
    if name.is_empty() {
        return Ok(None);
    }
    let missing =
        || format!("`api.oidc.client_secret_env` names the environment variable `{name}`, which is not set: set it");
    environment(name).map(Some).ok_or_else(missing)
}
