//! The catalogue of metrics is complete: what the sources record, what it lists and what its page says are the same.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use goalmill_broker::BrokerError;
use goalmill_common::metric::{Label, METRICS};

use crate::docs::{read, root};
use crate::metric_page::page;

#[test]
fn the_page_is_made_of_the_catalogue() {
    if read("docs/metrics.md") == page() {
        return;
    }
    let made = root().join("target/metrics.md");
    fs::write(&made, page()).expect("the page can be written");
    panic!("docs/metrics.md differs from the catalogue: copy {} over it", made.display());
}

#[test]
fn every_metric_that_is_recorded_is_in_the_catalogue_and_the_other_way_round() {
    let mut recorded = BTreeSet::new();
    for folder in [
        "common/llm/src", "scheduler/planning/src", "scheduler/router/src", "scheduler/shard/src", "scheduler/src",
        "worker/src",
    ] {
        gather(&root().join(folder), &mut recorded);
    }
    let listed: BTreeSet<String> = METRICS.iter().map(|metric| metric.name.to_owned()).collect();
    assert_eq!(recorded, listed);
}

#[test]
fn every_reason_why_redis_refuses_is_a_label_of_the_catalogue() {
    let metric = METRICS.iter().find(|metric| metric.name == "goalmill_redis_refusing").expect("it is listed");
    let [Label::Of("reason", listed)] = metric.labels else { panic!("{:?}", metric.labels) };
    assert_eq!(BrokerError::reasons().collect::<Vec<_>>(), *listed);
}

/// The names in a folder's sources that stand first in a macro that records, or in a list of such names.
fn gather(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).expect("the folder can be read").flatten() {
        let path = entry.path();
        if path.is_dir() {
            gather(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            let text = fs::read_to_string(&path).expect("a source can be read");
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            for literal in code.split('"').skip(1).step_by(2) {
                let is_name = literal.chars().all(|c| c.is_ascii_lowercase() || c == '_');
                let prefixes = ["goalmill_", "gen_ai_client_"];
                // Targets of log filters are named like crates.
                let is_crate = matches!(literal, "goalmill_scheduler" | "goalmill_worker" | "goalmill_engine");
                if is_name && !is_crate && prefixes.iter().any(|prefix| literal.starts_with(prefix)) {
                    found.insert(literal.to_owned());
                }
            }
        }
    }
}
