//! Actions of operators besides those on plans: queues, workers, dead letters, logs.

use std::time::Duration;

use anyhow::{Context, Result};
use goalmill_broker::{Activity, Broker, Claim, Commit, Committed, DeadLetter, Install, PlanWrite, embedded};
use goalmill_common::blob_ref;
use goalmill_common::clock::Clock;
use goalmill_common::event::{Event, PlanEvent, Record, StepEvent, StepProgress};
use goalmill_common::id::ShardId;
use goalmill_common::json::Json;
use goalmill_common::limits::TaskLimits;
use goalmill_common::task::Task;
use goalmill_tests::installation::{Installation, read_log, settings, step};
use goalmill_tests::redis_server::RedisServer;
use goalmill_tests::wait::{SOON, until, until_some};
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_mins(1);

fn echo() -> Value {
    json!({"steps": [step("a", "echo", &[], json!({"x": 1}))]})
}

async fn refused(it: &Installation, path: &str, status: u16, code: &str) -> Result<Value> {
    let (answered, problem) = it.post(path, &json!({})).await?;
    assert_eq!((answered, problem["code"].as_str()), (status, Some(code)), "{path}: {problem:#}");
    Ok(problem)
}

/// Pauses a queue, as soon as there is one.
async fn pause(it: &Installation, queue: &str) {
    let path = format!("/v1/queues/{queue}:pause");
    until(SOON, async || it.post(&path, &json!({})).await.is_ok_and(|(status, _)| status == 200)).await;
}

async fn a_paused_queue_holds_steps_back(it: Installation) -> Result<()> {
    pause(&it, "echo").await;
    let id = it.submit(&echo()).await?;
    let explained = it.get(&format!("/v1/plans/{id}/explain")).await?;
    let step = &explained["steps"][0];
    assert_eq!(step["status"], "ready");
    assert!(step["hint"].as_str().is_some_and(|hint| hint.contains("`goalmill queue resume echo`")), "{explained:#}");
    let queues = it.get("/v1/queues").await?;
    let queue = queues["items"].as_array().and_then(|all| all.iter().find(|queue| queue["agent_type"] == "echo"));
    assert_eq!(queue.map(|queue| (&queue["paused"], &queue["waiting"])), Some((&json!(true), &json!(0))));
    let (status, queue) = it.post("/v1/queues/echo:resume", &json!({})).await?;
    assert_eq!((status, &queue["paused"]), (200, &json!(false)));
    assert_eq!(it.await_end(&id, LIMIT).await?["status"], "completed");
    refused(&it, "/v1/queues/nobody:pause", 404, "QUEUE_NOT_FOUND").await?;
    refused(&it, "/v1/queues/echo:burn", 404, "NOT_FOUND").await?;
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_queue_gets_nothing_new_until_it_is_resumed() -> Result<()> {
    a_paused_queue_holds_steps_back(Installation::embedded().await?).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_queue_gets_nothing_new_until_it_is_resumed_over_redis() -> Result<()> {
    let server = RedisServer::start().await?;
    a_paused_queue_holds_steps_back(Installation::over(&server).await?).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shard_need_not_wait_for_its_next_sign_of_life_when_a_queue_is_resumed() -> Result<()> {
    let mut slow = settings();
    (slow.scheduler.heartbeat_ms, slow.scheduler.shard_lease_ms) = (600_000, 1_800_000);
    let it = Installation::start(embedded::open(None, Clock::system())?, slow).await?;
    pause(&it, "echo").await;
    let id = it.submit(&echo()).await?;
    // Its summary is brought up to date a moment later; after that the shard has nothing left to wake for.
    let last = read_log(it.broker.as_ref(), &id).await?.last().map_or(0, |record| record.seq).to_string();
    until(SOON, async || it.broker.summary(&id).await.is_ok_and(|summary| summary.get("seq") == Some(&last))).await;
    it.post("/v1/queues/echo:resume", &json!({})).await?;
    assert_eq!(it.await_end(&id, LIMIT).await?["status"], "completed");
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_whose_queue_is_paused_does_not_hold_back_those_of_other_queues() -> Result<()> {
    let it = Installation::embedded().await?;
    let slow = |id: &str, ms: u64, seconds: u64| {
        let mut step = step(id, "sleep", &[], json!({"ms": ms}));
        step["estimates"] = json!({"seconds": seconds});
        step
    };
    let quick = |id: &str| step(id, "echo", &[], json!({}));
    let steps = [quick("a"), quick("b"), slow("first", 60_000, 200), slow("second", 1, 100)];
    let id = it.submit(&json!({"max_parallel": 1, "steps": steps})).await?;
    let count = async |is_it: fn(&StepEvent) -> bool| {
        let log = it.log(&id).await.unwrap_or_default();
        log.iter().filter(|r| matches!(&r.event, Event::Step { event, .. } if is_it(event))).count()
    };
    // `first` has the longest path; `second` is the best of what waits for the plan's room.
    until(SOON, async || count(|event| matches!(event, StepEvent::Started(_))).await == 1).await;
    pause(&it, "sleep").await;
    it.post(&format!("/v1/plans/{id}/steps/first:complete"), &json!({})).await?;
    until(SOON, async || count(|event| matches!(event, StepEvent::Completed(_))).await == 3).await;
    it.post("/v1/queues/sleep:resume", &json!({})).await?;
    assert_eq!(it.await_end(&id, LIMIT).await?["status"], "completed");
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_asked_to_drain_ends_and_the_explanation_misses_it() -> Result<()> {
    let it = Installation::embedded().await?;
    let worker = it.workers[0].id().clone();
    let path = format!("/v1/workers/{worker}:drain");
    until(SOON, async || it.post(&path, &json!({})).await.is_ok_and(|(status, _)| status == 200)).await;
    tokio::time::timeout(LIMIT, it.workers[0].draining()).await?;
    let listed = async || it.get("/v1/workers").await.expect("it answers")["items"].as_array().map(Vec::len);
    until(SOON, async || listed().await == Some(0)).await;
    refused(&it, &path, 404, "WORKER_NOT_FOUND").await?;
    let id = it.submit(&echo()).await?;
    let explained = it.get(&format!("/v1/plans/{id}/explain")).await?;
    assert!(explained.to_string().contains("goalmill worker --agents echo"), "{explained:#}");
    it.stop().await;
    Ok(())
}

fn letter(step: &str, task: String) -> DeadLetter {
    let (agent_type, plan) = ("echo".into(), "p0-0000000000000000".into());
    let (code, reason) = ("STEP_POISONED".into(), "3 workers were lost with it".into());
    DeadLetter { agent_type, plan, step: step.into(), attempt: 3, code, reason, task }
}

/// As the engine makes it: with inputs that are filled in.
fn task(inputs: &Value) -> Task {
    Task {
        plan: "p0-0000000000000000".into(),
        family: None,
        step: "shout".into(),
        attempt: 3,
        token: "t".into(),
        agent_type: "echo".into(),
        action: String::new(),
        description: String::new(),
        inputs: Json::from_value(inputs),
        expected_outputs: Vec::new(),
        expected_output: String::new(),
        output_schema: None,
        timeout_ms: 5_000,
        lease_ms: 30_000,
        reply: "reports".into(),
        idempotency_key: "k".into(),
        calls: Vec::new(),
        callback: None,
        budget: None,
        traceparent: None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letters_task_is_done_again_as_it_was_and_the_letter_goes() -> Result<()> {
    let it = Installation::embedded().await?;
    // What looks like an expression in inputs that are filled in is data.
    let inputs = json!({"text": "{{ steps.gone.outputs.x }} and {% raw %}", "n": 5, "large": [1, 2]});
    // A large value is a payload of the plan of the letter.
    let key = it.broker.keys().plan_blob(&task(&inputs).plan, "large").context("the plan has a shard")?;
    it.broker.put_blob(&key, b"[1, 2]", 60_000).await?;
    let mut sent = inputs.clone();
    sent["large"] = blob_ref::to_json(&key, 6).value();
    let text = serde_json::to_string(&task(&sent))?;
    for letter in [letter("shout", text), letter("odd", "no task".into())] {
        it.broker.add_dead_letter(&letter).await?;
    }
    let listed = it.get("/v1/dead-letters/echo").await?;
    let (odd, good) = (&listed["items"][0], &listed["items"][1]);
    assert_eq!((&odd["task"], &good["task"]["inputs"]), (&json!("no task"), &sent), "{listed:#}");
    let path =
        |letter: &Value, verb: &str| format!("/v1/dead-letters/echo/{}:{verb}", letter["entry"].as_str().unwrap());

    let (status, answer) = it.post(&path(good, "retry"), &json!({})).await?;
    // The plan of the letter is not there.
    assert_eq!((status, &answer["warnings"][0]["code"]), (202, &json!("CALLS_NOT_KEPT")), "{answer:#}");
    let plan = answer["plan_id"].as_str().expect("it is accepted").into();
    assert_eq!(it.await_end(&plan, LIMIT).await?["status"], "completed");
    assert_eq!(it.get(&format!("/v1/plans/{plan}/results")).await?["results"]["shout"], inputs);
    refused(&it, &path(good, "retry"), 404, "DEAD_LETTER_NOT_FOUND").await?;

    let problem = refused(&it, &path(odd, "retry"), 409, "NOT_ALLOWED").await?;
    assert!(problem["detail"].is_string(), "{problem:#}");
    let (status, dropped) = it.post(&path(odd, "discard"), &json!({})).await?;
    assert_eq!((status, &dropped["step_id"]), (200, &json!("odd")));
    assert_eq!(it.get("/v1/dead-letters/echo").await?["items"], json!([]));
    refused(&it, "/v1/dead-letters/echo/1-0:burn", 404, "NOT_FOUND").await?;
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_logs_hold_the_newest_events_of_all_plans_in_order() -> Result<()> {
    let it = Installation::embedded().await?;
    let bad = json!({"steps": [step("b", "fail", &[], json!({"message": "as told"}))]});
    let (one, two) = (it.submit(&echo()).await?, it.submit(&bad).await?);
    it.await_end(&one, LIMIT).await?;
    it.await_end(&two, LIMIT).await?;
    let logs = async |query: &str| -> Result<Vec<Value>> {
        Ok(it.get(&format!("/v1/logs{query}")).await?["items"].as_array().cloned().unwrap_or_default())
    };
    let all = logs("").await?;
    let of = |plan: &str| all.iter().filter(|event| event["plan_id"] == plan).cloned().collect::<Vec<_>>();
    for plan in [&one, &two] {
        let seqs: Vec<u64> = of(plan.as_str()).iter().filter_map(|event| event["seq"].as_u64()).collect();
        assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>(), "each plan's log is whole");
        assert_eq!(logs(&format!("?plan={plan}")).await?, of(plan.as_str()));
    }
    let times: Vec<&str> = all.iter().filter_map(|event| event["time"].as_str()).collect();
    assert!(times.is_sorted(), "{times:?}");
    let failed = logs("?types=step_failed,plan_failed&step=b").await?;
    assert_eq!(failed.iter().map(|event| &event["type"]).collect::<Vec<_>>(), ["step_failed"]);
    assert_eq!(logs("?limit=2").await?, all[all.len() - 2..]);
    let later = goalmill_common::clock::Clock::system().now_ms() + 60_000;
    assert_eq!(logs(&format!("?since_ms={later}")).await?, Vec::<Value>::new());
    assert_eq!(it.http.get(it.url("/v1/logs?plan=nonsense")).send().await?.status(), 404);
    let unknown = it.get("/v1/logs?types=step_failed,nope").await?;
    assert_eq!(unknown["code"], "INVALID_REQUEST");
    let detail = unknown["detail"].as_str().unwrap_or_default();
    assert!(detail.contains("`nope`") && detail.contains("step_failed"), "{detail}");
    it.stop().await;
    Ok(())
}

/// A plan of shard 0 that has ended, with so many events of one type; the first one is of another.
async fn long_log(broker: &dyn Broker, plan: &str, number: u64, events: u64) -> Result<()> {
    let now_ms = goalmill_common::clock::Clock::system().now_ms();
    let record = |seq| {
        let event = if seq == 1 {
            StepEvent::Ready
        } else {
            StepEvent::Progress(Box::new(StepProgress { progress: None, message: None }))
        };
        Record {
            seq,
            time_ms: now_ms,
            actor: None,
            event: Event::Step { step: "a".into(), attempt: 1, phase: None, event },
        }
    };
    let records: Vec<Record> = (1..=events).map(record).collect();
    let write = PlanWrite {
        plan: plan.into(),
        base_seq: 0,
        follows: false,
        last_seq: events,
        time: goalmill_common::clock::rfc3339(now_ms),
        events: goalmill_common::event::write_entry(&records),
        summary: vec![("status", "completed".into())],
        activity: Activity::Ends { retention_ms: 3_600_000 },
        index_ms: now_ms,
        result: None,
    };
    let commit = Commit {
        shard: ShardId(0),
        token: "t".into(),
        number,
        cursor: None,
        requests_cursor: None,
        plans: vec![write],
        tasks: Vec::new(),
        acknowledged: Vec::new(),
        full_check: false,
    };
    assert_eq!(broker.commit(&commit).await?, Committed::Applied);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_for_rare_events_goes_on_with_its_cursor() -> Result<()> {
    let broker = embedded::open(None, Clock::system())?;
    let settings = settings();
    broker
        .open(&Install { instance: "i".into(), shards: settings.scheduler.shards, limits: TaskLimits::default() })
        .await?;
    let claim = Claim { holder: "h".into(), token: "t".into(), seen: None };
    assert!(broker.acquire(ShardId(0), &claim).await?);
    let plans = ["p0-000000000000000a", "p0-000000000000000b"];
    for (number, plan) in (1..).zip(plans) {
        long_log(&*broker, plan, number, 25_000).await?;
    }
    broker.release(ShardId(0), "t").await?;
    let it = Installation::start(broker, settings).await?;
    for query in ["types=step_ready", "types=step_ready&plan=p0-000000000000000a"] {
        let (mut found, mut pages, mut cursor) = (Vec::new(), 0, String::new());
        loop {
            let page = it.get(&format!("/v1/logs?{query}{cursor}")).await?;
            let items = page["items"].as_array().unwrap_or_else(|| panic!("{page:#}"));
            found.extend(items.iter().map(|event| event["plan_id"].as_str().unwrap_or_default().to_owned()));
            pages += 1;
            let Some(next) = page["next"].as_str() else { break };
            cursor = format!("&cursor={next}");
        }
        found.sort();
        let all = if query.contains("plan=") { &plans[..1] } else { &plans[..] };
        assert_eq!(found, all, "{query}");
        assert!(pages > all.len(), "one request does not look at all of it: {pages}");
    }
    assert_eq!(it.get("/v1/logs?limit=2").await?["next"], Value::Null, "the newest events are found at once");
    assert_eq!(it.get("/v1/logs?cursor=x").await?["code"], "INVALID_REQUEST");
    let other = it.get("/v1/logs?plan=p0-000000000000000a&cursor=1:p0-000000000000000b:5").await?;
    assert_eq!(other["code"], "INVALID_REQUEST");
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn more_searches_of_logs_than_are_answered_at_once_are_asked_to_come_back() -> Result<()> {
    let server = RedisServer::start().await?;
    let it = Installation::over(&server).await?;
    server.stop_process()?;
    let ask = async || it.http.get(it.url("/v1/logs?types=step_failed")).send().await;
    let mut answers: futures_util::stream::FuturesUnordered<_> = (0..5).map(|_| ask()).collect();
    let refused = futures_util::StreamExt::next(&mut answers).await.expect("there are five")?;
    assert_eq!(refused.status(), 503);
    assert!(refused.headers().contains_key("retry-after"));
    assert!(refused.text().await?.contains("being answered"));
    server.cont()?;
    drop(answers);
    until(SOON, async || ask().await.is_ok_and(|answer| answer.status() == 200)).await;
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_of_a_plan_that_has_ended_says_how_to_run_it_again() -> Result<()> {
    let it = Installation::embedded().await?;
    let id = it.submit(&json!({"steps": [step("b", "fail", &[], json!({}))]})).await?;
    it.await_end(&id, LIMIT).await?;
    let problem = refused(&it, &format!("/v1/plans/{id}/steps/b:retry"), 409, "PLAN_FINAL").await?;
    let detail = problem["detail"].as_str().unwrap_or_default();
    assert!(detail.contains(&format!("goalmill plan export {id} | goalmill run -")), "{detail}");
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_step_of_a_plan_that_goes_on_can_be_tried_again() -> Result<()> {
    let it = Installation::embedded().await?;
    let mut fails = step("b", "fail", &[], json!({}));
    fails["on_failure"] = json!("continue");
    let id = it.submit(&json!({"steps": [fails, step("w", "nobody", &[], json!({}))]})).await?;
    let attempt = async |status: &str, least: u64| {
        until_some(LIMIT, async || {
            let b = it.get(&format!("/v1/plans/{id}/steps/b")).await.ok()?;
            (b["status"] == status && b["attempt"].as_u64()? >= least).then_some(b["attempt"].as_u64()?)
        })
        .await
    };
    let failed = attempt("failed", 1).await.expect("it fails");
    let (status, answer) = it.post(&format!("/v1/plans/{id}/steps/b:retry"), &json!({"reason": "once more"})).await?;
    assert_eq!(status, 200, "{answer:#}");
    assert!(attempt("failed", failed + 1).await.is_some(), "it is tried again, under a new number");
    let revisions = it.get(&format!("/v1/plans/{id}/revisions")).await?;
    assert_eq!(revisions["items"][0]["strategy"], "edit", "{revisions:#}");
    it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_for_an_agent_type_without_a_live_worker_is_accepted_with_a_warning() -> Result<()> {
    let it = Installation::embedded().await?;
    let painter = json!({"agent_type": "painter", "description": "paints walls in any colour"});
    assert_eq!(it.post("/v1/agents", &painter).await?.0, 201);
    let is_known = async || {
        let workers = it.get("/v1/workers").await.expect("it answers");
        workers["items"].as_array().is_some_and(|workers| !workers.is_empty())
    };
    until(SOON, is_known).await;
    let routed = json!({"id": "c", "agent_type": "auto", "description": "paint the wall in a colour"});
    let plan = json!({"steps": [step("a", "nobody", &[], json!({})), step("b", "echo", &[], json!({})), routed]});
    let (status, answer) = it.post("/v1/plans", &plan).await?;
    assert_eq!(status, 202, "{answer:#}");
    let places = |warnings: &Value| -> Vec<(String, String)> {
        let text = |issue: &Value, field: &str| issue[field].as_str().unwrap_or_default().to_owned();
        let all = warnings.as_array().into_iter().flatten();
        all.map(|issue| (text(issue, "code"), text(issue, "pointer"))).collect()
    };
    let expected = ["/steps/0/agent_type", "/steps/2/agent_type"].map(|at| ("NO_LIVE_WORKER".into(), at.into()));
    assert_eq!(places(&answer["warnings"]), expected, "{answer:#}");
    let id = answer["plan_id"].as_str().unwrap_or_default().into();
    let validated = it.log(&id).await?.into_iter().find_map(|record| {
        if let Event::Plan(PlanEvent::PlanValidated(validated)) = record.event {
            Some(serde_json::json!(validated.warnings))
        } else {
            None
        }
    });
    assert_eq!(validated.as_ref().map(places), Some(expected.to_vec()));
    let (_, preview) = it.post("/v1/plans:validate", &plan).await?;
    assert!(places(&preview["warnings"]).contains(&expected[1]), "{preview:#}");
    let explained = it.get(&format!("/v1/plans/{id}/explain")).await?.to_string();
    assert!(explained.contains("goalmill worker --agents painter"), "{explained}");
    it.stop().await;
    Ok(())
}
