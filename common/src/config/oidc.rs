//! Settings of OpenID Connect: whose access tokens the API accepts, and what their claims mean.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::access::{ALL_NAMESPACES, Role};
use crate::id::is_id;

/// How a token may be signed: with a private key only. `none` and the symmetric algorithms (`HS256` …) do not exist here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[expect(missing_docs, reason = "the names are those of RFC 7518 and RFC 8037")]
pub enum SignatureAlgorithm {
    #[serde(rename = "RS256")]
    Rs256,
    #[serde(rename = "RS384")]
    Rs384,
    #[serde(rename = "RS512")]
    Rs512,
    #[serde(rename = "PS256")]
    Ps256,
    #[serde(rename = "PS384")]
    Ps384,
    #[serde(rename = "PS512")]
    Ps512,
    #[serde(rename = "ES256")]
    Es256,
    #[serde(rename = "ES384")]
    Es384,
    #[serde(rename = "EdDSA")]
    EdDsa,
}

/// An identity provider (OpenID Connect) whose access tokens the API accepts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct OidcSettings {
    /// The issuer, as its tokens name it: `https://login.example/realms/team`. Empty: none.
    pub issuer: String,
    /// A token must be meant for one of these (`aud`).
    pub audiences: Vec<String>,
    /// How tokens may be signed.
    pub algorithms: Vec<SignatureAlgorithm>,
    /// The claim that names the caller in logs, behind `oidc:`.
    pub actor_claim: String,
    /// The claim with the groups or roles of the caller: its name, or a JSON Pointer (`/realm_access/roles`). A list of
    /// texts, or words in one text.
    pub roles_claim: String,
    /// What gives a role: values of that claim. Who has none of them may do nothing.
    pub roles: BTreeMap<Role, Vec<String>>,
    /// The claim that says the namespace of the caller, as `roles_claim` does; empty: that one.
    pub namespaces_claim: String,
    /// What gives a namespace, or `*` for all of them: values of that claim. Of several, `*` counts, else the first by its
    /// name. Who has none may do nothing; without this table everyone is in `default`.
    pub namespaces: BTreeMap<String, Vec<String>>,
    /// Milliseconds by which the clocks of issuer and scheduler may differ.
    pub clock_skew_ms: u64,
    /// Milliseconds after which the keys of the issuer are read again.
    pub refresh_ms: u64,
    /// Milliseconds between attempts to read the keys: a token with an unknown key has them read, but not more often.
    pub refetch_ms: u64,
    /// Milliseconds for which keys count while the issuer cannot be reached.
    pub keys_ms: u64,
    /// Milliseconds that the issuer has to answer.
    pub timeout_ms: u64,
    /// The client that the web page is at the provider: people sign in there. Empty: the page takes tokens only.
    pub client_id: String,
    /// The environment variable that holds the secret of this client; empty for a public client.
    pub client_secret_env: String,
    /// The address of the page in browsers (`https://goalmill.example`). The provider must know
    /// `/v1/session/oidc/callback` below it.
    pub public_url: String,
    /// The name of the provider on the button of the page.
    pub provider_name: String,
    /// What the page asks the provider for; with `openid`.
    pub scopes: Vec<String>,
}

impl Default for OidcSettings {
    fn default() -> Self {
        use SignatureAlgorithm::{EdDsa, Es256, Ps256, Rs256};
        Self {
            issuer: String::new(),
            audiences: Vec::new(),
            algorithms: vec![Rs256, Ps256, Es256, EdDsa],
            actor_claim: "sub".into(),
            roles_claim: "roles".into(),
            roles: BTreeMap::new(),
            namespaces_claim: String::new(),
            namespaces: BTreeMap::new(),
            clock_skew_ms: 60_000,
            refresh_ms: 600_000,
            refetch_ms: 10_000,
            keys_ms: 24 * 3_600_000,
            timeout_ms: 5_000,
            client_id: String::new(),
            client_secret_env: String::new(),
            public_url: String::new(),
            provider_name: "single sign-on".into(),
            scopes: vec!["openid".into(), "profile".into()],
        }
    }
}

impl OidcSettings {
    /// Whether there is an identity provider.
    pub fn is_on(&self) -> bool {
        !self.issuer.is_empty()
    }
}

/// Whether no third party can read or change what is sent to this address: HTTPS, or a loopback address.
pub fn is_private_url(url: &str) -> bool {
    if let Some(rest) = url.strip_prefix("https://") {
        return !rest.is_empty() && !rest.starts_with('/');
    }
    let Some(rest) = url.strip_prefix("http://") else { return false };
    let place = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = match place.strip_prefix('[') {
        Some(bracketed) => bracketed.split(']').next().unwrap_or_default(),
        None => place.split(':').next().unwrap_or_default(),
    };
    !place.contains('@') && (host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback()))
}

/// Every relation that does not hold, as sentences.
pub(super) fn violations(settings: &OidcSettings) -> Vec<String> {
    if !settings.is_on() {
        return Vec::new();
    }
    let checks = [
        (is_private_url(&settings.issuer), "`api.oidc.issuer` must begin with `https://`, or be on a loopback address"),
        (!settings.audiences.is_empty(), "`api.oidc.audiences` must name what tokens are meant for (`aud`)"),
        (
            settings.audiences.iter().all(|audience| !audience.is_empty()),
            "`api.oidc.audiences` must not be empty texts",
        ),
        (!settings.algorithms.is_empty(), "`api.oidc.algorithms` must name at least one algorithm"),
        (!settings.actor_claim.is_empty(), "`api.oidc.actor_claim` must name a claim"),
        (!settings.roles_claim.is_empty(), "`api.oidc.roles_claim` must name a claim"),
        (
            settings.roles.values().any(|values| !values.is_empty()),
            "`api.oidc.roles` must say which values of the claim give a role",
        ),
        (
            settings.namespaces.keys().all(|name| name == ALL_NAMESPACES || is_id(name)),
            "`api.oidc.namespaces` must have names of namespaces, or `*`",
        ),
        (settings.refresh_ms > 0 && settings.refetch_ms > 0, "`api.oidc.refresh_ms` and `refetch_ms` must be over 0"),
        (settings.refresh_ms <= settings.keys_ms, "`api.oidc.refresh_ms <= api.oidc.keys_ms` must hold"),
        (
            settings.client_id.is_empty() || is_private_url(&settings.public_url),
            "`api.oidc.client_id` needs `api.oidc.public_url`, the address of the page, which begins with `https://`",
        ),
        (
            settings.client_id.is_empty() || settings.scopes.iter().any(|scope| scope == "openid"),
            "`api.oidc.scopes` must have `openid`",
        ),
        (settings.timeout_ms > 0, "`api.oidc.timeout_ms > 0` must hold"),
    ];
    checks.iter().filter(|(holds, _)| !holds).map(|(_, text)| (*text).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> OidcSettings {
        OidcSettings {
            issuer: "https://login.example".into(),
            audiences: vec!["goalmill".into()],
            roles: [(Role::Viewer, vec!["team".into()])].into(),
            ..OidcSettings::default()
        }
    }

    #[test]
    fn an_issuer_needs_an_audience_and_roles() {
        assert_eq!(violations(&OidcSettings::default()), Vec::<String>::new());
        assert_eq!(violations(&settings()), Vec::<String>::new());
        for wrong in [
            OidcSettings { issuer: "http://login.example".into(), ..settings() },
            OidcSettings { audiences: Vec::new(), ..settings() },
            OidcSettings { audiences: vec![String::new()], ..settings() },
            OidcSettings { algorithms: Vec::new(), ..settings() },
            OidcSettings { roles: BTreeMap::new(), ..settings() },
            OidcSettings { keys_ms: 1, ..settings() },
            OidcSettings { namespaces: [("a b".to_owned(), Vec::new())].into(), ..settings() },
            OidcSettings { client_id: "page".into(), ..settings() },
            OidcSettings { client_id: "page".into(), public_url: "http://goalmill.example".into(), ..settings() },
            OidcSettings { client_id: "page".into(), public_url: "https://a".into(), scopes: Vec::new(), ..settings() },
        ] {
            assert_eq!(violations(&wrong).len(), 1, "{wrong:?}");
        }
    }

    #[test]
    fn symmetric_algorithms_and_none_do_not_exist() {
        for name in ["none", "None", "HS256", "HS384", "HS512", "rs256", ""] {
            assert!(serde_json::from_value::<SignatureAlgorithm>(name.into()).is_err(), "{name}");
        }
    }

    #[test]
    fn only_https_and_loopback_addresses_are_private() {
        for url in
            ["https://a", "http://127.0.0.1:8080/x", "http://[::1]:1", "http://localhost", "http://localhost:1/a"]
        {
            assert!(is_private_url(url), "{url}");
        }
        for url in [
            "http://a",
            "http://127.0.0.1.evil.example",
            "http://localhost@evil.example",
            "ftp://localhost",
            "https://",
        ] {
            assert!(!is_private_url(url), "{url}");
        }
    }
}
