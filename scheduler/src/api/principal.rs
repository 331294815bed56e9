//! The caller of a request. Handlers know callers only by their [`Principal`].

use std::collections::BTreeSet;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use goalmill_common::access::{ALL_NAMESPACES, Role};
use goalmill_common::id::{Namespace, is_id};
use goalmill_common::problem::{ErrorCode, Problem};

use super::response::{ApiError, shown};
use crate::stored_plans::PlanScope;

/// The actor of a request that names none.
const ANONYMOUS: &str = "api";

/// What actors of identity providers, tokens and hooks begin with.
const RESERVED_PREFIXES: [&str; 5] = ["oidc:", "token:", "hook:", "environment:", "system:"];
/// Actors of the engine and of requests without a name.
const RESERVED_NAMES: [&str; 5] = ["engine", "timer", "oidc", "system", ANONYMOUS];

/// Whether callers and tokens may not have this name, because it is that of somebody else in the log.
pub(super) fn is_reserved(actor: &str) -> bool {
    let actor = actor.to_lowercase();
    RESERVED_NAMES.contains(&actor.as_str()) || RESERVED_PREFIXES.iter().any(|prefix| actor.starts_with(prefix))
}

/// Who makes a request, in which roles, for which namespace.
///
/// The default is the anonymous caller of an API without authentication: it has all roles, acts in the namespace
/// `default`, and may give itself a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Principal {
    pub(crate) actor: String,
    pub(crate) roles: BTreeSet<Role>,
    /// The namespace that the caller's submissions belong to.
    pub(crate) namespace: Namespace,
    /// Whether the caller sees other namespaces, too.
    pub(crate) sees_all: bool,
    /// Whether the caller belongs to no namespace, and so may change what all of them share.
    pub(crate) is_unbound: bool,
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
            sees_all: true,
            is_unbound: true,
            is_authenticated: false,
            session: None,
        }
    }
}

impl Principal {
    /// A caller with valid credentials.
    ///
    /// - `scope`: a namespace, or `*` for all.
    pub(super) fn authenticated(actor: String, roles: BTreeSet<Role>, scope: &str) -> Self {
        let caller = Self { actor, roles, is_authenticated: true, ..Self::default() };
        match scope {
            ALL_NAMESPACES => caller,
            namespace => Self { namespace: namespace.into(), sees_all: false, is_unbound: false, ..caller },
        }
    }

    /// Limits the caller to a namespace, which must be its own if it belongs to one.
    pub(super) fn select(&mut self, namespace: Namespace) -> Result<(), ApiError> {
        if !self.is_unbound && namespace != self.namespace {
            return Err(self.foreign(&namespace));
        }
        (self.namespace, self.sees_all) = (namespace, false);
        Ok(())
    }

    /// Whether the caller sees plans of this namespace.
    pub(super) fn may_see(&self, namespace: &Namespace) -> bool {
        self.sees_all || self.namespace == *namespace
    }

    /// The namespace of a goal that the caller submits; `None` for `default`.
    ///
    /// - `named`: what the goal says.
    pub(super) fn place(&self, named: Option<Namespace>) -> Result<Option<Namespace>, ApiError> {
        let namespace = named.unwrap_or_else(|| self.namespace.clone());
        if !self.may_see(&namespace) {
            return Err(self.foreign(&namespace));
        }
        Ok(Some(namespace).filter(|namespace| !namespace.is_default()))
    }

    fn foreign(&self, namespace: &Namespace) -> ApiError {
        let (named, own) = (shown(namespace.as_str()), &self.namespace);
        let detail = format!("the request names the namespace `{named}`, and its caller acts in `{own}`");
        Problem::new(ErrorCode::Forbidden, detail).into()
    }

    /// Whose stored plans the caller's documents may use.
    pub(super) fn plan_scope(&self) -> PlanScope {
        PlanScope { namespace: self.namespace.clone(), sees_all: self.sees_all }
    }

    /// The scope, as it is shown: a namespace, or `*`.
    pub(super) fn scope(&self) -> String {
        if self.sees_all { ALL_NAMESPACES.into() } else { self.namespace.to_string() }
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
            "" | ANONYMOUS => Ok(self.actor.clone()),
            name if is_reserved(name) => {
                let detail =
                    format!("the name `{}` of `actor` is reserved; give another one, such as `cli:ann`", shown(name));
                Err(Problem::new(ErrorCode::InvalidRequest, detail).into())
            }
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
