//! Plans that a model builds and revises by calling tools: each call is checked at once, and is in the provenance.

use std::sync::Arc;

use async_trait::async_trait;
use goalmill_common::command::Proposal;
use goalmill_common::json::Json;
use goalmill_llm::{Answer, Message, ModelError, Purpose, Rung, Tool, ToolCall, ToolChoice, Want};
use goalmill_reader::{Catalogue, Limits, Verdict, calls, read};
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::llm::account::{Account, Round};
use super::llm::plan::PlanMatter;
use super::llm::review::reviewed;
use super::llm::talk::{Judged, Settled, Talk};
use super::llm::{Desk, Offer, Prompt, day, goal_context, keep_going, limits_context, situation_context};
use super::stage::{self, Outcome, Stage};
use super::{PlanRequest, Planner, PlannerAnswer, PlanningError, ReviseRequest, RoutePlan};

mod bench;
mod table;

use bench::{Bench, Called, PlanBench, ReviseBench};
use table::{Task, tools};

/// What a model makes that was checked at each turn.
const CONFIDENCE: f64 = 0.7;
/// Calls of one turn that are run.
const CALLS_MAX: usize = 50;
const GO_ON: &str = "Go on by calling a tool. `finalize_plan` ends the plan, `abort_plan` gives up.";

/// Builds and revises plans by tool calls of a model.
pub struct ToolsPlanner {
    desk: Arc<Desk>,
    route: RoutePlan,
}

impl ToolsPlanner {
    pub fn new(desk: Arc<Desk>, route: RoutePlan) -> Self {
        Self { desk, route }
    }

    fn prompt(&self, mut context: Value, offer: &Offer, now_ms: u64) -> Result<Prompt, PlanningError> {
        context["agents"] = offer.context();
        context["today"] = day(now_ms).into();
        context["strategy"] = self.desk.settings.strategy.as_str().into();
        self.desk.prompts.render("tools", &context).map_err(|error| PlanningError::new(error.to_string()))
    }
}

#[async_trait]
impl Planner for ToolsPlanner {
    fn name(&self) -> &'static str {
        "tools"
    }

    async fn plan(&self, request: &PlanRequest) -> Result<PlannerAnswer, PlanningError> {
        let mut matter = PlanMatter::new(self.name(), &self.desk, request, &self.route);
        let limits = limits_context(&request.limits);
        let context = json!({"goal": goal_context(&request.goal), "revising": false, "limits": limits});
        let prompt = self.prompt(context, &matter.offer, request.now_ms)?;
        let mut talk = Talk::new(&self.desk, &request.ledger, self.name(), &request.goal.budget, Purpose::Plan)
            .preferring(&request.goal);
        let mut bench = PlanBench::new(&matter);
        let (good, repairs) = turns(&mut talk, prompt, Task::Plan, &mut bench).await?;
        let (good, _) = reviewed(&mut talk, &mut matter, Settled::one(good, String::new())).await;
        let strategy = self.desk.settings.strategy;
        self.desk.memory.keep(&request.goal.description, good.valid.plan());
        let spent = talk.purse.spent();
        let mut account = Map::from_iter([
            ("strategy".to_owned(), strategy.as_str().into()),
            ("actions_left_out".to_owned(), matter.offer.left_out.into()),
        ]);
        talk.account.list("repairs", &repairs, &mut account);
        Ok(good.into_answer("tools", CONFIDENCE, talk.account.close(Value::Object(account), &spent)))
    }

    async fn revise(&self, request: &ReviseRequest) -> Result<Proposal, PlanningError> {
        let situation = &request.situation;
        let words = format!("{} {}", situation.goal.description, situation.reason);
        let offer = Offer::choose(&request.agents, &words, self.desk.settings.actions_max);
        let mut bench = ReviseBench::new(request, offer.catalogue());
        let mut context = situation_context(situation);
        context["revising"] = true.into();
        context["iterative"] = situation.wants_part().into();
        context["limits"] = limits_context(&request.limits);
        if let Called::Answer(status) = bench.call("get_plan_status", &Map::new()) {
            context["status"] = status.to_string().into();
        }
        let prompt = self.prompt(context, &offer, request.now_ms)?;
        let mut talk = Talk::new(&self.desk, &request.ledger, self.name(), &situation.left, Purpose::Replan)
            .preferring(&situation.goal);
        let (mut proposal, repairs) = turns(&mut talk, prompt, Task::Revise, &mut bench).await?;
        if situation.wants_part() {
            keep_going(&mut proposal);
        }
        proposal.planner = "tools".into();
        if !request.ledger.is_written() {
            proposal.usage = talk.usage();
        }
        let spent = talk.purse.spent();
        let mut account = Map::from_iter([("planner".to_owned(), "tools".into())]);
        talk.account.list("repairs", &repairs, &mut account);
        proposal.provenance = Some(Json::of(&talk.account.close(Value::Object(account), &spent)));
        Ok(proposal)
    }
}

/// Asks and runs what is called until the bench is done.
async fn turns<B: Bench + Send>(
    talk: &mut Talk<'_>,
    prompt: Prompt,
    task: Task,
    bench: &mut B,
) -> Result<B::Done, PlanningError> {
    let tools = tools(task);
    let known = catalogue(&tools);
    let purpose = if task == Task::Plan { Purpose::Plan } else { Purpose::Replan };
    let mut messages = prompt.messages.clone();
    let mut fresh = prompt;
    let mut is_reminded = false;
    for _ in 0..talk.settings.turns_max {
        let want = Want::Tools { tools: tools.clone(), choice: ToolChoice::Auto };
        let mut ask = talk.question(&fresh, want, purpose);
        ask.messages.clone_from(&messages);
        let answer = match talk.complete(&fresh, &ask).await {
            Ok(answer) => answer,
            Err(ModelError::BrokenOff { partial, .. }) => *partial,
            Err(error) => {
                talk.account.failed(&fresh, ask.stage, &error);
                return Err(PlanningError::new(error.to_string()));
            }
        };
        let begun = Instant::now();
        let written = written(&answer, &known);
        let outcome = if written.is_empty() { Outcome::Error } else { Outcome::Ok };
        stage::count("tools", Stage::Read, outcome, begun.elapsed());
        let judged: Judged<()> = if written.is_empty() {
            Judged::Unreadable { reason: "it calls no tool".into() }
        } else {
            Judged::Good(())
        };
        talk.told(&fresh, ask.stage, &answer, &judged, Round::default());
        let before = messages.len();
        messages.push(Message::Assistant { text: answer.text.clone(), tool_calls: answer.tool_calls.clone() });
        if written.is_empty() {
            if is_reminded {
                return Err(PlanningError::new("the model calls no tools"));
            }
            is_reminded = true;
            messages.push(Message::user(GO_ON));
        }
        if written.len() > CALLS_MAX {
            talk.account.note(json!({"calls_not_run": written.len() - CALLS_MAX}));
        }
        for (at, (call, arguments)) in written.into_iter().enumerate() {
            let reply = match arguments {
                Ok(_) if at >= CALLS_MAX => not_run(),
                Ok(arguments) => match bench.call(&call.name, &arguments) {
                    Called::Done(done) => {
                        talk.account.note(json!({"call": call.name, "arguments": arguments, "ok": true}));
                        return Ok(done);
                    }
                    Called::GivenUp(reason) => {
                        talk.account.note(json!({"call": call.name, "arguments": arguments, "ok": true}));
                        return Err(PlanningError::new(format!("the model gave up: {reason}")));
                    }
                    Called::Answer(reply) => reply,
                },
                Err(reason) => json!({"ok": false, "issues": [{"detail": reason, "hint": "call it again"}]}),
            };
            if at < CALLS_MAX {
                note(&talk.account, &call.name, &reply);
            }
            messages.push(match answer.rung {
                Rung::Text => Message::user(format!("`{}` answers: {reply}", call.name)),
                Rung::JsonSchema | Rung::ForcedTool | Rung::JsonObject | Rung::Tools => {
                    Message::Tool { call_id: call.id, name: call.name, text: reply.to_string() }
                }
            });
        }
        fresh = Prompt { messages: messages[before + 1..].to_vec(), ..fresh };
    }
    Err(PlanningError::new(format!("no plan within {} turns; raise `planner.llm.turns_max`", talk.settings.turns_max)))
}

/// Notes a call and what came of it.
fn note(account: &Account, call: &str, reply: &Value) {
    let ok = reply.get("ok").cloned().unwrap_or_default();
    let mut entry = Map::from_iter([("call".to_owned(), call.into()), ("ok".to_owned(), ok)]);
    let issues = reply.get("issues").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    account.list("issues", issues, &mut entry);
    account.note(Value::Object(entry));
}

/// The answer to a call of a turn that has too many. Servers want one for every call.
fn not_run() -> Value {
    let detail = format!("it was not run: one turn may have {CALLS_MAX} calls");
    json!({"ok": false, "issues": [{"detail": detail, "hint": "call it again"}]})
}

/// A call, and its arguments or why they cannot be used.
type Written = (ToolCall, Result<Map<String, Value>, String>);

/// The calls of an answer with their arguments, or why these cannot be used. A cut call is never run.
fn written(answer: &Answer, known: &Catalogue) -> Vec<Written> {
    if answer.rung == Rung::Text && answer.tool_calls.is_empty() {
        let reading = calls(&answer.text, known, &Limits::default());
        let call =
            |call: goalmill_reader::Call| (ToolCall { name: call.name, ..ToolCall::default() }, Ok(call.arguments));
        return reading.calls.into_iter().filter(|call| call.known).map(call).collect();
    }
    let last = answer.tool_calls.len().saturating_sub(1);
    let each = answer.tool_calls.iter().enumerate();
    each.map(|(at, call)| {
        let is_cut = answer.is_truncated() && at == last;
        let arguments = if is_cut { Err("the call is cut".to_owned()) } else { arguments(&call.arguments) };
        (call.clone(), arguments)
    })
    .collect()
}

fn arguments(text: &str) -> Result<Map<String, Value>, String> {
    if text.trim().is_empty() {
        return Ok(Map::new());
    }
    let reading = read(text, &Catalogue::default(), &Limits::default());
    match (reading.verdict, reading.value) {
        (Verdict::Exact | Verdict::Repaired, Some(Value::Object(map))) => Ok(map),
        (Verdict::Truncated { .. }, _) => Err("the arguments are cut".into()),
        (Verdict::Unreadable { reason }, _) => Err(format!("the arguments cannot be read: {reason}")),
        (Verdict::Exact | Verdict::Repaired, _) => Err("the arguments are no object".into()),
    }
}

fn catalogue(tools: &[Tool]) -> Catalogue {
    Catalogue::from_schemas(tools.iter().map(|tool| (tool.name.as_str(), Some(&tool.parameters))))
}
