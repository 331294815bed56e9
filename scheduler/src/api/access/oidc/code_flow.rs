//! Signing in at the identity provider: the authorisation code flow with PKCE (RFC 6749, RFC 7636, OpenID Connect Core).
//!
//! A cookie holds one random word. State, nonce and code verifier derive from it, so that nothing is stored here, and a
//! code is worth something only in the browser that began.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use goalmill_common::config::OidcSettings;
use goalmill_http::{BodyError, client_failure, read_body};
use reqwest::Url;
use ring::digest::{SHA256, digest};
use serde::Deserialize;
use serde_json::Value;
use subtle::ConstantTimeEq;

use super::issuer::IssuerEndpoints;
use crate::api::sign_in_paths::CALLBACK_PATH;

/// Bytes of the answer to a code at most.
const ANSWER_BYTES_MAX: usize = 256 << 10;
/// Characters of a provider's error code that are logged.
const ERROR_CHARS_MAX: usize = 64;

/// What the settings say about signing in.
pub(super) struct CodeFlow {
    client_id: String,
    client_secret: Option<String>,
    redirect_uri: String,
    scopes: String,
    http: reqwest::Client,
}

/// The secrets of one sign-in, which derive from the word in its cookie.
struct FlowSecrets<'a>(&'a str);

impl FlowSecrets<'_> {
    fn derive(&self, purpose: &str) -> String {
        URL_SAFE_NO_PAD.encode(digest(&SHA256, format!("goalmill sign-in {purpose}:{}", self.0).as_bytes()))
    }

    fn state(&self) -> String {
        self.derive("state")
    }

    fn nonce(&self) -> String {
        self.derive("nonce")
    }

    fn verifier(&self) -> String {
        self.derive("verifier")
    }
}

/// The tokens that a code is exchanged for.
#[derive(Deserialize)]
pub(super) struct ExchangedTokens {
    pub(super) id_token: String,
    #[serde(default)]
    pub(super) access_token: Option<String>,
}

/// Why a code was not exchanged; texts for the log, without code and secret.
#[derive(Debug)]
pub(super) enum ExchangeError {
    Unavailable(String),
    Refused(String),
}

impl CodeFlow {
    /// - `client_secret`: none for a public client.
    pub(super) fn new(settings: &OidcSettings, client_secret: Option<String>) -> Result<Self, String> {
        let builder = goalmill_http::any_client()
            .timeout(Duration::from_millis(settings.timeout_ms))
            .redirect(reqwest::redirect::Policy::none());
        let http = builder.build().map_err(|error| client_failure(&error))?;
        Ok(Self {
            client_id: settings.client_id.clone(),
            client_secret,
            redirect_uri: format!("{}{CALLBACK_PATH}", settings.public_url.trim_end_matches('/')),
            scopes: settings.scopes.join(" "),
            http,
        })
    }

    pub(super) fn client_id(&self) -> &str {
        &self.client_id
    }

    /// Where the browser is sent to sign in.
    ///
    /// - `word`: the word in its cookie.
    pub(super) fn authorization_url(&self, endpoints: &IssuerEndpoints, word: &str) -> Option<String> {
        let secrets = FlowSecrets(word);
        let challenge = URL_SAFE_NO_PAD.encode(digest(&SHA256, secrets.verifier().as_bytes()));
        let mut url = Url::parse(&endpoints.authorization).ok()?;
        url.query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", &self.client_id)
            .append_pair("redirect_uri", &self.redirect_uri)
            .append_pair("scope", &self.scopes)
            .append_pair("state", &secrets.state())
            .append_pair("nonce", &secrets.nonce())
            .append_pair("code_challenge", &challenge)
            .append_pair("code_challenge_method", "S256");
        Some(url.into())
    }

    /// Exchanges a code.
    pub(super) async fn exchange(
        &self,
        endpoints: &IssuerEndpoints,
        word: &str,
        code: &str,
    ) -> Result<ExchangedTokens, ExchangeError> {
        let verifier = FlowSecrets(word).verifier();
        let mut fields = vec![
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", &self.redirect_uri),
            ("code_verifier", &verifier),
            ("client_id", &self.client_id),
        ];
        let mut request = self.http.post(&endpoints.token).header("Accept", "application/json");
        if let Some(secret) = &self.client_secret {
            if endpoints.takes_basic {
                let pair = format!("{}:{}", form_encoded(&self.client_id), form_encoded(secret));
                request = request.header("Authorization", format!("Basic {}", STANDARD.encode(pair)));
            } else {
                fields.push(("client_secret", secret));
            }
        }
        let request = request.header("Content-Type", "application/x-www-form-urlencoded").body(form(&fields));
        let failed = |error: reqwest::Error| ExchangeError::Unavailable(client_failure(&error.without_url()));
        let response = request.send().await.map_err(failed)?;
        let status = response.status();
        let bytes = read_body(response, ANSWER_BYTES_MAX).await.map_err(|error| match error {
            BodyError::TooLarge(_) => ExchangeError::Refused(format!("the answer is too large: {error}")),
            BodyError::Failed(error) => failed(error),
        })?;
        if status.is_success() {
            // The text of the error could have parts of a token.
            return serde_json::from_slice(&bytes)
                .map_err(|_| ExchangeError::Refused("the answer has no `id_token`".into()));
        }
        let answer: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        let word = answer["error"].as_str().unwrap_or_default();
        let word: String =
            word.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '_').take(ERROR_CHARS_MAX).collect();
        let said = format!("the answer is {status} {word}");
        Err(if status.is_server_error() { ExchangeError::Unavailable(said) } else { ExchangeError::Refused(said) })
    }

    /// Whether the state that came back is that of the cookie.
    pub(super) fn is_state(word: &str, state: &str) -> bool {
        FlowSecrets(word).state().as_bytes().ct_eq(state.as_bytes()).into()
    }

    /// Whether an ID token answers this sign-in, and was made for this client.
    pub(super) fn is_answer(&self, claims: &Value, word: &str) -> bool {
        let nonce = claims["nonce"].as_str().unwrap_or_default();
        let is_fresh: bool = FlowSecrets(word).nonce().as_bytes().ct_eq(nonce.as_bytes()).into();
        let party = &claims["azp"];
        let is_own = if party.is_null() {
            claims["aud"].as_array().is_none_or(|all| all.len() <= 1)
        } else {
            *party == self.client_id.as_str()
        };
        is_fresh && is_own
    }
}

/// Fields as `application/x-www-form-urlencoded`.
fn form(fields: &[(&str, &str)]) -> String {
    let mut url = Url::parse("form:").expect("it is an address");
    url.query_pairs_mut().extend_pairs(fields);
    url.query().unwrap_or_default().to_owned()
}

fn form_encoded(text: &str) -> String {
    let encoded = form(&[("", text)]);
    encoded.strip_prefix('=').unwrap_or(&encoded).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_of_a_sign_in_differ_and_derive_from_its_word() {
        let (one, two) = (FlowSecrets("one"), FlowSecrets("two"));
        let all = [one.state(), one.nonce(), one.verifier(), two.state(), two.nonce(), two.verifier(), "one".into()];
        let distinct: std::collections::BTreeSet<&String> = all.iter().collect();
        assert_eq!(distinct.len(), all.len());
        assert!((43..=128).contains(&one.verifier().len()), "RFC 7636 asks for that");
        assert!(CodeFlow::is_state("one", &one.state()));
        assert!(!CodeFlow::is_state("two", &one.state()) && !CodeFlow::is_state("one", ""));
    }

    #[test]
    fn forms_are_encoded() {
        assert_eq!(form(&[("a", "x y&=ä"), ("b", "")]), "a=x+y%26%3D%C3%A4&b=");
        assert_eq!(form_encoded("a:b c"), "a%3Ab+c");
    }
}
