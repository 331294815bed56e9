//! The secret of an installation that attempt tokens are made from. It is in no log: it has a key of the store that only
//! schedulers read.

use std::sync::{Mutex, MutexGuard, PoisonError};

use goalmill_broker::{Broker, BrokerError};
use goalmill_common::random::Random;
use goalmill_engine::TokenKey;

/// The field of the key.
const FIELD: &str = "attempt_tokens";

/// The secret as this process has read it last.
pub(crate) struct TokenSecret(Mutex<String>);

impl TokenSecret {
    /// Reads the secret; the first scheduler of an installation creates it.
    pub(crate) async fn open(broker: &dyn Broker, random: &Random) -> Result<Self, BrokerError> {
        let secret = read_or_create(broker, &random.token()).await?;
        Ok(Self(Mutex::new(secret)))
    }

    /// The key that the secret gives.
    pub(crate) fn key(&self) -> TokenKey {
        TokenKey::new(&self.known())
    }

    /// Writes the secret again if the store has lost it: a primary can fail before a replica has the write.
    ///
    /// If the store has another one, this process takes it, and the error says that shards with the former one must be
    /// released.
    pub(crate) async fn keep(&self, broker: &dyn Broker) -> Result<(), BrokerError> {
        let known = self.known().clone();
        let found = read_or_create(broker, &known).await?;
        if found == known {
            return Ok(());
        }
        *self.known() = found;
        Err(BrokerError::DataLost(format!("`{}` has another secret than before", broker.keys().secrets())))
    }

    fn known(&self) -> MutexGuard<'_, String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn read_or_create(broker: &dyn Broker, secret: &str) -> Result<String, BrokerError> {
    let key = broker.keys().secrets();
    if let Some(known) = broker.get_field(&key, FIELD).await? {
        return Ok(known);
    }
    broker.add_field(&key, FIELD, secret).await?;
    let known = broker.get_field(&key, FIELD).await?;
    known.ok_or_else(|| BrokerError::DataLost(format!("`{key}` went away while it was made")))
}

#[cfg(test)]
mod tests {
    use goalmill_broker::embedded::Embedded;
    use goalmill_common::clock::Clock;

    use super::*;

    #[tokio::test]
    async fn all_schedulers_have_one_secret_and_keep_it() {
        let broker = Embedded::in_memory(Clock::system()).unwrap();
        let first = TokenSecret::open(&broker, &Random::seeded(1)).await.unwrap();
        let second = TokenSecret::open(&broker, &Random::seeded(2)).await.unwrap();
        assert_eq!(first.key(), second.key());
        let key = broker.keys().secrets();
        broker.remove_field(&key, FIELD).await.unwrap();
        second.keep(&broker).await.unwrap();
        first.keep(&broker).await.unwrap();
        assert_eq!(TokenSecret::open(&broker, &Random::seeded(3)).await.unwrap().key(), first.key());
    }

    #[tokio::test]
    async fn a_scheduler_takes_the_secret_of_the_others() {
        let broker = Embedded::in_memory(Clock::system()).unwrap();
        let first = TokenSecret::open(&broker, &Random::seeded(1)).await.unwrap();
        broker.remove_field(&broker.keys().secrets(), FIELD).await.unwrap();
        let second = TokenSecret::open(&broker, &Random::seeded(2)).await.unwrap();
        assert_ne!(first.key(), second.key());
        let lost = first.keep(&broker).await;
        assert!(matches!(lost, Err(BrokerError::DataLost(_))), "{lost:?}");
        assert_eq!(first.key(), second.key());
        first.keep(&broker).await.unwrap();
    }
}
