//! Budgets of the calls of an agent.

use goalmill_common::call::{CallBudget, CallWaitKind};
use goalmill_common::failure::FailureClass;
use goalmill_common::task::Task;
use goalmill_demo::scripted::{Scripted, ScriptedUsage};
use serde_json::{Value, json};

use crate::world::{World, answers, calls, task};

fn with_budget(budget: CallBudget) -> Task {
    Task { budget: Some(budget), ..task(json!({})) }
}

fn tokens(tokens: u64, last: bool) -> CallBudget {
    CallBudget { tokens: Some(tokens), cost: None, last }
}

/// Two calls of the model, of 100 tokens each.
fn two() -> [Scripted; 2] {
    let usage = Some(ScriptedUsage { input: 90, output: 10 });
    let answer = answers(json!({"result": "x"}));
    [Scripted { usage, ..calls([("list_files", json!({}))]) }, Scripted { usage, ..answer }]
}

fn files() -> Value {
    json!({"tools": ["list_files"], "output_tokens_max": 1_000})
}

#[tokio::test]
async fn a_call_that_does_not_fit_waits_for_the_budget_before_it_is_sent() {
    let world = World::new(files(), two()).await;
    let (ended, asked) = world.run_with(&with_budget(tokens(1_200, false)), []).await;
    assert_eq!((ended.failure().code.as_str(), world.server.calls()), ("SUSPENDED", 0));
    let needs = asked[0].needs.expect("it says what it needs");
    assert_eq!((asked.len(), asked[0].kind, asked[0].text.as_str()), (1, CallWaitKind::Budget, "model"));
    assert!(needs.tokens > 1_200 && needs.tokens < 3_000 && needs.cost > 0.0, "{needs:?}");
    let (ended, asked) = world.run_with(&with_budget(tokens(needs.tokens + 99, false)), []).await;
    assert_eq!((ended.failure().code.as_str(), world.server.calls()), ("SUSPENDED", 1), "the second one has no room");
    assert!(asked[0].needs.is_some_and(|second| second.tokens > needs.tokens), "its prompt is longer");
    let world = World::new(files(), two()).await;
    let (ended, asked) = world.run_with(&with_budget(tokens(10_000, false)), []).await;
    assert_eq!((ended.outputs(), asked.len()), (json!({"result": "x"}), 0));
}

#[tokio::test]
async fn the_last_tokens_of_a_budget_are_used_for_a_shorter_answer() {
    let [_, answer] = two();
    let world = World::new(files(), [answer.clone()]).await;
    let (_, asked) = world.run_with(&with_budget(tokens(1, false)), []).await;
    let needs = asked[0].needs.expect("it says what it needs").tokens;
    let (ended, _) = world.run_with(&with_budget(tokens(needs - 300, true)), []).await;
    assert_eq!(ended.outputs(), json!({"result": "x"}));
    let asked_for = world.seen()[0].body["max_tokens"].as_u64().expect("it is limited");
    assert_eq!(asked_for, 700);
    let world = World::new(files(), [answer]).await;
    let (ended, asked) = world.run_with(&with_budget(tokens(needs - 600, true)), []).await;
    assert_eq!(
        (ended.failure().code.as_str(), ended.failure().class),
        ("BUDGET_EXCEEDED", FailureClass::ConstraintViolation)
    );
    assert_eq!((asked.len(), world.server.calls()), (0, 0), "waiting is of no use");
}

#[tokio::test]
async fn the_limits_of_the_agent_end_the_step_where_the_budget_would_wait() {
    let mut settings = files();
    settings["limits"] = json!({"tokens": 1_000});
    let world = World::new(settings, two()).await;
    let (ended, asked) = world.run_with(&with_budget(tokens(1_000, false)), []).await;
    assert_eq!((ended.failure().code.as_str(), asked.len()), ("AGENT_BUDGET_EXCEEDED", 0));
}

#[tokio::test]
async fn the_price_of_a_tool_is_reserved_and_counted() {
    let settings = json!({"tools": [{"name": "list_files", "price": 0.5}], "output_tokens_max": 1_000});
    let again = || calls([("list_files", json!({})), ("list_files", json!({}))]);
    let cost = |cost: f64| CallBudget { tokens: None, cost: Some(cost), last: false };
    let world = World::new(settings.clone(), [again()]).await;
    let (ended, asked) = world.run_with(&with_budget(cost(0.9)), []).await;
    assert_eq!(ended.failure().code, "SUSPENDED");
    assert_eq!((asked[0].text.as_str(), asked[0].needs.map(|needs| needs.cost)), ("list_files", Some(0.5)));
    assert!(ended.usage.cost >= 0.5 && ended.usage.cost < 0.6, "one call was made: {:?}", ended.usage);
    let mut limited = settings;
    limited["limits"] = json!({"cost": 0.4});
    let world = World::new(limited, [again()]).await;
    let (ended, asked) = world.run_with(&with_budget(cost(5.0)), []).await;
    assert_eq!((ended.failure().code.as_str(), asked.len()), ("AGENT_BUDGET_EXCEEDED", 0));
}

#[tokio::test]
async fn what_a_failed_call_has_cost_is_reported() {
    let broken = Scripted { cut_after: Some(1), ..Scripted::text("{\"result\": \"x\"}") };
    let world = World::new(json!({"stream": true}), [broken]).await;
    let ended = world.run(&task(json!({}))).await;
    let result = ended.result.as_ref().expect("it has a cost");
    assert_eq!(result.failure.as_ref().map(|failure| failure.class), Some(FailureClass::Transient));
    assert!(result.cost > 0.0 && result.usage.is_some_and(|usage| usage.sum() > 0), "{result:?}");
    assert_eq!(ended.usage.cost, 0.0, "no finished call has it");
}

#[tokio::test]
async fn what_a_model_writes_is_shown_while_it_writes() {
    let text = format!("{{\"result\": \"{}\"}}", "slowly ".repeat(30));
    for (stream, is_shown) in [(true, true), (false, false)] {
        let slow = Scripted { chunk: Some(20), chunk_delay_ms: 200, ..Scripted::text(&text) };
        let world = World::new(json!({ "stream": stream }), [slow]).await;
        let (ended, messages) = world.run_shown(&task(json!({}))).await;
        assert!(ended.outputs()["result"].as_str().is_some_and(|result| result.starts_with("slowly")));
        let shown: Vec<&String> = messages.iter().filter(|message| message.contains("the model writes: ")).collect();
        assert_eq!(!shown.is_empty(), is_shown, "{messages:?}");
        assert!(shown.len() <= 4 && shown.iter().all(|message| message.chars().count() < 250), "{shown:?}");
        assert!(shown.iter().all(|message| message.contains("slowly")), "{shown:?}");
    }
}
