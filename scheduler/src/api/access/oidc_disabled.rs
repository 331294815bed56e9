//! Stands in for the access tokens of an identity provider in builds without the feature `oidc`.

#![expect(clippy::unused_async, reason = "functions of the module that it stands in for")]

use goalmill_common::clock::Clock;
use goalmill_common::config::{Feature, OidcSettings};
use goalmill_common::problem::Problem;
use tokio_util::task::TaskTracker;

use super::identity::{OidcIdentity, SignInFailure};

/// There is none.
pub(crate) enum OidcVerifier {}

impl OidcVerifier {
    pub(crate) fn new(_: &OidcSettings, _: Clock, _: TaskTracker) -> Result<Self, String> {
        Err(Feature::Oidc.missing("api.oidc.issuer").to_string())
    }

    pub(super) fn provider(&self) -> Option<&str> {
        match *self {}
    }

    pub(super) fn page_url(&self) -> String {
        match *self {}
    }

    pub(super) async fn authorization_url(&self, _: &str) -> Result<String, SignInFailure> {
        match *self {}
    }

    pub(super) fn is_state(_: &str, _: &str) -> bool {
        false
    }

    pub(super) async fn exchange(&self, _: &str, _: &str) -> Result<OidcIdentity, SignInFailure> {
        Err(SignInFailure::Invalid)
    }

    pub(super) async fn verify(&self, _: &str) -> Result<Option<OidcIdentity>, Problem> {
        match *self {}
    }
}
