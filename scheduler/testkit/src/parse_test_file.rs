//! Reads files of tests and checks what they say.

use std::collections::BTreeMap;

use goalmill_common::problem::Issue;
use goalmill_common::time_zone::time_zone;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::submission::start_ms;
use crate::test_file::{AgentMocks, MockAnswer, PlanTest, TestFile};

/// Tests of one file, at most.
const TESTS_MAX: usize = 500;

/// Answers of the mock agents of one test, at most.
const ANSWERS_MAX: usize = 10_000;

/// Events, approvals and questions of one test, at most each.
const SCRIPT_MAX: usize = 1_000;

/// Reads a file of tests; the issues have JSON Pointers into the document.
pub fn parse_test_file(document: &Value) -> Result<TestFile, Vec<Issue>> {
    let mut file: TestFile = parse(document)?;
    let count = file.tests.len();
    if count == 0 || count > TESTS_MAX {
        let hint = "write a list `tests`; divide a long one into several files";
        return Err(vec![issue("/tests", format!("there are {count} tests, and 1 to {TESTS_MAX} are run"), hint)]);
    }
    let mut issues = check_agents(&file.agents, "/agents");
    for (at, test) in file.tests.iter_mut().enumerate() {
        let place = format!("/tests/{at}");
        if test.name.is_empty() {
            test.name = format!("test {}", at + 1);
        }
        if test.plan.is_none() && test.goal.is_none() {
            test.plan.clone_from(&file.plan);
        }
        if test.plan.is_some() == test.goal.is_some() {
            issues.push(issue(&place, "a test has a plan or a goal".into(), "give `plan` or `goal`, one of the two"));
        }
        issues.extend(check_test(test, &place));
        for (name, plan) in &file.plans {
            test.plans.entry(name.clone()).or_insert_with(|| plan.clone());
        }
        for (agent, actions) in &file.agents {
            test.agents.entry(agent.clone()).or_insert_with(|| actions.clone());
        }
    }
    if issues.is_empty() { Ok(file) } else { Err(issues) }
}

/// Reads mock agents, as `agents` of a file of tests has them.
pub fn parse_agents(document: &Value) -> Result<AgentMocks, Vec<Issue>> {
    let agents = parse(document)?;
    let issues = check_agents(&agents, "");
    if issues.is_empty() { Ok(agents) } else { Err(issues) }
}

/// Reads a test that is not in a file, such as that of a test kit.
pub fn parse_test(document: &Value) -> Result<PlanTest, Vec<Issue>> {
    let test: PlanTest = parse(document)?;
    let mut issues = check_test(&test, "");
    if test.plan.is_some() == test.goal.is_some() {
        issues.push(issue("", "a run has a plan or a goal".into(), "give `plan` or `goal`, one of the two"));
    }
    if issues.is_empty() { Ok(test) } else { Err(issues) }
}

fn parse<T: DeserializeOwned>(document: &Value) -> Result<T, Vec<Issue>> {
    serde_path_to_error::deserialize(document).map_err(|error| {
        let pointer: String = error.path().iter().map(pointer_part).collect();
        let hint = "see docs/testing.md, or `goalmill schema test`";
        vec![issue(&pointer, error.into_inner().to_string(), hint)]
    })
}

fn pointer_part(segment: &serde_path_to_error::Segment) -> String {
    match segment {
        serde_path_to_error::Segment::Seq { index } => format!("/{index}"),
        serde_path_to_error::Segment::Map { key } => format!("/{}", key.replace('~', "~0").replace('/', "~1")),
        serde_path_to_error::Segment::Enum { variant } => format!("/{variant}"),
        serde_path_to_error::Segment::Unknown => String::new(),
    }
}

fn check_start(test: &PlanTest, place: &str) -> Option<Issue> {
    let (name, why) = match (start_ms(test), &test.tz) {
        (Some(Ok(_)), _) | (None, None) => return None,
        (Some(Err(why)), Some(tz)) if time_zone(tz).is_err() => ("tz", why),
        (Some(Err(why)), _) => ("start", why),
        (None, Some(_)) => ("tz", "it is the zone of `start`, which is missing".to_owned()),
    };
    let hint = "write `start` as in `2027-01-04T09:00:00Z`, or a local time with its zone: `tz: Europe/Berlin`";
    Some(issue(&format!("{place}/{name}"), why, hint))
}

fn check_test(test: &PlanTest, place: &str) -> Vec<Issue> {
    let mut issues = check_agents(&test.agents, &format!("{place}/agents"));
    issues.extend(check_start(test, place));
    let lists = [
        ("events", test.events.len()),
        ("approvals", test.approvals.len()),
        ("answers", test.answers.len()),
        ("commands", test.commands.len()),
        ("plans", test.plans.len()),
    ];
    for (name, count) in lists.into_iter().filter(|(_, count)| *count > SCRIPT_MAX) {
        let detail = format!("the list has {count} entries, and at most {SCRIPT_MAX} are read");
        issues.push(issue(&format!("{place}/{name}"), detail, "test a smaller plan"));
    }
    let expected = [("events", &test.expect.events), ("no_events", &test.expect.no_events)];
    for (name, events) in expected {
        for (at, event) in events.iter().enumerate() {
            let event_type = event.parts().event_type;
            if !goalmill_common::event::types().any(|known| known == event_type) {
                let known: Vec<&str> = goalmill_common::event::types().collect();
                let hint = match goalmill_common::suggest::nearest(&event_type, known.iter().copied()) {
                    Some(known) => format!("did you mean `{known}`?"),
                    None => "docs/plan-lifecycle.md lists the types".into(),
                };
                let place = format!("{place}/expect/{name}/{at}");
                issues.push(issue(&place, format!("there is no type of events `{event_type}`"), &hint));
            }
        }
    }
    issues
}

fn check_agents(agents: &AgentMocks, place: &str) -> Vec<Issue> {
    let mut issues = Vec::new();
    let count: usize = agents.values().flat_map(BTreeMap::values).map(|answers| answers.0.len()).sum();
    if count > ANSWERS_MAX {
        let detail = format!("the mock agents have {count} answers, and at most {ANSWERS_MAX} are read");
        issues.push(issue(place, detail, "use `times`"));
    }
    for (agent, actions) in agents {
        for (action, answers) in actions {
            let at = format!("{place}/{agent}/{action}");
            if answers.0.is_empty() {
                issues.push(issue(&at, "the list has no answers".into(), "write `{outputs: {}}`"));
            }
            for (number, answer) in answers.0.iter().enumerate() {
                if let Some(detail) = contradiction(answer) {
                    issues.push(issue(&format!("{at}/{number}"), detail, "see docs/testing.md"));
                }
            }
        }
    }
    issues
}

/// What is wrong with an answer by itself.
fn contradiction(answer: &MockAnswer) -> Option<String> {
    if answer.fail.is_some() && (answer.outputs.is_some() || answer.sub_plan.is_some()) {
        return Some("an answer with `fail` has neither `outputs` nor `sub_plan`".into());
    }
    if answer.fail.is_none() && (answer.code.is_some() || answer.message.is_some() || answer.retry_after.is_some()) {
        return Some("`code`, `message` and `retry_after` belong to `fail`".into());
    }
    if answer.times == Some(0) {
        return Some("`times` is at least 1".into());
    }
    let is_cost = (0.0..=goalmill_common::json_limits::COST_MAX).contains(&answer.cost);
    (!is_cost).then(|| "`cost` is no amount of money".into())
}

fn issue(pointer: &str, detail: String, hint: &str) -> Issue {
    Issue { code: "INVALID_VALUE".into(), pointer: pointer.into(), detail, hint: hint.into() }
}
