//! Metrics of model calls. Two names follow OpenTelemetry's conventions for generative AI, which are not yet stable.

use std::time::Duration;

use goalmill_common::config::ModelSettings;
use goalmill_common::number::microdollars;
use metrics::{counter, gauge, histogram};

use crate::completion::CallAttempt;
use crate::request::Purpose;

/// Records a finished call.
pub fn record_call(model: &ModelSettings, purpose: Purpose, call: &CallAttempt, latency: Duration) {
    let provider = model.provider().to_owned();
    let labels = [
        ("gen_ai_operation_name", "chat".to_owned()),
        ("gen_ai_provider_name", provider.clone()),
        ("gen_ai_request_model", model.name.clone()),
    ];
    let mut call_labels = labels.to_vec();
    call_labels.push(("error_type", call.error.clone().unwrap_or_default()));
    histogram!("gen_ai_client_operation_duration_seconds", &call_labels).record(latency.as_secs_f64());
    for (kind, tokens) in [("input", call.usage.input_tokens), ("output", call.usage.output_tokens)] {
        if tokens > 0 {
            let mut token_labels = labels.to_vec();
            token_labels.push(("gen_ai_token_type", kind.to_owned()));
            histogram!("gen_ai_client_token_usage", &token_labels).record(tokens as f64);
        }
    }
    let cost_labels = [("provider", provider), ("model", model.name.clone()), ("purpose", purpose.as_str().to_owned())];
    // Counters hold whole numbers only.
    let microdollars = microdollars(call.cost.dollars());
    counter!("goalmill_llm_cost_microdollars_total", &cost_labels).increment(microdollars);
}

/// Counts a rate-limited call.
pub fn record_throttled(model: &ModelSettings) {
    counter!("goalmill_llm_throttled_total", "provider" => model.provider().to_owned()).increment(1);
}

/// Sets the gauge of the circuit breaker.
pub fn set_circuit_open(model: &ModelSettings, is_open: bool) {
    let labels = [("provider", model.provider().to_owned()), ("model", model.name.clone())];
    gauge!("goalmill_llm_circuit_open", &labels).set(f64::from(u8::from(is_open)));
}

#[cfg(test)]
mod tests {
    use metrics_exporter_prometheus::PrometheusBuilder;

    use super::*;
    use crate::response_mode::ResponseMode;
    use crate::usage::TokenUsage;
    use crate::usage::Usd;

    #[test]
    fn a_call_is_counted_by_model_and_outcome_and_no_name_of_the_server_becomes_a_label() {
        let recorder = PrometheusBuilder::new().build_recorder();
        let handle = recorder.handle();
        let model = ModelSettings { name: "small".into(), model: "vendor/x-1".into(), ..ModelSettings::default() };
        let call = CallAttempt {
            model: "small".into(),
            mode: ResponseMode::Text,
            error: Some("LLM_FAILED".into()),
            latency_ms: 40,
            usage: TokenUsage { input_tokens: 5, output_tokens: 0, estimated: false },
            cost: Usd::from_dollars(0.25),
        };
        metrics::with_local_recorder(&recorder, || {
            record_call(&model, Purpose::Repair, &call, Duration::from_millis(40));
            record_call(&model, Purpose::Repair, &call, Duration::from_millis(40));
            record_throttled(&model);
            set_circuit_open(&model, true);
        });
        let text = handle.render();
        for line in [
            "gen_ai_client_operation_duration_seconds_count{gen_ai_operation_name=\"chat\",\
             gen_ai_provider_name=\"openai\",gen_ai_request_model=\"small\",error_type=\"LLM_FAILED\"} 2",
            "goalmill_llm_cost_microdollars_total{provider=\"openai\",model=\"small\",purpose=\"repair\"} 500000",
            "goalmill_llm_throttled_total{provider=\"openai\"} 1",
            "goalmill_llm_circuit_open{provider=\"openai\",model=\"small\"} 1",
        ] {
            assert!(text.contains(line), "`{line}` is missing:\n{text}");
        }
        assert!(text.contains("gen_ai_token_type=\"input\"") && !text.contains("vendor"), "{text}");
    }
}
