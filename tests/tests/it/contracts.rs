//! Goals with constraints and criteria, executed by agents that report what they use.

use std::time::Duration;

use anyhow::Result;
use goalmill_broker::embedded;
use goalmill_common::clock::Clock;
use goalmill_common::config::Dialect;
use goalmill_demo::scripted::{Scripted, ScriptedUsage};
use goalmill_tests::installation::{Installation, settings};
use goalmill_tests::model_server::ModelServer;
use serde::Deserialize;
use serde_json::{Map, Value, json};

const LIMIT: Duration = Duration::from_mins(1);

/// A goal, what its steps report, and how its plan ends.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Contract {
    name: String,
    /// Whether the reports break a constraint.
    #[serde(default)]
    conflict: bool,
    #[serde(default)]
    constraints: Value,
    #[serde(default)]
    criteria: Vec<Value>,
    #[serde(default)]
    policy: Option<String>,
    /// Criteria that the last step judges.
    #[serde(default)]
    judges: Vec<String>,
    /// The inputs of the agent `spend`, one step after the other.
    spend: Vec<Value>,
    status: String,
    #[serde(default)]
    code: Option<String>,
    /// The expected status of each constraint.
    #[serde(default)]
    constraint: Map<String, Value>,
    #[serde(default)]
    verdicts: Vec<String>,
}

impl Contract {
    fn plan(&self) -> Value {
        let last = self.spend.len() - 1;
        let step = |(n, inputs): (usize, &Value)| {
            let needs: Vec<String> = n.checked_sub(1).map(|before| format!("s{before}")).into_iter().collect();
            let judges: &[String] = if n == last { &self.judges } else { &[] };
            json!({"id": format!("s{n}"), "agent_type": "spend", "inputs": inputs, "needs": needs, "judges": judges})
        };
        let mut goal = json!({"description": self.name, "success_criteria": self.criteria});
        if !self.constraints.is_null() {
            goal["constraints"] = self.constraints.clone();
        }
        if let Some(policy) = &self.policy {
            goal["criteria"] = policy.as_str().into();
        }
        json!({"goal": goal, "steps": self.spend.iter().enumerate().map(step).collect::<Vec<_>>()})
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_constraint_and_criterion_has_its_verdict() -> Result<()> {
    let contracts: Vec<Contract> = serde_json::from_str(include_str!("contracts.json"))?;
    assert!(contracts.len() >= 30 && contracts.iter().filter(|c| c.conflict).count() >= 10);
    let at = Installation::embedded().await?;
    let mut ids = Vec::new();
    for contract in &contracts {
        ids.push(at.submit(&contract.plan()).await?);
    }
    for (contract, id) in contracts.iter().zip(&ids) {
        let name = &contract.name;
        let plan = at.await_end(id, LIMIT).await?;
        assert_eq!(plan["status"], contract.status, "{name}: {plan:#}");
        let code = plan["failure"]["code"].as_str();
        assert_eq!(code, contract.code.as_deref(), "{name}: {plan:#}");
        let results = at.get(&format!("/v1/plans/{id}/results")).await?;
        for (constraint, status) in &contract.constraint {
            let listed = results["constraints"].as_array().into_iter().flatten();
            let found = listed.into_iter().find(|view| view["name"] == *constraint).map(|view| &view["status"]);
            assert_eq!(found, Some(status), "{name}: {results:#}");
        }
        let verdicts: Vec<&str> =
            results["criteria"].as_array().into_iter().flatten().filter_map(|v| v["verdict"].as_str()).collect();
        assert_eq!(verdicts, contract.verdicts, "{name}: {results:#}");
        let events =
            at.get(&format!("/v1/plans/{id}/events?types=criteria_judged,constraint_changed&limit=100")).await?;
        let is_changed = contract.constraint.values().any(|status| status == "broken" || status == "low");
        let is_judged = contract.verdicts.iter().any(|verdict| verdict != "not_judged");
        let is_empty = events["items"].as_array().is_none_or(Vec::is_empty);
        assert!(!(is_changed || is_judged) || !is_empty, "{name}: the log says nothing: {events:#}");
    }
    at.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_judges_criteria_in_words() -> Result<()> {
    let verdicts = json!({"verdicts": [
        {"criterion": "c1", "verdict": "met", "evidence": "s0 says so"},
        {"criterion": "c3", "verdict": "met", "evidence": "nobody asked"},
    ]});
    let usage = Some(ScriptedUsage { input: 11, output: 7 });
    let server = ModelServer::says([Scripted { json: Some(verdicts), usage, ..Scripted::default() }]).await?;
    let mut settings = settings();
    settings.models = vec![server.settings("small", Dialect::Openai)];
    let at = Installation::start(embedded::open(None, Clock::system())?, settings).await?;
    let goal = json!({"description": "x", "success_criteria": ["It reads well", "It is new", "steps.s0.outputs.ok"]});
    let steps = json!([{"id": "s0", "agent_type": "echo", "inputs": {"ok": true}}]);
    let id = at.submit(&json!({"goal": goal, "steps": steps})).await?;
    let plan = at.await_end(&id, LIMIT).await?;
    assert_eq!((&plan["status"], &plan["usage"]["tokens"]), (&json!("completed"), &json!(18)), "{plan:#}");
    let judged: Vec<(&Value, &Value)> =
        plan["criteria"].as_array().into_iter().flatten().map(|v| (&v["verdict"], &v["judge"])).collect();
    let expected =
        [(&json!("met"), &json!("model")), (&json!("not_judged"), &Value::Null), (&json!("met"), &json!("expression"))];
    assert_eq!(judged, expected, "{plan:#}");
    at.stop().await;
    Ok(())
}
