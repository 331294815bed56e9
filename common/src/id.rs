//! Names of things: plans, steps, attempts, workers, shards.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize};

/// Longest id accepted from outside, in characters.
pub const ID_CHARS_MAX: usize = 128;

/// What [`is_id`] takes, as a regular expression for schemas.
pub const ID_PATTERN: &str = "^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$";

/// Says whether `text` may be an id: a letter or digit, then up to 127 of letters, digits, `.`, `_`, `:`, `-`.
pub fn is_id(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphanumeric())
        && text.len() <= ID_CHARS_MAX
        && bytes.all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b':' | b'-'))
}

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, schemars::JsonSchema)]
        #[serde(transparent)]
        pub struct $name(#[schemars(with = "String")] Arc<str>);

        impl $name {
            /// The id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "`{}`", self.0)
            }
        }
        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.into())
            }
        }
        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(text.into())
            }
        }
        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_str(SharedText).map(Self)
            }
        }
    };
}

/// Reads a text where it lies, without a copy in between.
struct SharedText;

impl Visitor<'_> for SharedText {
    type Value = Arc<str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E>(self, text: &str) -> Result<Arc<str>, E> {
        Ok(text.into())
    }
}

text_id! {
    /// A plan: `p<shard>-` and 16 characters derived from the submission's id.
    PlanId
}
text_id! {
    /// A share of an installation whose plans other namespaces do not see; matches [`is_id`].
    Namespace
}
text_id! {
    /// A step, unique in its plan; matches [`is_id`].
    StepId
}
text_id! {
    /// Who can do a step: the name of a queue that workers pull from; matches [`is_id`].
    AgentType
}
text_id! {
    /// One worker process; its consumer name in every group.
    WorkerId
}
text_id! {
    /// An unguessable word that names one attempt; a report must echo it.
    AttemptToken
}
text_id! {
    /// A stream entry's id, as the broker spells it (`<ms>-<n>`).
    EntryId
}

/// The agent type that asks the router to choose.
pub const AUTO: &str = "auto";

impl AgentType {
    /// Whether the step asks the router to choose: `auto`, or `TBD` as other formats spell it.
    pub fn is_auto(&self) -> bool {
        matches!(self.as_str(), AUTO | "TBD" | "tbd")
    }

    /// Whether no agent type is named: the step asks the router, or says nothing.
    pub fn is_open(&self) -> bool {
        self.as_str().is_empty() || self.is_auto()
    }
}

impl EntryId {
    /// The place before the first entry of a stream.
    pub fn start() -> Self {
        "0-0".into()
    }

    /// Milliseconds and counter, for comparing; ids that are no numbers sort first.
    pub fn parts(&self) -> (u64, u64) {
        let (ms, n) = self.0.split_once('-').unwrap_or((&self.0, "0"));
        (ms.parse().unwrap_or(0), n.parse().unwrap_or(0))
    }
}

/// A share of all plans, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(transparent)]
pub struct ShardId(pub u16);

impl fmt::Display for ShardId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Crockford's base 32 in lower case: no letters that look like digits.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// Writes the low `chars * 5` bits of `value` in base 32.
pub fn base32(value: u128, chars: usize) -> String {
    let digit = |i| char::from(ALPHABET[usize::try_from((value >> (5 * i)) & 31).expect("five bits fit")]);
    let mut text = String::with_capacity(chars);
    text.extend((0..chars).rev().map(digit));
    text
}

/// Where FNV-1a with 128 bits begins.
pub(crate) const FNV_BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;

/// One step of FNV-1a with 128 bits.
pub(crate) fn fnv(hash: u128, byte: u8) -> u128 {
    const PRIME: u128 = 0x0100_0000_0000_0000_0000_013b;
    (hash ^ u128::from(byte)).wrapping_mul(PRIME)
}

/// The namespace of those that name none.
pub const DEFAULT_NAMESPACE: &str = "default";

impl Default for Namespace {
    fn default() -> Self {
        Self::from(DEFAULT_NAMESPACE)
    }
}

impl Namespace {
    /// Whether it is the namespace of those that name none.
    pub fn is_default(&self) -> bool {
        self.as_str() == DEFAULT_NAMESPACE
    }

    /// A submission id that no other namespace has: `submission` itself in the namespace `default`, else
    /// `<namespace>/<submission>`, which is no [id](is_id) of a caller.
    pub fn qualify(&self, submission: &str) -> String {
        if *self == Self::default() { submission.to_owned() } else { format!("{self}/{submission}") }
    }
}

impl PlanId {
    /// The id of the plan of a submission. The same namespace and submission id always give the same plan, which makes
    /// a submission idempotent. The shard derives from them too.
    pub fn derive(shards: u16, namespace: &Namespace, submission: &str) -> Self {
        let text = namespace.qualify(submission);
        Self::derive_in(shard_of(&text, shards), &text)
    }

    /// The id that derives from `text`, in a given shard.
    ///
    /// FNV-1a, 128 bit, of which 80 are kept: two of a billion plans share an id with a chance of 1 in 2.4 million.
    pub fn derive_in(shard: ShardId, text: &str) -> Self {
        let hash = text.bytes().fold(FNV_BASIS, fnv);
        format!("p{shard}-{}", base32(hash ^ (hash >> 64), 16)).into()
    }

    /// The shard the id carries; `None` when it is no plan id.
    pub fn shard(&self) -> Option<ShardId> {
        let (shard, rest) = self.0.strip_prefix('p')?.split_once('-')?;
        (!rest.is_empty() && is_id(&self.0)).then_some(())?;
        shard.parse().ok().map(ShardId)
    }
}

/// The shard for `text`, the same for the same text: FNV-1a, 64 bit, modulo `shards`.
///
/// Source: Fowler, Noll, Vo, "The FNV Non-Cryptographic Hash Algorithm", IETF draft 2012.
pub fn shard_of(text: &str, shards: u16) -> ShardId {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
    ShardId(u16::try_from(hash % u64::from(shards.max(1))).expect("a remainder of a u16 fits"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_id_carries_its_shard_and_repeats() {
        let id = PlanId::derive_in(ShardId(12), "req-1");
        assert_eq!(id.shard(), Some(ShardId(12)));
        assert_eq!(id, PlanId::derive_in(ShardId(12), "req-1"));
        assert_ne!(id, PlanId::derive_in(ShardId(12), "req-2"));
        assert_eq!(id.as_str().len(), "p12-".len() + 16);
        let (default, other) = (Namespace::default(), Namespace::from("other"));
        assert_eq!(PlanId::derive(4, &default, "req-1"), PlanId::derive_in(shard_of("req-1", 4), "req-1"));
        assert_ne!(PlanId::derive(4, &other, "req-1"), PlanId::derive(4, &default, "req-1"));
    }

    #[test]
    fn what_is_no_plan_id_has_no_shard() {
        for text in ["", "p", "p1", "p1-", "q1-abc", "p70000-abc", "p1-a b"] {
            assert_eq!(PlanId::from(text).shard(), None, "{text}");
        }
    }

    #[test]
    fn ids_have_a_closed_alphabet() {
        assert!(is_id("a") && is_id("Step-1.b_c:d") && is_id(&"x".repeat(128)));
        assert!(!is_id("") && !is_id("-a") && !is_id("a b") && !is_id("ä") && !is_id(&"x".repeat(129)));
    }
}
