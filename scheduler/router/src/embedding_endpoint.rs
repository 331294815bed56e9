//! Client of an OpenAI-compatible embedding endpoint.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use goalmill_common::config::{RouterSettings, environment, hide_password};
use goalmill_common::error_body::quote_error_body;
use goalmill_common::number::whole_u64;
use goalmill_http::{BodyError, client_failure, read_body};
use serde::Deserialize;
use serde_json::json;

/// Texts in one request.
const BATCH: usize = 96;
/// Characters of a text that are sent.
const TEXT_CHARS_MAX: usize = 2_000;
/// Limit of a response, in bytes.
const RESPONSE_BYTES_MAX: usize = 64 << 20;

/// Why a request for vectors failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum EmbedError {
    #[error("the embedding endpoint `{url}` is unreachable: {source}")]
    Unreachable { url: String, source: reqwest::Error },
    #[error("the embedding endpoint `{url}` answered {status}: {detail}")]
    Refused { url: String, status: u16, detail: String },
    #[error("the embedding endpoint `{url}` sent an invalid response: {why}")]
    Malformed { url: String, why: String },
}

/// An embedding endpoint.
#[derive(Debug)]
pub(super) struct EmbeddingEndpoint {
    client: reqwest::Client,
    url: String,
    model: String,
    key: Option<String>,
    /// US dollars per million tokens.
    price: f64,
    /// Cost so far, in millionths of a US dollar.
    spent: AtomicU64,
}

/// Characters of a token, where the endpoint does not count them.
const TOKEN_CHARS: usize = 4;

#[derive(Deserialize)]
struct EmbeddingResponse {
    #[serde(default)]
    usage: EmbeddingUsage,
    data: Vec<EmbeddingRow>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct EmbeddingUsage {
    total_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct EmbeddingRow {
    #[serde(default)]
    index: Option<usize>,
    embedding: Vec<f32>,
}

impl EmbeddingEndpoint {
    /// `None` if the settings have no endpoint.
    pub(super) fn from_settings(settings: &RouterSettings) -> Option<Self> {
        let base = settings.embed_url.trim_end_matches('/');
        if base.is_empty() {
            return None;
        }
        let url = if base.ends_with("/embeddings") { base.to_owned() } else { format!("{base}/embeddings") };
        let builder = || goalmill_http::any_client().timeout(Duration::from_millis(settings.embed_timeout_ms));
        // A redirect may lead to `https`, so the system certificates are used if there are any.
        let client = match builder().build() {
            Err(_) if url.starts_with("http://") => builder().tls_certs_only([]).build(),
            built => built,
        };
        let client = client.inspect_err(|error| {
            tracing::error!("the embedding endpoint cannot be used: {}", client_failure(error));
        });
        let client = client.ok()?;
        let key = Some(settings.embed_key_env.as_str()).filter(|name| !name.is_empty()).and_then(environment);
        let (price, spent) = (settings.embed_price.max(0.0), AtomicU64::new(0));
        Some(Self { client, url, model: settings.embed_model.clone(), key, price, spent })
    }

    /// The vector of each text, in order.
    pub(super) async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let mut vectors = Vec::with_capacity(texts.len());
        for batch in texts.chunks(BATCH) {
            vectors.extend(self.embed_batch(batch).await?);
        }
        Ok(vectors)
    }

    async fn embed_batch(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let short: Vec<String> = texts.iter().map(|text| text.chars().take(TEXT_CHARS_MAX).collect()).collect();
        let mut request = self.client.post(&self.url).json(&json!({"model": self.model, "input": short}));
        if let Some(key) = &self.key {
            request = request.bearer_auth(key);
        }
        let unreachable = |source: reqwest::Error| EmbedError::Unreachable {
            url: hide_password(&self.url),
            source: source.without_url(),
        };
        let response = request.send().await.map_err(unreachable)?;
        let status = response.status();
        let body = read_body(response, RESPONSE_BYTES_MAX).await.map_err(|error| match error {
            BodyError::TooLarge(_) => self.malformed(error.to_string()),
            BodyError::Failed(error) => unreachable(error),
        })?;
        if !status.is_success() {
            let detail = quote_error_body(&body, self.key.as_deref()).unwrap_or_default();
            return Err(EmbedError::Refused { url: hide_password(&self.url), status: status.as_u16(), detail });
        }
        let response: EmbeddingResponse =
            serde_json::from_slice(&body).map_err(|error| self.malformed(error.to_string()))?;
        self.charge(response.usage.total_tokens, &short);
        let count = response.data.len();
        let mut vectors = vec![Vec::new(); texts.len()];
        for (place, row) in response.data.into_iter().enumerate() {
            if let Some(vector) = vectors.get_mut(row.index.unwrap_or(place)) {
                *vector = row.embedding;
            }
        }
        if vectors.iter().any(Vec::is_empty) {
            return Err(self.malformed(format!("{count} vectors for {} texts", texts.len())));
        }
        Ok(vectors)
    }

    /// Adds the cost of one request.
    fn charge(&self, tokens: Option<u64>, texts: &[String]) {
        let counted = || texts.iter().map(|text| text.len().div_ceil(TOKEN_CHARS) as u64).sum();
        let microdollars = whole_u64((tokens.unwrap_or_else(counted) as f64 * self.price).round());
        self.spent.fetch_add(microdollars, Ordering::Relaxed);
        metrics::counter!("goalmill_routing_microdollars_total").increment(microdollars);
    }

    /// US dollars so far.
    pub(super) fn cost(&self) -> f64 {
        self.spent.load(Ordering::Relaxed) as f64 / 1e6
    }

    fn malformed(&self, why: String) -> EmbedError {
        EmbedError::Malformed { url: hide_password(&self.url), why }
    }
}
