//! Tokens in the store: creation, listing, revocation, and the check of a token's text.
//!
//! A token is `gm_<id>_<secret>`. The store has the SHA-256 of the secret.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use goalmill_broker::{Broker, BrokerError};
use goalmill_common::access::{NewToken, Role, TokenCreated, TokenView};
use goalmill_common::clock::{Clock, rfc3339};
use goalmill_common::id::base32;
use goalmill_common::random::Random;
use serde::{Deserialize, Serialize};

use super::secret_digest::SecretDigest;

/// Tokens of an installation at most.
pub(crate) const TOKENS_MAX: usize = 10_000;
const PREFIX: &str = "gm_";
const ID_CHARS: usize = 12;
/// 260 bits, of which 256 are random.
const SECRET_CHARS: usize = 52;
/// The last use of a token is written at most so often by each scheduler.
const USE_MS: u64 = 60_000;

/// A token as it is stored.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct StoredToken {
    pub(crate) sha256: SecretDigest,
    pub(crate) actor: String,
    pub(crate) roles: BTreeSet<Role>,
    /// The namespace, or `*` for all.
    pub(crate) namespace: String,
    /// Unix milliseconds.
    pub(crate) created_ms: u64,
    /// Unix milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) expires_ms: Option<u64>,
}

impl StoredToken {
    fn is_expired(&self, now_ms: u64) -> bool {
        self.expires_ms.is_some_and(|at_ms| at_ms <= now_ms)
    }

    fn view(&self, id: &str, used_ms: Option<u64>) -> TokenView {
        TokenView {
            id: id.into(),
            actor: self.actor.clone(),
            roles: self.roles.clone(),
            namespace: self.namespace.clone(),
            created_at: rfc3339(self.created_ms),
            expires_at: self.expires_ms.map(rfc3339),
            last_used_at: used_ms.map(rfc3339),
        }
    }
}

/// The tokens of an installation.
pub(crate) struct TokenStore {
    broker: Arc<dyn Broker>,
    clock: Clock,
    random: Random,
    /// When this process wrote the last use of a token, Unix milliseconds.
    uses_ms: Mutex<BTreeMap<String, u64>>,
}

impl TokenStore {
    pub(crate) fn new(broker: Arc<dyn Broker>, clock: Clock, random: Random) -> Self {
        Self { broker, clock, random, uses_ms: Mutex::default() }
    }

    /// Creates a token; `None` if there are [`TOKENS_MAX`].
    pub(crate) async fn create(&self, new: NewToken) -> Result<Option<TokenCreated>, BrokerError> {
        let NewToken { actor, roles, namespace, ttl_ms } = new;
        let key = self.broker.keys().tokens();
        if self.broker.fields(&key).await?.len() >= TOKENS_MAX {
            return Ok(None);
        }
        let id = base32(u128::from(self.random.draw()), ID_CHARS);
        let secret = [self.random.token(), self.random.token()].concat();
        let created_ms = self.clock.now_ms();
        let expires_ms = ttl_ms.map(|ttl_ms| created_ms.saturating_add(ttl_ms));
        let stored =
            StoredToken { sha256: SecretDigest::from_secret(&secret), actor, roles, namespace, created_ms, expires_ms };
        let text = serde_json::to_string(&stored).expect("a token always has a JSON text");
        self.broker.put_field(&key, &id, &text).await?;
        Ok(Some(TokenCreated { token: format!("{PREFIX}{id}_{secret}"), view: stored.view(&id, None) }))
    }

    /// All tokens, the oldest first.
    pub(crate) async fn list(&self) -> Result<Vec<TokenView>, BrokerError> {
        let keys = self.broker.keys();
        let uses = self.broker.fields(&keys.tokens_used()).await?;
        let stored = self.broker.fields(&keys.tokens()).await?;
        let views = stored.iter().filter_map(|(id, text)| {
            let used_ms = uses.get(id).and_then(|ms| ms.parse().ok());
            Some(parse(id, text)?.view(id, used_ms))
        });
        let mut views: Vec<TokenView> = views.collect();
        views.sort_by(|a, b| (&a.created_at, &a.id).cmp(&(&b.created_at, &b.id)));
        Ok(views)
    }

    /// Revokes a token and returns it; `None` if it does not exist.
    pub(crate) async fn revoke(&self, id: &str) -> Result<Option<TokenView>, BrokerError> {
        let keys = self.broker.keys();
        let Some(text) = self.broker.get_field(&keys.tokens(), id).await? else { return Ok(None) };
        self.broker.remove_field(&keys.tokens(), id).await?;
        self.broker.remove_field(&keys.tokens_used(), id).await?;
        let unreadable = || StoredToken {
            sha256: SecretDigest::from_secret(""),
            actor: String::new(),
            roles: BTreeSet::new(),
            namespace: String::new(),
            created_ms: 0,
            expires_ms: None,
        };
        Ok(Some(parse(id, &text).unwrap_or_else(unreadable).view(id, None)))
    }

    pub(crate) async fn is_empty(&self) -> Result<bool, BrokerError> {
        Ok(self.broker.fields(&self.broker.keys().tokens()).await?.is_empty())
    }

    /// The valid token with this text, and its id.
    pub(crate) async fn verify(&self, text: &str) -> Result<Option<(String, StoredToken)>, BrokerError> {
        let Some((id, secret)) = parts(text) else { return Ok(None) };
        let token = self.find(id).await?.filter(|token| token.sha256.matches(&SecretDigest::from_secret(secret)));
        Ok(token.map(|token| (id.to_owned(), token)))
    }

    /// The token with this id, unless it has expired.
    pub(crate) async fn find(&self, id: &str) -> Result<Option<StoredToken>, BrokerError> {
        let Some(text) = self.broker.get_field(&self.broker.keys().tokens(), id).await? else { return Ok(None) };
        let now_ms = self.clock.now_ms();
        Ok(parse(id, &text).filter(|token| !token.is_expired(now_ms)))
    }

    /// Records that a token was used.
    pub(crate) async fn note_use(&self, id: &str) {
        let now_ms = self.clock.now_ms();
        {
            let mut uses_ms = self.uses_ms.lock().unwrap_or_else(PoisonError::into_inner);
            if uses_ms.get(id).is_some_and(|at_ms| now_ms < at_ms.saturating_add(USE_MS)) {
                return;
            }
            if uses_ms.len() >= TOKENS_MAX {
                uses_ms.clear();
            }
            uses_ms.insert(id.to_owned(), now_ms);
        }
        let keys = self.broker.keys();
        if let Err(error) = self.broker.put_field(&keys.tokens_used(), id, &now_ms.to_string()).await {
            tracing::debug!("the last use of token `{id}` was not recorded: {error}");
        }
    }
}

/// Id and secret of a token's text.
fn parts(text: &str) -> Option<(&str, &str)> {
    let (id, secret) = text.strip_prefix(PREFIX)?.split_once('_')?;
    let is_word = |word: &str, chars: usize| word.len() == chars && word.bytes().all(|b| b.is_ascii_alphanumeric());
    (is_word(id, ID_CHARS) && is_word(secret, SECRET_CHARS)).then_some((id, secret))
}

fn parse(id: &str, text: &str) -> Option<StoredToken> {
    let parsed = serde_json::from_str(text);
    parsed.inspect_err(|_| tracing::warn!("token `{id}` cannot be read and is refused; revoke it")).ok()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use goalmill_broker::embedded;

    use super::*;

    /// A store and its clock.
    fn store() -> (TokenStore, Arc<AtomicU64>) {
        let now = Arc::new(AtomicU64::new(1_000));
        let read = now.clone();
        let clock = Clock::from_fn(move || read.load(Ordering::Relaxed));
        let broker = embedded::open(None, clock.clone()).expect("an empty store opens");
        (TokenStore::new(broker, clock, Random::seeded(1)), now)
    }

    fn new_token(ttl_ms: Option<u64>) -> NewToken {
        NewToken { actor: "ann".into(), roles: [Role::Viewer].into(), namespace: "*".into(), ttl_ms }
    }

    async fn create(store: &TokenStore, ttl_ms: Option<u64>) -> TokenCreated {
        store.create(new_token(ttl_ms)).await.expect("the store answers").expect("there is room")
    }

    #[tokio::test]
    async fn a_token_is_valid_until_it_expires_or_is_revoked() {
        let (store, now) = store();
        let (lasting, short) = (create(&store, None).await, create(&store, Some(500)).await);
        let is_valid = async |token: &str| store.verify(token).await.expect("the store answers").is_some();
        assert!(is_valid(&lasting.token).await && is_valid(&short.token).await);
        now.store(1_500, Ordering::Relaxed);
        assert!(is_valid(&lasting.token).await && !is_valid(&short.token).await);
        assert!(store.revoke(&lasting.view.id).await.expect("the store answers").is_some());
        assert!(!is_valid(&lasting.token).await);
        assert!(store.revoke(&lasting.view.id).await.expect("the store answers").is_none());
        let left: Vec<String> = store.list().await.expect("it lists").into_iter().map(|view| view.id).collect();
        assert_eq!(left, [short.view.id]);
    }

    #[tokio::test]
    async fn only_the_whole_text_is_a_token() {
        let (store, _) = store();
        let (one, two) = (create(&store, None).await, create(&store, None).await);
        let (id, secret) = parts(&one.token).expect("it has two parts");
        let (other, _) = parts(&two.token).expect("it has two parts");
        let last = if secret.ends_with('0') { '1' } else { '0' };
        for forged in [
            String::new(),
            "gm_".into(),
            format!("gm_{id}_"),
            format!("gm_{other}_{secret}"),
            format!("gm_{id}_{}{last}", &secret[..SECRET_CHARS - 1]),
            format!("gm_{id}_{secret}0"),
            format!("GM_{id}_{secret}"),
            format!("gm_{id}_{}", secret.to_ascii_uppercase()),
            format!("{id}_{secret}"),
            format!("gm_{id}\u{0}_{secret}"),
        ] {
            assert!(store.verify(&forged).await.expect("the store answers").is_none(), "{forged:?}");
        }
    }

    #[tokio::test]
    async fn the_store_has_no_secret_and_a_use_is_written_once_a_minute() {
        let (store, now) = store();
        let created = create(&store, None).await;
        let (_, secret) = parts(&created.token).expect("it has two parts");
        let stored = store.broker.fields(&store.broker.keys().tokens()).await.expect("the store answers");
        assert!(stored.values().all(|text| !text.contains(secret)), "{stored:?}");
        let used = async || store.list().await.expect("it lists")[0].last_used_at.clone();
        assert_eq!(used().await, None);
        for (at_ms, seen_ms) in [(1_000, 1_000), (60_000, 1_000), (61_000, 61_000)] {
            now.store(at_ms, Ordering::Relaxed);
            store.note_use(&created.view.id).await;
            assert_eq!(used().await, Some(rfc3339(seen_ms)));
        }
    }

    #[tokio::test]
    async fn a_token_that_cannot_be_read_is_refused_and_can_be_revoked() {
        let (store, _) = store();
        let created = create(&store, None).await;
        let key = store.broker.keys().tokens();
        store.broker.put_field(&key, &created.view.id, "{").await.expect("the store answers");
        assert!(store.verify(&created.token).await.expect("the store answers").is_none());
        assert!(store.revoke(&created.view.id).await.expect("the store answers").is_some());
        assert!(store.is_empty().await.expect("the store answers"));
    }
}
