//! Fields of other engines that have no equal here, and what to write instead.

/// Names in snake case, and what to do. Each says what there is, so that no field without effect is kept.
const ABSENT: [(&[&str], &str); 12] = [
    (
        &["finally", "on_exit", "on_completion", "cleanup", "clean_up", "teardown", "ensure"],
        "remove it; steps under `always` of the plan run once its outcome is known, whatever that is",
    ),
    (
        &["trigger_rule", "run_when", "run_condition", "depends_on_state"],
        "there are no trigger rules: remove it; `join: any` or `join: {at_least: 1}` starts a step before all of its \
         dependencies are done, and `depends_on: [{step: book, is: [failed]}]` starts it when a dependency ends like that",
    ),
    (
        &["matrix", "items", "with_sequence", "parallel_for"],
        "remove it; `for_each: \"{{ steps.find.outputs.list }}\"` runs a step once for each item of a list",
    ),
    (
        &["while", "iterate", "iterations"],
        "remove it; `repeat: {until: \"outputs.score > 0.8\", max: 5}` runs a step until something is true",
    ),
    (
        &["schedule", "cron", "interval", "start_date", "timetable"],
        "plans do not repeat: remove it, and submit the plan each time, for example from cron; `start_at` and `start_in` of \
         a plan or goal delay its start",
    ),
    (
        &["delay", "sleep", "start_delay", "initial_delay"],
        "a step cannot be delayed: remove it, and put a step before it with `kind: wait` and `for: 10m`; for waits between \
         attempts there is `retry: {initial: 10s}`",
    ),
    (
        &["rate_limit", "rate", "throttle", "qps", "requests_per_second"],
        "a plan has no rate limits: remove it; `max_parallel` limits steps in flight, and steps with the same \
         `resource` run one after the other",
    ),
    (
        &["rollback", "on_rollback", "compensate_with"],
        "remove it; `undo: {action: …}` of a step takes back what it did when the plan fails or is cancelled",
    ),
    (
        &["concurrency_group", "semaphore", "pool"],
        "there are no pools: remove it; steps with the same `resource` run one after the other",
    ),
    (
        &["jobs", "templates", "dag"],
        "list the steps under `steps`, each with an `id` of its own and the ids of those before it in `dependencies`",
    ),
    (
        &["env", "environment", "variables", "vars", "secrets"],
        "a plan has no variables: remove it, and write the values into `inputs`; secrets belong to the settings of agents",
    ),
    (
        &["image", "container", "command", "script", "run"],
        "a plan starts no programs: remove it, and name an `agent_type` and an `action`; a worker runs programs for its agents",
    ),
];

/// What to write instead of a field that there is nowhere.
///
/// - `key`: in snake case.
pub(super) fn instead(key: &str) -> Option<&'static str> {
    ABSENT.iter().find(|(names, _)| names.contains(&key)).map(|(_, instead)| *instead)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_stands_twice() {
        let mut names: Vec<&str> = ABSENT.iter().flat_map(|(names, _)| names.iter().copied()).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
