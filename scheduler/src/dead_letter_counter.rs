//! Counts steps that became dead letters, by agent type.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use goalmill_common::id::AgentType;

/// Label of agent types without a label of their own.
pub(crate) const OTHER: &str = "other";

/// The agent types that have a label of their own.
#[derive(Debug, Default)]
pub(crate) struct DeadLetterCounter(Mutex<BTreeSet<AgentType>>);

impl DeadLetterCounter {
    /// Counts one.
    ///
    /// - `most`: agent types with their own label; the rest share one.
    pub(crate) fn count(&self, agent_type: &AgentType, most: usize) {
        let mut labelled = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let has_own = labelled.contains(agent_type) || labelled.len() < most && labelled.insert(agent_type.clone());
        let label = if has_own { agent_type.to_string() } else { OTHER.to_owned() };
        metrics::counter!("goalmill_dead_letters_total", "agent_type" => label).increment(1);
    }
}

#[cfg(test)]
mod tests {
    use metrics_exporter_prometheus::PrometheusBuilder;

    use super::*;

    #[test]
    fn every_dead_letter_is_counted_and_agent_types_above_the_limit_share_a_label() {
        let recorder = PrometheusBuilder::new().build_recorder();
        let counter = DeadLetterCounter::default();
        metrics::with_local_recorder(&recorder, || {
            for agent_type in ["a", "b", "a", "c"] {
                counter.count(&agent_type.into(), 1);
            }
        });
        let shown = recorder.handle().render();
        for (label, count) in [("a", 2), ("other", 2)] {
            let line = format!("goalmill_dead_letters_total{{agent_type=\"{label}\"}} {count}");
            assert!(shown.contains(&line), "{line}: {shown}");
        }
    }
}
