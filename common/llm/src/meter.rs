//! Metrics of calls. Two names are OpenTelemetry's for generative AI, which still move: they are spelled here only.

use std::time::Duration;

use goalmill_common::config::ModelSettings;
use metrics::{counter, gauge, histogram};

use crate::answer::Try;
use crate::ask::Purpose;

/// Counts one call that is over.
pub fn called(model: &ModelSettings, purpose: Purpose, made: &Try, latency: Duration) {
    let provider = model.provider().to_owned();
    let labels = [
        ("gen_ai_operation_name", "chat".to_owned()),
        ("gen_ai_provider_name", provider.clone()),
        ("gen_ai_request_model", model.name.clone()),
    ];
    let mut of_call = labels.to_vec();
    of_call.push(("error_type", made.error.clone().unwrap_or_default()));
    histogram!("gen_ai_client_operation_duration_seconds", &of_call).record(latency.as_secs_f64());
    for (kind, tokens) in [("input", made.usage.input_tokens), ("output", made.usage.output_tokens)] {
        if tokens > 0 {
            let mut of_tokens = labels.to_vec();
            of_tokens.push(("gen_ai_token_type", kind.to_owned()));
            histogram!("gen_ai_client_token_usage", &of_tokens).record(tokens as f64);
        }
    }
    let of_cost = [("provider", provider), ("model", model.name.clone()), ("purpose", purpose.as_str().to_owned())];
    // Counters take whole numbers only.
    let microdollars = (made.cost.dollars() * 1e6).round() as u64;
    counter!("goalmill_llm_cost_microdollars_total", &of_cost).increment(microdollars);
}

/// The model asked to slow down.
pub fn throttled(model: &ModelSettings) {
    counter!("goalmill_llm_throttled_total", "provider" => model.provider().to_owned()).increment(1);
}

/// The model is left alone, or no longer.
pub fn circuit(model: &ModelSettings, is_open: bool) {
    let labels = [("provider", model.provider().to_owned()), ("model", model.name.clone())];
    gauge!("goalmill_llm_circuit_open", &labels).set(f64::from(u8::from(is_open)));
}

#[cfg(test)]
mod tests {
    use metrics_exporter_prometheus::PrometheusBuilder;

    use super::*;
    use crate::ladder::Rung;
    use crate::usage::Usage;
    use crate::usage::Usd;

    #[test]
    fn a_call_is_counted_by_model_and_outcome_and_no_name_of_the_server_becomes_a_label() {
        let recorder = PrometheusBuilder::new().build_recorder();
        let handle = recorder.handle();
        let model = ModelSettings { name: "small".into(), model: "vendor/x-1".into(), ..ModelSettings::default() };
        let made = Try {
            model: "small".into(),
            rung: Rung::Text,
            error: Some("LLM_FAILED".into()),
            latency_ms: 40,
            usage: Usage { input_tokens: 5, output_tokens: 0, estimated: false },
            cost: Usd::from_dollars(0.25),
        };
        metrics::with_local_recorder(&recorder, || {
            called(&model, Purpose::Repair, &made, Duration::from_millis(40));
            called(&model, Purpose::Repair, &made, Duration::from_millis(40));
            throttled(&model);
            circuit(&model, true);
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
