//! The issuer: its documents over HTTP, and the cache of its keys.
//!
//! Keys are read at the first token, again in the background after `refresh_ms`, and when a token names a key that is not
//! known, but never more often than every `refetch_ms`. While the issuer cannot be reached, keys count for `keys_ms`.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use goalmill_common::clock::Clock;
use goalmill_common::config::{OidcSettings, is_private_url};
use goalmill_llm::DocumentClient;
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;

use super::key_set::KeySet;
use super::signed_token::SignedToken;

/// Where the description of an issuer is, behind its address.
const DISCOVERY: &str = "/.well-known/openid-configuration";
/// Bytes of each document at most.
const DOCUMENT_BYTES_MAX: usize = 256 << 10;

/// No key of the issuer is known, and it cannot be asked.
#[derive(Debug)]
pub(super) struct IssuerUnavailable;

/// An issuer and its keys.
pub(super) struct Issuer {
    settings: OidcSettings,
    client: DocumentClient,
    clock: Clock,
    cache: Mutex<KeyCache>,
    /// Only one request reads at a time.
    reading: tokio::sync::Mutex<()>,
}

/// Where an issuer takes browsers and codes.
#[derive(Clone, Debug)]
pub(super) struct IssuerEndpoints {
    pub(super) authorization: String,
    pub(super) token: String,
    /// Whether a client may show its secret by HTTP Basic.
    pub(super) takes_basic: bool,
}

#[derive(Clone, Debug, Default)]
struct KeyCache {
    keys: Arc<KeySet>,
    /// `None` for an issuer without sign-in.
    endpoints: Option<Arc<IssuerEndpoints>>,
    /// When the keys were read, Unix milliseconds.
    read_ms: Option<u64>,
    /// When reading them was last tried, Unix milliseconds.
    tried_ms: Option<u64>,
}

impl Issuer {
    pub(super) fn new(settings: &OidcSettings, clock: Clock) -> Result<Self, String> {
        let timeout = Duration::from_millis(settings.timeout_ms);
        let client = DocumentClient::new(timeout, settings.issuer.starts_with("https://"))
            .map_err(|why| format!("the issuer of `api.oidc` cannot be asked: {why}"))?;
        Ok(Self { settings: settings.clone(), client, clock, cache: Mutex::default(), reading: Default::default() })
    }

    /// The claims of a token that is signed with a key of the issuer.
    pub(super) async fn verify(
        self: &Arc<Self>,
        token: &SignedToken<'_>,
        tasks: &TaskTracker,
    ) -> Result<Option<Value>, IssuerUnavailable> {
        let known = self.cached();
        if known.keys.candidates(token).next().is_some() {
            if self.is_older(known.read_ms, self.settings.refresh_ms) && self.may_read() {
                drop(self.spawn_read(known.read_ms, tasks));
            }
            return Ok(token.verify(known.keys.candidates(token)));
        }
        // It continues when the caller hangs up.
        if self.spawn_read(known.read_ms, tasks).await.is_err() {
            return Err(IssuerUnavailable);
        }
        let known = self.cached();
        match known.read_ms {
            None => Err(IssuerUnavailable),
            Some(_) => Ok(token.verify(known.keys.candidates(token))),
        }
    }

    /// Where people sign in.
    pub(super) async fn endpoints(
        self: &Arc<Self>,
        tasks: &TaskTracker,
    ) -> Result<Arc<IssuerEndpoints>, IssuerUnavailable> {
        let known = self.cached();
        if known.endpoints.is_none() {
            self.spawn_read(known.read_ms, tasks).await.map_err(|_| IssuerUnavailable)?;
        }
        self.cached().endpoints.ok_or(IssuerUnavailable)
    }

    /// The keys, unless they are too old to count.
    fn cached(&self) -> KeyCache {
        let cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if self.is_older(cache.read_ms, self.settings.keys_ms) {
            return KeyCache { tried_ms: cache.tried_ms, ..KeyCache::default() };
        }
        cache
    }

    fn is_older(&self, at_ms: Option<u64>, age_ms: u64) -> bool {
        at_ms.is_none_or(|at_ms| self.clock.now_ms() >= at_ms.saturating_add(age_ms))
    }

    fn may_read(&self) -> bool {
        let tried_ms = self.cache.lock().unwrap_or_else(PoisonError::into_inner).tried_ms;
        self.is_older(tried_ms, self.settings.refetch_ms)
    }

    fn spawn_read(self: &Arc<Self>, known_ms: Option<u64>, tasks: &TaskTracker) -> JoinHandle<()> {
        let issuer = self.clone();
        tasks.spawn(async move { issuer.read_keys(known_ms).await })
    }

    /// Reads the keys, unless that was done since `known_ms` or tried just now.
    async fn read_keys(&self, known_ms: Option<u64>) {
        let _one = self.reading.lock().await;
        let is_newer = self.cached().read_ms != known_ms;
        if is_newer || !self.may_read() {
            return;
        }
        self.cache.lock().unwrap_or_else(PoisonError::into_inner).tried_ms = Some(self.clock.now_ms());
        let limit = Duration::from_millis(self.settings.timeout_ms);
        let read = tokio::time::timeout(limit, self.fetch_keys()).await;
        let outcome = match read.unwrap_or_else(|_| Err("it did not answer in time".into())) {
            Ok((keys, endpoints)) => {
                let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
                (cache.keys, cache.read_ms) = (Arc::new(keys), Some(self.clock.now_ms()));
                cache.endpoints = endpoints.map(Arc::new);
                "ok"
            }
            Err(why) => {
                tracing::warn!("the keys of the issuer of `api.oidc` cannot be read: {why}");
                "failed"
            }
        };
        metrics::counter!("goalmill_oidc_key_reads_total", "outcome" => outcome).increment(1);
    }

    async fn fetch_keys(&self) -> Result<(KeySet, Option<IssuerEndpoints>), String> {
        let described = self.describe().await?;
        let url = private_url(&described, "jwks_uri")?;
        let keys = KeySet::parse(&self.client.fetch(url, DOCUMENT_BYTES_MAX).await?)?;
        Ok((keys, IssuerEndpoints::parse(&described)))
    }

    /// The description of the issuer (OpenID Connect Discovery 1.0).
    async fn describe(&self) -> Result<Value, String> {
        let url = format!("{}{DISCOVERY}", self.settings.issuer.trim_end_matches('/'));
        let text = self.client.fetch(&url, DOCUMENT_BYTES_MAX).await?;
        let described: Value =
            serde_json::from_str(&text).map_err(|error| format!("its description is no JSON: {error}"))?;
        if described["issuer"] != self.settings.issuer.as_str() {
            return Err("its description is that of another issuer: write `api.oidc.issuer` as it does".into());
        }
        Ok(described)
    }
}

impl IssuerEndpoints {
    fn parse(described: &Value) -> Option<Self> {
        let url = |name: &str| private_url(described, name).ok().map(str::to_owned);
        // Without the list it is only that method (OpenID Connect Discovery 1.0).
        let methods = described["token_endpoint_auth_methods_supported"].as_array();
        let takes_basic = methods.is_none_or(|all| all.iter().any(|method| method == "client_secret_basic"));
        Some(Self { authorization: url("authorization_endpoint")?, token: url("token_endpoint")?, takes_basic })
    }
}

/// An address in the description of an issuer that cannot be changed on the way.
fn private_url<'a>(described: &'a Value, name: &str) -> Result<&'a str, String> {
    let url = described[name].as_str().ok_or_else(|| format!("its description has no `{name}`"))?;
    is_private_url(url)
        .then_some(url)
        .ok_or_else(|| format!("`{name}` in its description does not begin with `https://`"))
}
