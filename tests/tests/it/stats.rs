//! The measures of plans that ended, from a running scheduler.

use std::time::Duration;

use anyhow::Result;
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_scheduler::Extras;
use goalmill_tests::installation::settings;
use goalmill_tests::wait::until;
use serde_json::{Value, json};

use crate::revisions::town_with;

const LIMIT: Duration = Duration::from_mins(1);

#[tokio::test(flavor = "multi_thread")]
async fn the_measures_are_those_of_the_plans_that_ended() -> Result<()> {
    let mut town = town_with(settings(), Extras::default()).await?;
    town.serve("good", "run", &json!({}), |_| Ok(json!({})));
    town.serve("bad", "run", &json!({}), |_| Err(Failure::new(FailureClass::Permanent, "BROKEN", "it broke")));
    town.open().await?;
    let step = |id: &str, agent: &str, needs: &[&str]| json!({"id": id, "agent_type": agent, "action": "run", "needs": needs, "retry": {"max": 0}});
    let mut saved = step("b", "bad", &["a"]);
    saved["fallback"] = json!({"agent_type": "good"});
    let plans = [
        json!({"steps": [step("a", "good", &[]), saved]}),
        json!({"steps": [step("a", "good", &[]), step("b", "bad", &["a"]), step("c", "good", &["b"])]}),
        json!({"continue_on_failure": true, "steps": [step("a", "bad", &[])]}),
    ];
    for plan in &plans {
        let id = town.at.submit(plan).await?;
        town.at.await_end(&id, LIMIT).await?;
    }
    let report = town.at.get("/v1/stats").await?;
    assert_eq!(report["plans"], 3, "{report:#}");
    let of = |name: &str| -> (Value, Value) {
        let all = report["measures"].as_array().expect("measures are a list");
        let found = all.iter().find(|measure| measure["measure"] == name).expect("every measure is there");
        (found["value"].clone(), found["samples"].clone())
    };
    // a, b · a · none
    assert_eq!(of("task_completeness"), (json!(0.5), json!(6)));
    // a · a: the fallback, and the two that failed, are not what was chosen first
    assert_eq!(of("assignment_accuracy"), (json!(0.4), json!(5)));
    assert_eq!(of("dependency_accuracy"), (json!(1.0), json!(2)));
    assert_eq!(of("revision_frequency"), (json!(0.0), json!(3)));
    assert_eq!(of("revision_success"), (Value::Null, json!(0)));
    assert_eq!(of("plan_validity"), (Value::Null, json!(0)), "no planner was asked");
    let goal = town.goal().await?;
    // Nobody serves its steps.
    until(LIMIT, async || {
        let plan = town.at.get(&format!("/v1/plans/{goal}")).await.unwrap_or_default();
        plan["status"] == "running"
    })
    .await;
    town.at.post(&format!("/v1/plans/{goal}:cancel"), &json!({})).await?;
    town.at.await_end(&goal, LIMIT).await?;
    let report = town.at.get("/v1/stats?since_ms=0&plans=10").await?;
    let of = |name: &str| {
        let all = report["measures"].as_array().expect("measures are a list");
        all.iter().find(|measure| measure["measure"] == name).expect("every measure is there").clone()
    };
    assert_eq!((&of("plan_validity")["value"], &of("plan_validity")["is_met"]), (&json!(1.0), &json!(true)));
    assert_eq!(of("planning_p95")["samples"], 1);
    let refused = town.at.get("/v1/stats?plans=0").await?;
    assert_eq!(refused["status"], 400, "{refused:#}");
    let none = town.at.get("/v1/stats?since_ms=99999999999999").await?;
    assert_eq!(none["plans"], 0);
    town.at.stop().await;
    Ok(())
}
