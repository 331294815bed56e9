//! Tokens that the environment of the scheduler gives.

use std::collections::BTreeSet;

use goalmill_common::access::{ALL_NAMESPACES, Role};
use goalmill_common::config::{ApiSettings, environment};

use super::SignedIn;
use super::secret_digest::SecretDigest;
use crate::api::principal::Principal;

/// Characters of a token from the environment, at the least.
const ENVIRONMENT_CHARS_MIN: usize = 32;

/// A token of the settings, from an environment variable.
pub(crate) struct EnvironmentToken {
    /// Stands for the id of a token; no id of a token has its `:`.
    pub(super) id: &'static str,
    pub(super) sha256: SecretDigest,
    pub(super) actor: &'static str,
    pub(super) role: Role,
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
        tokens.push(EnvironmentToken { id, sha256: SecretDigest::from_secret(&value), actor, role });
    }
    Ok(tokens)
}

impl EnvironmentToken {
    pub(super) fn signed_in(&self) -> SignedIn {
        let principal = Principal::authenticated(self.actor.into(), BTreeSet::from([self.role]), ALL_NAMESPACES);
        SignedIn { token: self.id.into(), sha256: self.sha256.clone(), principal, expires_ms: None }
    }
}
