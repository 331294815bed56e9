//! Derives attempt tokens and the ids of sub-plans. None of them is stored.

use std::hash::Hasher;

use goalmill_common::id::{AttemptToken, PlanId, ShardId, StepId, base32};
use siphasher::sip128::{Hasher128, SipHasher24};

/// The key of a plan's attempt tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TokenKey([u64; 2]);

impl TokenKey {
    /// Derives the key from the plan's secret.
    pub(crate) fn new(secret: &str) -> Self {
        let mut hasher = SipHasher24::new();
        hasher.write(secret.as_bytes());
        let hash = hasher.finish128();
        Self([hash.h1, hash.h2])
    }

    /// The token of one attempt: a keyed pseudo-random function of step and attempt, which other tokens of the plan do
    /// not reveal.
    ///
    /// Source: J.-P. Aumasson, D. J. Bernstein, "SipHash: a fast short-input PRF", INDOCRYPT 2012
    /// (SipHash-2-4 with 128 bits of output).
    pub(crate) fn token(self, step: &StepId, attempt: u32) -> AttemptToken {
        base32(self.bits(b"", step, attempt), 26).into()
    }

    /// The token of the callback of one attempt. The token of the attempt does not reveal it.
    pub(crate) fn callback_token(self, step: &StepId, attempt: u32) -> AttemptToken {
        base32(self.bits(b"callback/", step, attempt), 26).into()
    }

    /// The id of the sub-plan of one attempt: in the same shard and deterministic, so that
    /// starting it twice starts it once.
    pub(crate) fn sub_plan(parent: &PlanId, step: &StepId, attempt: u32) -> PlanId {
        PlanId::derive_in(parent.shard().unwrap_or(ShardId(0)), &format!("{parent}/{step}/{attempt}"))
    }

    /// - `purpose`: ends with a character that no id has.
    fn bits(self, purpose: &[u8], step: &StepId, attempt: u32) -> u128 {
        let mut hasher = SipHasher24::new_with_keys(self.0[0], self.0[1]);
        hasher.write(purpose);
        hasher.write(step.as_str().as_bytes());
        hasher.write(&attempt.to_le_bytes());
        hasher.finish128().as_u128()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_attempt_has_a_token_of_its_own() {
        let key = TokenKey::new("secret");
        let (a, b): (StepId, StepId) = ("a".into(), "b".into());
        assert_eq!(key.token(&a, 1), TokenKey::new("secret").token(&a, 1));
        assert_ne!(key.token(&a, 1), key.token(&a, 2));
        assert_ne!(key.token(&a, 1), key.token(&b, 1));
        assert_ne!(key.token(&a, 1), TokenKey::new("other").token(&a, 1));
        assert_eq!(key.token(&a, 1).as_str().len(), 26);
        assert_ne!(key.callback_token(&a, 1), key.token(&a, 1));
        assert_ne!(key.callback_token(&a, 1), key.callback_token(&a, 2));
    }

    #[test]
    fn a_sub_plan_lives_in_its_parents_shard() {
        let id = TokenKey::sub_plan(&"p3-0000000000000000".into(), &"a".into(), 1);
        assert_eq!(id.shard(), Some(ShardId(3)));
        assert_eq!(id, TokenKey::sub_plan(&"p3-0000000000000000".into(), &"a".into(), 1));
        assert_ne!(id, TokenKey::sub_plan(&"p3-0000000000000000".into(), &"a".into(), 2));
    }
}
