//! The addresses between the page and the identity provider, where browsers need no sign-in, and the cookie of a session.

/// The name of the cookie of a session. Browsers send one with this prefix only over TLS, to the host that set it.
pub(super) const COOKIE: &str = "__Host-goalmill";
/// Where a browser begins to sign in.
pub(crate) const START_PATH: &str = "/v1/session/oidc/start";
/// Where the provider sends browsers back to, behind `api.oidc.public_url`.
pub(crate) const CALLBACK_PATH: &str = "/v1/session/oidc/callback";

/// Whether the router's path is one of these.
pub(super) fn is_sign_in(path: &str) -> bool {
    path == START_PATH || path == CALLBACK_PATH
}
