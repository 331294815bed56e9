//! `kill -9` of the scheduler at every stage of planning and of a revision: the plan goes on, at most one call of the
//! model is made again, and the log says what was spent.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use goalmill_common::config::Dialect;
use goalmill_common::event::{Event, PlanEvent};
use goalmill_common::id::PlanId;
use goalmill_demo::scripted::{Scripted, ScriptedUsage};
use goalmill_tests::cluster::{Cluster, Options};
use goalmill_tests::model_server::ModelServer;
use goalmill_tests::proxy::Proxy;
use goalmill_tests::redis_server::RedisServer;
use goalmill_tests::wait::{until, until_some};
use serde_json::{Value, json};

use crate::machine;

const LIMIT: Duration = Duration::from_secs(90);
/// Tokens that the model says each answer took: 100 for the prompt, and 50.
const TOKENS: u64 = 150;
/// Dollars for them, at the prices of the settings.
const COST: f64 = 0.0002;

/// What a scheduler's log says when the model has answered, before that is written down.
const ENDED: &str = "call 1 of planner `llm` has ended";

/// When the scheduler is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The call is written down, and has not reached the model.
    BeforeTheCall,
    /// The model thinks.
    DuringTheCall,
    /// The model has answered, and nothing can be written down.
    AfterTheAnswer,
    /// The first answer was of no use and is written down; the model thinks about the second.
    BetweenTwoAnswers,
    /// The plan, or the revision, is written down.
    AfterTheCommit,
}

const STAGES: [Stage; 5] = [
    Stage::BeforeTheCall,
    Stage::DuringTheCall,
    Stage::AfterTheAnswer,
    Stage::BetweenTwoAnswers,
    Stage::AfterTheCommit,
];

impl Stage {
    /// What the model says, in order.
    fn script(self, bad: &Value, good: &Value) -> Vec<Scripted> {
        match self {
            Self::BeforeTheCall | Self::AfterTheCommit => vec![says(good)],
            Self::DuringTheCall => vec![hang(), says(good)],
            Self::AfterTheAnswer => vec![says(good), says(good)],
            Self::BetweenTwoAnswers => vec![says(bad), hang(), says(good)],
        }
    }

    /// Calls that reach the model, and calls that are settled; with no kill at all both were the same.
    fn calls(self) -> (u64, u64) {
        match self {
            Self::BeforeTheCall | Self::AfterTheCommit => (1, 1),
            Self::DuringTheCall | Self::AfterTheAnswer => (2, 1),
            Self::BetweenTwoAnswers => (3, 2),
        }
    }

    /// Calls that were begun and never settled.
    fn lost(self) -> u64 {
        u64::from(self != Self::AfterTheCommit)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scheduler_killed_at_any_stage_of_planning_costs_one_call_at_most() -> Result<()> {
    let _machine = machine().await;
    let step = |action: &str| {
        json!({"id": "only", "description": "x", "agent_type": "sleep", "action": action,
                                     "inputs": {"seconds": 1}, "dependencies": []})
    };
    let (bad, good) = (json!({"steps": [step("frobnicate")]}), json!({"steps": [step("sleep")]}));
    let mut town = Town::start(STAGES.iter().flat_map(|stage| stage.script(&bad, &good)).collect(), false).await?;
    for stage in STAGES {
        let begin = async |town: &Town| town.goal(&format!("wait, and be killed: {stage:?}")).await;
        let ended = |event: &PlanEvent| matches!(event, PlanEvent::PlanCreated(_));
        town.kill_at(stage, begin, ended).await.with_context(|| format!("{stage:?}\n{}", town.cluster.log_tails()))?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scheduler_killed_at_any_stage_of_a_revision_costs_one_call_at_most() -> Result<()> {
    let _machine = machine().await;
    let proposal = |step: &str| {
        json!({"strategy": "workaround", "summary": "another way", "changes": [
        {"replace_step": {"step": step, "with": [
            {"id": "instead", "agent_type": "sleep", "action": "sleep", "inputs": {"seconds": 1}}]}}]})
    };
    let (bad, good) = (proposal("nowhere"), proposal("second"));
    let mut town = Town::start(STAGES.iter().flat_map(|stage| stage.script(&bad, &good)).collect(), false).await?;
    let plan = json!({"steps": [
        {"id": "first", "agent_type": "echo", "action": "echo"},
        {"id": "second", "agent_type": "fail", "action": "fail", "dependencies": ["first"], "on_failure": "replan"},
    ]});
    for stage in STAGES {
        let begin = async |town: &Town| town.cluster.submit(&format!("revision-{stage:?}"), &plan, LIMIT).await;
        let ended = |event: &PlanEvent| matches!(event, PlanEvent::Revised(_));
        town.kill_at(stage, begin, ended).await.with_context(|| format!("{stage:?}\n{}", town.cluster.log_tails()))?;
    }
    Ok(())
}

/// The plan has begun while it is written: what ran is kept, and the rest is a matter for one revision.
#[tokio::test(flavor = "multi_thread")]
async fn a_scheduler_killed_while_a_plan_is_streamed_costs_one_call() -> Result<()> {
    let _machine = machine().await;
    let step = |id: &str, after: &[&str]| {
        json!({"id": id, "description": "x", "agent_type": "echo", "action": "echo",
                                                 "inputs": {}, "dependencies": after})
    };
    let whole = json!({"steps": [step("first", &[]), step("second", &["first"]), step("third", &["second"])]});
    let rest = json!({"strategy": "replan_remaining", "summary": "the rest", "changes": [
        {"add_step": {"step": step("last", &["first"])}}]});
    // Pieces of 40 characters: the first step is whole well before the seventh, and the third is not.
    let begun = Scripted { chunk: Some(40), hang_after: Some(7), ..says(&whole) };
    let mut town = Town::start(vec![begun, says(&rest)], true).await?;
    let plan = town.goal("echo three times").await?;
    town.cluster.wait_event(&plan, |line| line["type"] == "step_completed").await?;
    let place = town.kill(&plan).await?;
    town.cluster.await_end(&plan, LIMIT).await?;
    town.replace(place).await?;
    let shown = town.show(&plan).await?;
    ensure!(shown["status"] == "completed", "{shown:#}");
    ensure!(town.model.calls() == 2, "{} calls", town.model.calls());
    ensure!((&shown["model_calls"]["settled"], &shown["model_calls"]["lost"]) == (&json!(1), &json!(1)), "{shown:#}");
    let log = town.cluster.lines(&plan).await?;
    let runs = log.iter().filter(|line| line["type"] == "step_completed" && line["step_id"] == "first").count();
    ensure!(runs == 1, "the first step ran {runs} times");
    Ok(())
}

/// Two schedulers and a worker, with networks to Redis and to the model that fail when they are told to.
struct Town {
    cluster: Cluster,
    model: ModelServer,
    to_redis: Proxy,
    to_model: Proxy,
}

impl Town {
    /// - `streams`: whether plans begin while they are written.
    async fn start(answers: Vec<Scripted>, streams: bool) -> Result<Self> {
        let redis = RedisServer::start().await?;
        let to_redis = Proxy::start(redis.port()).await?;
        let model = ModelServer::says(answers).await?;
        let address = model.server().base_url(Dialect::Openai);
        let port = address.rsplit_once(':').and_then(|(_, rest)| rest.split('/').next()?.parse().ok());
        let to_model = Proxy::start(port.context("the address has a port")?).await?;
        let settings = format!(
            "[planner]\norder = [\"llm\"]\nstream = {streams}\n\
             [[models]]\nname = \"one\"\nbase_url = \"http://127.0.0.1:{}/v1\"\nretries = 0\n\
             input_usd_per_million = 1\noutput_usd_per_million = 2\n",
            to_model.port()
        );
        let options = Options {
            workers: 1,
            through: Some(to_redis.url()),
            environment: vec![("RUST_LOG", "goalmill_planning=debug,goalmill_llm=debug,info".into())],
            settings,
            ..Options::default()
        };
        let cluster = Cluster::over(redis, options).await?;
        let town = Self { cluster, model, to_redis, to_model };
        town.await_agents().await;
        Ok(town)
    }

    /// Waits until both schedulers know the worker's agents: models are told of those that are known.
    async fn await_agents(&self) {
        let plan = json!({"steps": [{"id": "a", "agent_type": "sleep", "action": "sleep"}]});
        for place in 0..self.cluster.schedulers.len() {
            until(LIMIT, async || {
                let answer = self.cluster.post_to(place, "/v1/plans:validate", "agents", &plan).await;
                answer.is_ok_and(|(status, answer)| {
                    let text = answer.to_string();
                    status == 200 && !text.contains("UNKNOWN_AGENT") && !text.contains("NO_LIVE_WORKER")
                })
            })
            .await;
        }
    }

    async fn goal(&self, description: &str) -> Result<PlanId> {
        let body = json!({"description": description});
        let key: String = description.chars().filter(char::is_ascii_alphanumeric).collect();
        let accepted = until_some(LIMIT, async || {
            let (status, answer) = self.cluster.post_to(0, "/v1/goals", &key, &body).await.ok()?;
            (status == 202).then(|| answer["plan_id"].as_str().map(PlanId::from)).flatten()
        });
        accepted.await.context("nobody takes the goal")
    }

    /// Lets something begin that asks the model, kills the plan's scheduler at that stage, and looks at what came of it.
    ///
    /// - `is_done`: the event with which the model's answer counts.
    async fn kill_at(
        &mut self,
        stage: Stage,
        begin: impl AsyncFn(&Self) -> Result<PlanId>,
        is_done: impl Fn(&PlanEvent) -> bool,
    ) -> Result<()> {
        let before = self.model.calls();
        let is_held = matches!(stage, Stage::BeforeTheCall | Stage::AfterTheAnswer);
        if is_held {
            self.to_model.black_hole();
        }
        let plan = begin(self).await?;
        self.cluster.wait_event(&plan, |line| line["type"] == "model_asked").await?;
        let place = match stage {
            Stage::BeforeTheCall => {
                let place = self.owner(&plan).await?;
                self.cluster.schedulers[place].process.kill9();
                lose(&self.to_model).await;
                place
            }
            Stage::AfterTheAnswer => {
                let place = self.owner(&plan).await?;
                let ended = |town: &Self| town.cluster.schedulers[place].process.output().matches(ENDED).count();
                let before = ended(self);
                self.to_redis.black_hole();
                self.to_model.heal();
                until(LIMIT, async || ended(self) > before).await;
                self.cluster.schedulers[place].process.kill9();
                lose(&self.to_redis).await;
                place
            }
            Stage::DuringTheCall | Stage::BetweenTwoAnswers => {
                let reached = before + stage.calls().0 - 1;
                until(LIMIT, async || self.model.calls() == reached).await;
                self.kill(&plan).await?
            }
            Stage::AfterTheCommit => {
                let log = async || self.cluster.log(&plan).await.unwrap_or_default();
                let done = |event: &Event| matches!(event, Event::Plan(event) if is_done(event));
                until(LIMIT, async || log().await.iter().any(|record| done(&record.event))).await;
                self.kill(&plan).await?
            }
        };
        self.cluster.await_end(&plan, LIMIT).await?;
        self.replace(place).await?;
        self.look_at(stage, &plan, self.model.calls() - before, is_done).await
    }

    async fn look_at(
        &self,
        stage: Stage,
        plan: &PlanId,
        calls: u64,
        is_done: impl Fn(&PlanEvent) -> bool,
    ) -> Result<()> {
        let (expected, settled) = stage.calls();
        ensure!(calls == expected, "{calls} calls reached the model, not {expected}");
        let log = self.cluster.log(plan).await?;
        let done = log.iter().filter(|record| matches!(&record.event, Event::Plan(event) if is_done(event))).count();
        ensure!(done == 1, "{done} answers of planners were taken");
        let repeated = log
            .iter()
            .filter(|record| matches!(&record.event, Event::Plan(PlanEvent::ModelAsked(asked)) if asked.repeated));
        ensure!(
            repeated.count() as u64 == stage.lost(),
            "the log says of another number of calls that they are repeated"
        );
        let shown = self.show(plan).await?;
        ensure!(shown["status"] == "completed", "{shown:#}");
        ensure!(shown["usage"]["tokens"] == json!(TOKENS * settled), "{:#}", shown["usage"]);
        let cost = shown["usage"]["cost"].as_f64().unwrap_or_default();
        ensure!((cost - COST * settled as f64).abs() < 1e-9, "{cost} dollars");
        let told = &shown["model_calls"];
        ensure!(told["settled"] == json!(settled) && told["lost"] == json!(stage.lost()), "{told:#}");
        ensure!(told["open"] == 0, "{told:#}");
        let is_reserved = told["unsettled"]["tokens"].as_u64() > Some(4_096);
        ensure!(is_reserved == (stage.lost() > 0), "{told:#}");
        Ok(())
    }

    /// The place of the scheduler that works on the plan. A busy one may have to take its shard again.
    async fn owner(&self, plan: &PlanId) -> Result<usize> {
        let owner = until_some(LIMIT, async || self.cluster.owner(plan).await);
        owner.await.context("the shard has no owner")
    }

    /// Kills the scheduler that works on the plan, and returns its place; the other one takes the plan over.
    async fn kill(&mut self, plan: &PlanId) -> Result<usize> {
        let place = self.owner(plan).await?;
        self.cluster.schedulers[place].process.kill9();
        Ok(place)
    }

    /// Starts another scheduler in the place of a killed one. Not before the plan has ended: it would get the shard back
    /// while the model is asked, which costs another call.
    async fn replace(&mut self, place: usize) -> Result<()> {
        self.cluster.replace_scheduler(place).await?;
        self.cluster.wait_ready().await?;
        self.cluster.wait_shared_out().await
    }

    async fn show(&self, plan: &PlanId) -> Result<Value> {
        let shown = until_some(LIMIT, async || match self.cluster.get_from(0, &format!("/v1/plans/{plan}")).await {
            Ok((200, shown)) => Some(shown),
            Ok(_) | Err(_) => None,
        });
        shown.await.context("the plan is not shown")
    }
}

/// Loses everything that is on its way.
async fn lose(network: &Proxy) {
    network.cut();
    until(LIMIT, async || network.open() == 0).await;
    network.heal();
}

fn says(value: &Value) -> Scripted {
    let usage = Some(ScriptedUsage { input: 100, output: 50 });
    Scripted { json: Some(value.clone()), usage, times: Some(1), ..Scripted::default() }
}

fn hang() -> Scripted {
    Scripted { hang: true, times: Some(1), ..Scripted::default() }
}
