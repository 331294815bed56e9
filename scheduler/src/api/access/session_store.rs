//! Sessions of the web page: a word in a cookie stands for a token.

use std::collections::BTreeSet;
use std::sync::Arc;

use goalmill_broker::{Broker, BrokerError};
use goalmill_common::access::Role;
use goalmill_common::clock::Clock;
use goalmill_common::random::Random;
use serde::{Deserialize, Serialize};

use super::SignedIn;
use super::secret_digest::SecretDigest;

/// A session as it is stored.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct StoredSession {
    /// The token that signed in. The session ends with it.
    pub(crate) token: String,
    pub(crate) sha256: SecretDigest,
    /// The caller, if the token is not one of the installation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) identity: Option<SessionIdentity>,
    /// What requests that write must repeat in `X-CSRF-Token`.
    pub(crate) csrf: String,
    /// Unix milliseconds.
    pub(crate) expires_ms: u64,
}

/// The caller in a session that an identity provider vouches for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SessionIdentity {
    pub(crate) actor: String,
    pub(crate) roles: BTreeSet<Role>,
    /// A namespace, or `*` for all.
    pub(crate) namespace: String,
}

/// The sessions of an installation.
pub(crate) struct SessionStore {
    broker: Arc<dyn Broker>,
    clock: Clock,
    random: Random,
    session_ms: u64,
}

impl SessionStore {
    pub(crate) fn new(broker: Arc<dyn Broker>, clock: Clock, random: Random, session_ms: u64) -> Self {
        Self { broker, clock, random, session_ms }
    }

    /// A word that cannot be guessed.
    pub(crate) fn new_word(&self) -> String {
        [self.random.token(), self.random.token()].concat()
    }

    /// Opens a session for a caller; returns the word for its cookie too.
    pub(crate) async fn open(&self, caller: &SignedIn) -> Result<(String, StoredSession), BrokerError> {
        let word = self.new_word();
        let now_ms = self.clock.now_ms();
        let ends_ms = now_ms.saturating_add(self.session_ms);
        let expires_ms = caller.expires_ms.map_or(ends_ms, |token_ms| token_ms.min(ends_ms));
        let session = StoredSession {
            token: caller.token.clone(),
            sha256: caller.sha256.clone(),
            identity: caller.identity(),
            csrf: self.random.token(),
            expires_ms,
        };
        let text = serde_json::to_vec(&session).expect("a session always has a JSON text");
        let ttl_ms = expires_ms.saturating_sub(now_ms).max(1);
        self.broker.put_blob(&self.key(&word), &text, ttl_ms).await?;
        Ok((word, session))
    }

    /// The session with this word in its cookie.
    pub(crate) async fn find(&self, word: &str) -> Result<Option<StoredSession>, BrokerError> {
        let text = self.broker.get_blob(&self.key(word)).await?;
        let session: Option<StoredSession> = text.and_then(|text| serde_json::from_slice(&text).ok());
        let now_ms = self.clock.now_ms();
        Ok(session.filter(|session| session.expires_ms > now_ms))
    }

    pub(crate) async fn close(&self, word: &str) -> Result<(), BrokerError> {
        self.broker.remove_blob(&self.key(word)).await
    }

    /// The store has only the hash of the word: reading it gives no session away.
    fn key(&self, word: &str) -> String {
        self.broker.keys().session(SecretDigest::from_secret(word).as_str())
    }
}
