//! A trace collector: receives OTLP over HTTP and keeps the spans.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use prost::Message;

pub use opentelemetry_proto::tonic::trace::v1::Span;

/// A running collector.
pub struct Collector {
    /// For `OTEL_EXPORTER_OTLP_ENDPOINT`.
    pub endpoint: String,
    spans: Arc<Mutex<Vec<Span>>>,
}

impl Collector {
    pub async fn start() -> Result<Self> {
        let spans = Arc::<Mutex<Vec<Span>>>::default();
        let app = Router::new().route("/v1/traces", post(take)).with_state(spans.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let endpoint = format!("http://{}", listener.local_addr()?);
        #[expect(clippy::disallowed_methods, reason = "it serves until the test's runtime ends")]
        tokio::spawn(async move { axum::serve(listener, app).await });
        Ok(Self { endpoint, spans })
    }

    /// All received spans, in order.
    pub fn spans(&self) -> Vec<Span> {
        self.spans.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

async fn take(State(spans): State<Arc<Mutex<Vec<Span>>>>, body: Bytes) -> StatusCode {
    let Ok(request) = ExportTraceServiceRequest::decode(body) else { return StatusCode::BAD_REQUEST };
    let scopes = request.resource_spans.into_iter().flat_map(|resource| resource.scope_spans);
    spans.lock().unwrap_or_else(PoisonError::into_inner).extend(scopes.flat_map(|scope| scope.spans));
    StatusCode::OK
}

/// An attribute as text.
pub fn attribute(span: &Span, name: &str) -> Result<String> {
    let found = span.attributes.iter().find(|attribute| attribute.key == name);
    let value = found.and_then(|attribute| attribute.value.as_ref()?.value.as_ref());
    let value = value.with_context(|| format!("span `{}` has no `{name}`: {:?}", span.name, span.attributes))?;
    Ok(match value {
        Value::StringValue(text) => text.clone(),
        Value::IntValue(number) => number.to_string(),
        Value::DoubleValue(number) => number.to_string(),
        Value::BoolValue(is) => is.to_string(),
        other @ (Value::ArrayValue(_)
        | Value::KvlistValue(_)
        | Value::BytesValue(_)
        | Value::StringValueStrindex(_)) => format!("{other:?}"),
    })
}
