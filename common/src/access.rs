//! Access to the API: roles, tokens and sessions as they are sent and served.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::id::{ID_PATTERN, Namespace};
use crate::word_enum::word_enum;

word_enum! {
    /// What a caller of the API may do. `docs/access.md` lists the routes of each: `submitter`, `approver` and `operator`
    /// may read what a `viewer` reads, and `admin` includes all.
    Role {
        /// May read everything but tokens.
        Viewer = "viewer",
        /// May submit goals and plans, preview and check them, and pause, resume, cancel and replan plans.
        Submitter = "submitter",
        /// May approve, reject, answer and edit.
        Approver = "approver",
        /// May edit plans and control steps, queues, workers, dead letters and agent types.
        Operator = "operator",
        /// May do everything, and manages tokens.
        Admin = "admin",
        /// May only read the numbers for autoscalers.
        Scaler = "scaler",
    }
}

/// Stands for all namespaces in the scope of a token.
pub const ALL_NAMESPACES: &str = "*";

fn default_scope() -> String {
    Namespace::default().to_string()
}

/// Longest time that a token may be valid, in milliseconds: ten years.
pub const TOKEN_TTL_MS_MAX: u64 = 10 * 366 * 86_400_000;

/// A token that is to be created.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewToken {
    /// The name of the caller in logs: an id such as `ann` or `ci:nightly`.
    #[schemars(regex(pattern = ID_PATTERN))]
    pub actor: String,
    /// At least one.
    #[schemars(with = "Vec<Role>", length(min = 1))]
    pub roles: BTreeSet<Role>,
    /// The namespace that the caller sees and changes, or `*` for all.
    #[schemars(regex(pattern = "^(\\*|[A-Za-z0-9][A-Za-z0-9._:-]{0,127})$"))]
    #[serde(default = "default_scope")]
    pub namespace: String,
    /// Milliseconds until the token expires; without it, the token is valid until it is revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 316_224_000_000_u64))]
    pub ttl_ms: Option<u64>,
}

/// A token, without its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct TokenView {
    /// The middle part of the token's text.
    pub id: String,
    /// The name of the caller in logs.
    pub actor: String,
    /// What the caller may do.
    pub roles: BTreeSet<Role>,
    /// The namespace that the caller sees and changes, or `*` for all.
    pub namespace: String,
    /// RFC 3339.
    pub created_at: String,
    /// RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// RFC 3339, at most a minute old.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used_at: Option<String>,
}

/// A token that was created, with its text.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct TokenCreated {
    /// The text of the token, for `Authorization: Bearer …`. It is stored nowhere, and served this once.
    pub token: String,
    /// The rest of it.
    #[serde(flatten)]
    pub view: TokenView,
}

impl fmt::Debug for TokenCreated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenCreated").field("view", &self.view).finish_non_exhaustive()
    }
}

/// How a caller is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AuthenticationKind {
    /// Not at all: the API has no authentication.
    None,
    /// By a token in the header `Authorization`.
    Token,
    /// By the cookie of a session.
    Session,
}

/// The caller of a request.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SessionView {
    /// The name of the caller in logs.
    pub actor: String,
    /// What the caller may do.
    pub roles: BTreeSet<Role>,
    /// The namespace that the caller sees and changes, or `*` for all.
    pub namespace: String,
    /// How the caller is known.
    pub authentication: AuthenticationKind,
    /// For the header `X-CSRF-Token` of requests that write with the cookie of a session; empty for other callers.
    pub csrf: String,
    /// When the session ends, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
}

impl fmt::Debug for SessionView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionView").field("actor", &self.actor).field("roles", &self.roles).finish_non_exhaustive()
    }
}

/// What signs in: a token.
#[derive(Clone, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SignIn {
    /// The text of the token.
    pub token: String,
}

/// How people may sign in at the web page, besides with a token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SignInMethods {
    /// The identity provider, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<SignInProvider>,
}

/// An identity provider where people sign in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SignInProvider {
    /// Its name for people.
    pub name: String,
    /// The path that a browser goes to.
    pub start: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_token_is_not_in_debug_output() {
        let view = TokenView {
            id: "a".into(),
            actor: "ann".into(),
            roles: [Role::Viewer].into(),
            namespace: ALL_NAMESPACES.into(),
            created_at: String::new(),
            expires_at: None,
            last_used_at: None,
        };
        let created = TokenCreated { token: "gm_a_hush".into(), view };
        assert!(!format!("{created:?}").contains("hush"));
        assert_eq!(serde_json::to_value(&created).expect("it has a JSON form")["actor"], "ann");
    }

    #[test]
    fn a_new_token_has_known_fields_and_roles() {
        let parse = |text: &str| serde_json::from_str::<NewToken>(text);
        assert!(parse(r#"{"actor": "ann", "roles": ["viewer", "scaler"]}"#).is_ok());
        for bad in
            [r#"{"actor": "ann"}"#, r#"{"actor": "ann", "roles": ["root"]}"#, r#"{"actor": "a", "roles": [], "x": 1}"#]
        {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
