//! The caller of a request. Handlers know callers only by their [`Principal`].

use std::collections::BTreeSet;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use goalmill_common::access::Role;
use goalmill_common::id::{Namespace, is_id};
use goalmill_common::problem::{ErrorCode, Problem};

use super::response::ApiError;

/// The actor of a request that names none.
const ANONYMOUS: &str = "api";

/// Who makes a request, in which roles, for which namespace.
///
/// The default is the anonymous caller of an API without authentication: it has all roles, acts in the namespace
/// `default`, and may give itself a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Principal {
    pub(crate) actor: String,
    pub(crate) roles: BTreeSet<Role>,
    pub(crate) namespace: Namespace,
    /// Whether `actor` is that of credentials.
    pub(crate) is_authenticated: bool,
    /// The session that the request belongs to.
    pub(crate) session: Option<OpenSession>,
}

/// The session of a caller.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct OpenSession {
    /// The word in its cookie.
    pub(crate) word: String,
    pub(crate) csrf: String,
    /// Unix milliseconds.
    pub(crate) expires_ms: u64,
}

impl std::fmt::Debug for OpenSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenSession").field("expires_ms", &self.expires_ms).finish_non_exhaustive()
    }
}

impl Default for Principal {
    fn default() -> Self {
        Self {
            actor: ANONYMOUS.into(),
            roles: [Role::Viewer, Role::Submitter, Role::Approver, Role::Operator, Role::Admin].into(),
            namespace: Namespace::default(),
            is_authenticated: false,
            session: None,
        }
    }
}

impl Principal {
    /// A caller with valid credentials.
    pub(super) fn authenticated(actor: String, roles: BTreeSet<Role>) -> Self {
        Self { actor, roles, is_authenticated: true, ..Self::default() }
    }

    /// Refuses a caller that has none of these roles. `admin` includes all.
    pub(super) fn require(&self, roles: &[Role]) -> Result<(), ApiError> {
        if self.roles.contains(&Role::Admin) || roles.iter().any(|role| self.roles.contains(role)) {
            return Ok(());
        }
        let names: Vec<String> = roles.iter().map(|role| format!("`{role}`")).collect();
        let detail = format!("it needs the role {}", names.join(" or "));
        Err(Problem::new(ErrorCode::Forbidden, detail).into())
    }

    /// The actor of a request whose body has the field `actor`; empty if it has none. Only anonymous callers name
    /// themselves.
    pub(super) fn actor_named(&self, name: &str) -> Result<String, ApiError> {
        match name {
            _ if self.is_authenticated => Ok(self.actor.clone()),
            "" => Ok(self.actor.clone()),
            name if is_id(name) => Ok(name.into()),
            _ => Err(Problem::new(ErrorCode::InvalidRequest, "`actor` must be an id, such as `cli:ann`").into()),
        }
    }
}

/// The principal that the access guard has put into the request's extensions. A route without one is a bug, and its
/// requests fail.
impl<S: Sync> FromRequestParts<S> for Principal {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let unknown = || Problem::new(ErrorCode::Internal, "the caller of this request was not checked").into();
        parts.extensions.get::<Self>().cloned().ok_or_else(unknown)
    }
}
