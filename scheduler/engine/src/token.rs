//! Derives attempt tokens and the ids of sub-plans. None of them is stored.

use std::fmt;
use std::hash::Hasher;

use goalmill_common::event::GoalAccepted;
use goalmill_common::id::{AttemptToken, PlanId, ShardId, StepId, base32};
use serde::{Deserialize, Serialize};
use siphasher::sip128::{Hasher128, SipHasher24};

/// The key of an installation's attempt tokens. It is in no log: who reads the log of a plan learns no token.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenKey([u64; 2]);

impl fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenKey")
    }
}

impl TokenKey {
    /// Derives the key from a secret of at least 128 random bits.
    pub fn new(secret: &str) -> Self {
        let mut hasher = SipHasher24::new();
        hasher.write(secret.as_bytes());
        let hash = hasher.finish128();
        Self([hash.h1, hash.h2])
    }

    /// The token of one attempt, which other tokens do not reveal.
    pub(crate) fn token(self, plan: &GoalAccepted, step: &StepId, attempt: u32) -> AttemptToken {
        self.derive(plan, b"", step, attempt)
    }

    /// The token of the callback of one attempt. The token of the attempt does not reveal it.
    pub(crate) fn callback_token(self, plan: &GoalAccepted, step: &StepId, attempt: u32) -> AttemptToken {
        self.derive(plan, b"callback/", step, attempt)
    }

    /// The id of the sub-plan of one attempt: in the same shard and deterministic, so that
    /// starting it twice starts it once.
    pub(crate) fn sub_plan(parent: &PlanId, step: &StepId, attempt: u32) -> PlanId {
        PlanId::derive_in(parent.shard().unwrap_or(ShardId(0)), &format!("{parent}/{step}/{attempt}"))
    }

    /// A message authentication code of plan, purpose, step and attempt. A plan of an earlier version keeps the key in
    /// its log, because its attempts in flight have tokens of that key.
    ///
    /// - `purpose`: empty, or ends with `/`, which no id has.
    ///
    /// Source: J.-P. Aumasson, D. J. Bernstein, "SipHash: a fast short-input PRF", INDOCRYPT 2012
    /// (SipHash-2-4 with 128 bits of output).
    fn derive(self, plan: &GoalAccepted, purpose: &[u8], step: &StepId, attempt: u32) -> AttemptToken {
        let is_old = !plan.secret.is_empty();
        let Self([first, second]) = if is_old { Self::new(&plan.secret) } else { self };
        let mut hasher = SipHasher24::new_with_keys(first, second);
        if !is_old {
            hasher.write(plan.plan_id.as_str().as_bytes());
            hasher.write(b"/");
            hasher.write(plan.salt.as_bytes());
            hasher.write(b"/");
        }
        hasher.write(purpose);
        hasher.write(step.as_str().as_bytes());
        hasher.write(&attempt.to_le_bytes());
        base32(hasher.finish128().as_u128(), 26).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepted(salt: &str) -> GoalAccepted {
        let accepted = serde_json::json!({"plan_id": "p3-0000000000000000", "goal": {}, "submission": "s", "source": "t",
            "salt": salt, "deadline_ms": 1});
        serde_json::from_value(accepted).expect("a first event")
    }

    #[test]
    fn every_attempt_has_a_token_of_its_own() {
        let (key, plan) = (TokenKey::new("secret"), accepted("salt"));
        let (a, b): (StepId, StepId) = ("a".into(), "b".into());
        assert_eq!(key.token(&plan, &a, 1), TokenKey::new("secret").token(&plan, &a, 1));
        assert_ne!(key.token(&plan, &a, 1), key.token(&plan, &a, 2));
        assert_ne!(key.token(&plan, &a, 1), key.token(&plan, &b, 1));
        assert_ne!(key.token(&plan, &a, 1), key.token(&accepted("other"), &a, 1));
        assert_eq!(key.token(&plan, &a, 1).as_str().len(), 26);
        assert_ne!(key.callback_token(&plan, &a, 1), key.token(&plan, &a, 1));
        assert_ne!(key.callback_token(&plan, &a, 1), key.callback_token(&plan, &a, 2));
    }

    #[test]
    fn the_first_event_does_not_determine_a_token() {
        let (key, other, plan, a) = (TokenKey::new("secret"), TokenKey::new("other"), accepted("salt"), "a".into());
        assert_ne!(key.token(&plan, &a, 1), other.token(&plan, &a, 1));
        assert_ne!(key.callback_token(&plan, &a, 1), other.callback_token(&plan, &a, 1));
        assert!(!format!("{key:?}").contains(|c: char| c.is_ascii_digit()), "{key:?}");
    }

    #[test]
    fn a_plan_of_an_earlier_version_keeps_its_tokens() {
        let plan = GoalAccepted { secret: "secret".into(), ..accepted("") };
        for key in [TokenKey::new("one"), TokenKey::new("another")] {
            assert_eq!(key.token(&plan, &"a".into(), 1).as_str(), "4tpfhpanjk12asbms1ftcekz3q");
            assert_eq!(key.callback_token(&plan, &"a".into(), 1).as_str(), "4fmdgsytspgax1fhs07nkdpxjm");
        }
    }

    #[test]
    fn a_sub_plan_lives_in_its_parents_shard() {
        let id = TokenKey::sub_plan(&"p3-0000000000000000".into(), &"a".into(), 1);
        assert_eq!(id.shard(), Some(ShardId(3)));
        assert_eq!(id, TokenKey::sub_plan(&"p3-0000000000000000".into(), &"a".into(), 1));
        assert_ne!(id, TokenKey::sub_plan(&"p3-0000000000000000".into(), &"a".into(), 2));
    }
}
