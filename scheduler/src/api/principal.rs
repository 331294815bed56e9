//! The caller of a request. Handlers know callers only by their [`Principal`].

use std::collections::BTreeSet;
use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use goalmill_common::id::{Namespace, is_id};
use goalmill_common::problem::{ErrorCode, Problem};

use super::response::ApiError;

/// The actor of a request that names none.
const ANONYMOUS: &str = "api";

/// What a caller may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Role {
    Viewer,
    Submitter,
    Approver,
    Operator,
    Admin,
}

/// Who makes a request, in which roles, for which namespace.
///
/// The default is the anonymous caller of an API without authentication: it has all roles, acts in the namespace
/// `default`, and may give itself a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Principal {
    pub(crate) actor: String,
    pub(crate) roles: BTreeSet<Role>,
    pub(crate) namespace: Namespace,
}

impl Default for Principal {
    fn default() -> Self {
        let roles = [Role::Viewer, Role::Submitter, Role::Approver, Role::Operator, Role::Admin];
        Self { actor: ANONYMOUS.into(), roles: roles.into(), namespace: Namespace::default() }
    }
}

impl Principal {
    /// The actor of a request whose body has the field `actor`; empty if it has none.
    pub(super) fn actor_named(&self, name: &str) -> Result<String, ApiError> {
        match name {
            "" => Ok(self.actor.clone()),
            name if is_id(name) => Ok(name.into()),
            _ => Err(Problem::new(ErrorCode::InvalidRequest, "`actor` must be an id, such as `cli:ann`").into()),
        }
    }
}

/// The principal that a layer of the router has put into the request's extensions; else the anonymous one.
impl<S: Sync> FromRequestParts<S> for Principal {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get::<Self>().cloned().unwrap_or_default())
    }
}
