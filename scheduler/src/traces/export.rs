//! Exports spans by OTLP over HTTP to the collector of the standard environment variables.
//!
//! Source: OpenTelemetry specification, "OpenTelemetry Protocol Exporter" and "Environment Variable Specification",
//! <https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/>.

use std::time::Duration;

use goalmill_common::config::{environment, exports_traces};
use goalmill_common::trace::TraceContext;
use goalmill_http::client_failure;
use opentelemetry_otlp::{
    HttpExporterBuilderSet, Protocol, SpanExporter, SpanExporterBuilder, WithExportConfig, WithHttpConfig,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SpanData, SpanExporter as _};

/// Longest wait for a connection to the collector.
const CONNECT: Duration = Duration::from_secs(5);
/// Longest wait for an answer, unless the environment says another one.
const ANSWER: Duration = Duration::from_secs(10);

/// Sends spans and samples traces.
#[derive(Debug)]
pub struct Exporter {
    inner: SpanExporter,
    sampler: Sampler,
}

/// Why traces cannot be sent.
#[derive(Debug, thiserror::Error)]
pub enum ExporterError {
    #[error("`{name}` is `{value}`; there are: {known}")]
    Unknown { name: &'static str, value: String, known: &'static str },
    #[error("`OTEL_TRACES_SAMPLER_ARG` is `{0}`; it must be a share from 0 to 1, such as 0.01")]
    Share(String),
    #[error("traces cannot be sent: {0}")]
    Setup(String),
}

impl Exporter {
    /// From the environment; `None` without a collector, or if `OTEL_SDK_DISABLED` is `true`.
    pub fn from_environment() -> Result<Option<Self>, ExporterError> {
        if !exports_traces() {
            return Ok(None);
        }
        let sampler = Sampler::parse(environment("OTEL_TRACES_SAMPLER"), environment("OTEL_TRACES_SAMPLER_ARG"))?;
        let protocol = environment("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL").or(environment("OTEL_EXPORTER_OTLP_PROTOCOL"));
        if let Some(value) = protocol.filter(|value| value != "http/protobuf") {
            let name = "OTEL_EXPORTER_OTLP_PROTOCOL";
            return Err(ExporterError::Unknown { name, value, known: "http/protobuf" });
        }
        Self::new(SpanExporter::builder().with_http(), sampler).map(Some)
    }

    /// Sends all traces to a collector that the environment does not name.
    ///
    /// - `url`: for example `http://127.0.0.1:4318/v1/traces`.
    pub fn to_collector(url: &str) -> Result<Self, ExporterError> {
        let sampler = Sampler { follows_parent: true, share: 1.0 };
        Self::new(SpanExporter::builder().with_http().with_endpoint(url), sampler)
    }

    fn new(builder: SpanExporterBuilder<HttpExporterBuilderSet>, sampler: Sampler) -> Result<Self, ExporterError> {
        let client = goalmill_http::any_client().connect_timeout(CONNECT).timeout(answer_limit()?).build();
        let client = client.map_err(|error| ExporterError::Setup(client_failure(&error)))?;
        let builder = builder.with_http_client(client).with_protocol(Protocol::HttpBinary);
        let mut inner = builder.build().map_err(|error| ExporterError::Setup(error.to_string()))?;
        let mut resource = Resource::builder();
        if environment("OTEL_SERVICE_NAME").is_none() {
            resource = resource.with_service_name("goalmill");
        }
        inner.set_resource(&resource.build());
        Ok(Self { inner, sampler })
    }

    /// Whether a trace is sampled, with the given parent if it has one.
    pub(super) fn is_sampled(&self, trace_id: u128, parent: Option<TraceContext>) -> bool {
        match (parent, self.sampler.follows_parent) {
            (Some(parent), true) => parent.is_sampled,
            (Some(_) | None, _) => self.sampler.keeps(trace_id),
        }
    }

    pub(super) async fn send(&self, spans: Vec<SpanData>) -> Result<(), String> {
        self.inner.export(spans).await.map_err(|error| error.to_string())
    }
}

/// The exporter sets no limit for a client that it is given.
fn answer_limit() -> Result<Duration, ExporterError> {
    for name in ["OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT"] {
        let Some(value) = environment(name) else { continue };
        let Some(ms) = value.trim().parse().ok().filter(|ms| *ms > 0) else {
            return Err(ExporterError::Unknown { name, value, known: "milliseconds above 0" });
        };
        return Ok(Duration::from_millis(ms));
    }
    Ok(ANSWER)
}

/// The sampling rule.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Sampler {
    follows_parent: bool,
    /// 0 to 1.
    share: f64,
}

impl Sampler {
    /// - `name`, `share`: `OTEL_TRACES_SAMPLER`, by default `parentbased_always_on`, and its argument.
    fn parse(name: Option<String>, share: Option<String>) -> Result<Self, ExporterError> {
        let name = name.unwrap_or_else(|| "parentbased_always_on".into());
        let (follows_parent, own) = match name.strip_prefix("parentbased_") {
            Some(own) => (true, own),
            None => (false, name.as_str()),
        };
        let share = match own {
            "always_on" => 1.0,
            "always_off" => 0.0,
            "traceidratio" => {
                let text = share.unwrap_or_else(|| "1".into());
                let share = text.trim().parse::<f64>().ok().filter(|share| (0.0..=1.0).contains(share));
                share.ok_or(ExporterError::Share(text))?
            }
            _ => {
                let known = "always_on, always_off, traceidratio, and each with `parentbased_` before it";
                return Err(ExporterError::Unknown { name: "OTEL_TRACES_SAMPLER", value: name, known });
            }
        };
        Ok(Self { follows_parent, share })
    }

    /// By the lowest 56 bits of the id, so that all processes decide the same.
    ///
    /// Source: OpenTelemetry specification, "Trace SDK", `TraceIdRatioBased`.
    fn keeps(self, trace_id: u128) -> bool {
        let bits = trace_id & ((1 << 56) - 1);
        (bits as f64) < self.share * (1_u64 << 56) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &str, share: &str) -> Result<Sampler, String> {
        let given = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        Sampler::parse(given(name), given(share)).map_err(|error| error.to_string())
    }

    #[test]
    fn samplers_have_the_names_of_the_standard() {
        assert_eq!(read("", ""), Ok(Sampler { follows_parent: true, share: 1.0 }));
        assert_eq!(read("always_off", ""), Ok(Sampler { follows_parent: false, share: 0.0 }));
        assert_eq!(read("parentbased_traceidratio", "0.01"), Ok(Sampler { follows_parent: true, share: 0.01 }));
        for share in ["2", "-1", "NaN", "much"] {
            assert!(read("traceidratio", share).is_err_and(|error| error.contains(share)), "{share}");
        }
        assert!(read("jaeger_remote", "").is_err_and(|error| error.contains("jaeger_remote")));
    }

    #[test]
    fn a_share_of_all_traces_is_kept() {
        let random = goalmill_common::random::Random::seeded(1);
        for share in [0.0, 0.01, 0.5, 1.0] {
            let sampler = Sampler { follows_parent: false, share };
            let kept = (0..20_000).filter(|_| sampler.keeps(u128::from(random.draw()))).count() as f64 / 20_000.0;
            assert!((kept - share).abs() < 0.02, "{share}: {kept}");
        }
    }
}
