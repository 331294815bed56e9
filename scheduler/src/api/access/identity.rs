//! The identity of a caller by an identity provider, and the reasons of a failed sign-in.

use std::collections::BTreeSet;

use goalmill_common::access::Role;

/// A caller that a token names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::api) struct OidcIdentity {
    pub(in crate::api) actor: String,
    pub(in crate::api) roles: BTreeSet<Role>,
    /// A namespace, or `*` for all.
    pub(in crate::api) namespace: String,
    /// When the token expires, Unix milliseconds.
    pub(in crate::api) expires_ms: u64,
}

/// Why a sign-in failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::api) enum SignInFailure {
    /// The provider, or the person there, said no.
    Denied,
    /// The browser did not begin this sign-in, or too long ago.
    Expired,
    /// What the provider gave does not count.
    Invalid,
    /// The person has no role here.
    NoRole,
    /// The provider does not answer.
    Unavailable,
    /// The address has failed too often.
    Limited,
}

impl SignInFailure {
    /// The word in the address of the page.
    pub(in crate::api) fn word(self) -> &'static str {
        match self {
            Self::Denied => "denied",
            Self::Expired => "expired",
            Self::Invalid => "invalid",
            Self::NoRole => "no_role",
            Self::Unavailable => "unavailable",
            Self::Limited => "limited",
        }
    }
}
