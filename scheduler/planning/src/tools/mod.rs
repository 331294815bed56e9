//! The tools planner: a model builds and revises a plan by tool calls, each validated immediately and recorded.

use std::sync::Arc;

use async_trait::async_trait;
use goalmill_common::command::Proposal;
use goalmill_common::goal::{Goal, Planning};
use goalmill_common::json::Json;
use goalmill_llm::{Completion, Message, ModelError, Purpose, ResponseFormat, Tool, ToolCall, ToolChoice};
use goalmill_reader::{
    ParsedCall, ReaderLimits, ToolCatalogue, Verdict, WrittenCalls, parse_value, parse_written_calls,
};
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::call_log::RanTool;
use super::llm::plan_schema::{PlanVocabulary, features};
use super::llm::plan_task::PlanTask;
use super::llm::prompt_data::PromptData;
use super::llm::repair_loop::{AcceptedDraft, DraftVerdict, RepairLoop};
use super::llm::verifier::reviewed;
use super::llm::{
    LlmDeps, Prompt, ToolShortlist, day, goal_context, keep_going, limits_context, requirements_context,
    situation_context,
};
use super::provenance::{Provenance, Round};
use super::stage::{self, PlanningStage, StageOutcome};
use super::{PlanRequest, Planner, PlannerAnswer, PlanningError, ReviseRequest, RouteSteps};

mod definitions;
mod tool_target;

use definitions::{ToolSet, tools};
use tool_target::{PlanTarget, RevisionTarget, ToolResult, ToolTarget};

/// What a model makes that was checked at each turn.
const CONFIDENCE: f64 = 0.7;
/// Calls of one turn that are run.
const CALLS_MAX: usize = 50;
const GO_ON: &str = "Go on by calling a tool. `finalize_plan` ends the plan, `abort_plan` gives up.";
const CALL_ALONE: &str =
    "No tool was called, because the call stands among other words. Reply with the call and nothing else.";

/// Builds and revises plans by tool calls of a model.
pub struct ToolsPlanner {
    deps: Arc<LlmDeps>,
    route: RouteSteps,
}

impl ToolsPlanner {
    pub fn new(deps: Arc<LlmDeps>, route: RouteSteps) -> Self {
        Self { deps, route }
    }

    fn prompt(
        &self,
        mut context: Value,
        shortlist: &ToolShortlist,
        now_ms: u64,
        planning: &Planning,
    ) -> Result<Prompt, PlanningError> {
        context["agents"] = shortlist.context();
        context["today"] = day(now_ms).into();
        let settings = self.deps.settings_for(planning);
        context["strategy"] = settings.strategy.as_str().into();
        context["features"] = json!(features::lines(&settings.features));
        context["require"] = requirements_context(planning);
        let rendered = self.deps.prompts.render_plan("tools", planning.prompt.as_deref(), &context);
        rendered.map_err(|error| PlanningError::new(error.to_string()))
    }

    /// The data part of the prompts, with plans of earlier goals.
    async fn prompt_data(&self, goal: &Goal) -> PromptData {
        let earlier = self.deps.examples.passages(&goal.description, self.deps.settings.examples_max);
        self.deps.prompt_data(goal, &earlier).await
    }
}

#[async_trait]
impl Planner for ToolsPlanner {
    fn name(&self) -> &'static str {
        "tools"
    }

    async fn plan(&self, request: &PlanRequest) -> Result<PlannerAnswer, PlanningError> {
        let data = self.prompt_data(&request.goal).await;
        let mut task = PlanTask::new(self.name(), &self.deps, request, &self.route, data.clone());
        let limits = limits_context(&request.limits);
        let context = json!({"goal": goal_context(&request.goal), "revising": false, "limits": limits,
                             "stored_plans": request.terms.stored_plans.context()});
        let planning = &request.goal.planning;
        let prompt = data.add_to(self.prompt(context, &task.shortlist, request.now_ms, planning)?);
        let (call_log, budget) = (&request.call_log, &request.goal.budget);
        let mut repair_loop = RepairLoop::new(&self.deps, call_log, self.name(), budget, Purpose::Plan, planning);
        let mut target = PlanTarget::new(&task);
        let (good, repairs) =
            turns(&mut repair_loop, prompt, tools(ToolSet::Plan, &task.vocabulary(), &[]), &mut target).await?;
        let (good, _) = reviewed(&mut repair_loop, &mut task, AcceptedDraft::one(good, String::new())).await;
        self.deps.examples.store(&request.goal.description, good.valid.plan());
        let spent = repair_loop.spend.spent();
        let mut provenance = if let Value::Object(account) = task.account() { account } else { Map::new() };
        repair_loop.provenance.list("repairs", &repairs, &mut provenance);
        Ok(good.into_answer("tools", CONFIDENCE, repair_loop.provenance.close(Value::Object(provenance), &spent)))
    }

    async fn revise(&self, request: &ReviseRequest) -> Result<Proposal, PlanningError> {
        let situation = &request.situation;
        let words = format!("{} {}", situation.goal.description, situation.reason);
        let shortlist = ToolShortlist::choose(&request.agents, &words, self.deps.settings.actions_max);
        let mut target = RevisionTarget::new(request, shortlist.catalogue());
        let mut context = situation_context(situation);
        context["revising"] = true.into();
        context["stored_plans"] = request.terms.stored_plans.context();
        context["iterative"] = situation.wants_part().into();
        context["limits"] = limits_context(&request.limits);
        if let ToolResult::Answer(status) = target.call("get_plan_status", &Map::new()) {
            context["status"] = status.to_string().into();
        }
        let planning = situation.planning();
        let features = self.deps.settings_for(&planning).features;
        let data = self.prompt_data(&situation.goal).await;
        let prompt = data.add_to(self.prompt(context, &shortlist, request.now_ms, &planning)?);
        let (call_log, left) = (&request.call_log, &situation.left);
        let mut repair_loop = RepairLoop::new(&self.deps, call_log, self.name(), left, Purpose::Replan, &planning);
        let vocabulary = PlanVocabulary {
            agents: shortlist.agents,
            plans: request.terms.stored_plans.views().cloned().collect(),
            fallbacks: planning.require_fallbacks,
            parts: false,
            nested: request.limits.depth_max > 0,
            features,
            output_tokens_max: self.deps.settings.output_tokens_max,
        };
        let ids: Vec<String> = situation.plan.steps.iter().map(|step| step.id.to_string()).collect();
        let tools = tools(ToolSet::Revise, &vocabulary, &ids);
        let (mut proposal, repairs) = turns(&mut repair_loop, prompt, tools, &mut target).await?;
        if situation.wants_part() {
            keep_going(&mut proposal);
        }
        proposal.planner = "tools".into();
        if !request.call_log.is_written() {
            proposal.usage = repair_loop.usage();
        }
        let spent = repair_loop.spend.spent();
        let mut provenance = Map::from_iter([("planner".to_owned(), "tools".into())]);
        repair_loop.provenance.list("repairs", &repairs, &mut provenance);
        proposal.provenance = Some(Json::from_value(&repair_loop.provenance.close(Value::Object(provenance), &spent)));
        Ok(proposal)
    }
}

/// Asks and runs what is called until the target is done.
async fn turns<B: ToolTarget + Send>(
    repair_loop: &mut RepairLoop<'_>,
    prompt: Prompt,
    tools: Vec<Tool>,
    target: &mut B,
) -> Result<B::Done, PlanningError> {
    let known = catalogue(&tools);
    let mut messages = prompt.messages.clone();
    let mut fresh = prompt;
    let mut is_reminded = false;
    for _ in 0..repair_loop.settings.turns_max {
        let want = ResponseFormat::Tools { tools: tools.clone(), choice: ToolChoice::Auto };
        let mut ask = repair_loop.question(&fresh, want, repair_loop.purpose);
        ask.messages.clone_from(&messages);
        let answer = match repair_loop.complete(&fresh, &ask).await {
            Ok(answer) => answer,
            Err(ModelError::Interrupted { partial, .. }) => *partial,
            Err(error) => {
                repair_loop.provenance.failed(&fresh, ask.tier, &error);
                return Err(PlanningError::new(error.to_string()));
            }
        };
        let (Written { calls: written, is_mention }, judged) = read_calls(&answer, &known);
        repair_loop.record_verdict(&fresh, ask.tier, &answer, &judged, Round::default());
        let before = messages.len();
        messages.push(Message::Assistant {
            text: answer.text.clone(),
            tool_calls: answer.tool_calls.clone(),
            provider_fields: answer.provider_fields.clone(),
        });
        if written.is_empty() {
            if is_reminded {
                return Err(PlanningError::new("the model calls no tools"));
            }
            is_reminded = true;
            messages.push(Message::user(if is_mention { CALL_ALONE } else { GO_ON }));
        }
        if written.len() > CALLS_MAX {
            repair_loop.provenance.note(json!({"calls_not_run": written.len() - CALLS_MAX}));
        }
        let mut ran = Vec::new();
        let is_text = answer.tool_calls.is_empty();
        let end = run_calls(&repair_loop.provenance, written, is_text, target, &mut messages, &mut ran);
        repair_loop.record_tools(ran).await;
        if let Some(end) = end {
            return end;
        }
        fresh = Prompt { messages: messages[before + 1..].to_vec(), ..fresh };
    }
    Err(PlanningError::new(format!(
        "no plan within {} turns; raise `planner.llm.turns_max`",
        repair_loop.settings.turns_max
    )))
}

/// The calls of an answer, and whether it has any.
fn read_calls(answer: &Completion, known: &ToolCatalogue) -> (Written, DraftVerdict<()>) {
    let begun = Instant::now();
    let written = written(answer, known);
    let (outcome, judged) = if written.calls.is_empty() {
        (StageOutcome::Error, DraftVerdict::Unparseable { reason: "it calls no tool".into() })
    } else {
        (StageOutcome::Ok, DraftVerdict::Valid(()))
    };
    stage::count("tools", PlanningStage::Read, outcome, begun.elapsed());
    (written, judged)
}

/// Runs the calls of an answer and adds the results to the messages. Returns the end of the planning if a call is it.
///
/// - `is_text`: the calls stand in the text, so their results are texts as well.
/// - `ran`: gets the calls that were run, and their results.
fn run_calls<B: ToolTarget>(
    provenance: &Provenance,
    written: Vec<WrittenCall>,
    is_text: bool,
    target: &mut B,
    messages: &mut Vec<Message>,
    ran: &mut Vec<RanTool>,
) -> Option<Result<B::Done, PlanningError>> {
    for (at, (call, arguments)) in written.into_iter().enumerate() {
        let mut tool = RanTool { name: call.name.clone(), arguments: Value::Null, ok: true, result: None };
        let reply = match arguments {
            Ok(_) if at >= CALLS_MAX => not_run(),
            Ok(arguments) => {
                tool.arguments = Value::Object(arguments.clone());
                let end = match target.call(&call.name, &arguments) {
                    ToolResult::Answer(reply) => Err(reply),
                    ToolResult::Done(done) => Ok(Ok(done)),
                    ToolResult::GivenUp(reason) => Ok(Err(PlanningError::new(format!("the model gave up: {reason}")))),
                };
                match end {
                    Err(reply) => reply,
                    Ok(end) => {
                        provenance.note(json!({"call": call.name, "arguments": arguments, "ok": true}));
                        ran.push(tool);
                        return Some(end);
                    }
                }
            }
            Err(reason) => json!({"ok": false, "issues": [{"detail": reason, "hint": "call it again"}]}),
        };
        if at < CALLS_MAX {
            note(provenance, &call.name, &reply);
            tool.ok = reply.get("ok").and_then(Value::as_bool).unwrap_or(true);
            tool.result = Some(reply.clone());
            ran.push(tool);
        }
        messages.push(if is_text {
            Message::user(format!("`{}` answers: {reply}", call.name))
        } else {
            Message::Tool { call_id: call.id, name: call.name, text: reply.to_string() }
        });
    }
    None
}

/// Notes a call and what came of it.
fn note(provenance: &Provenance, call: &str, reply: &Value) {
    let ok = reply.get("ok").cloned().unwrap_or_default();
    let mut entry = Map::from_iter([("call".to_owned(), call.into()), ("ok".to_owned(), ok)]);
    let issues = reply.get("issues").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    provenance.list("issues", issues, &mut entry);
    provenance.note(Value::Object(entry));
}

/// The answer to a call of a turn that has too many. Servers want one for every call.
fn not_run() -> Value {
    let detail = format!("it was not run: one turn may have {CALLS_MAX} calls");
    json!({"ok": false, "issues": [{"detail": detail, "hint": "call it again"}]})
}

/// A call, and its arguments or why they cannot be used.
type WrittenCall = (ToolCall, Result<Map<String, Value>, String>);

/// The calls of an answer.
struct Written {
    calls: Vec<WrittenCall>,
    /// The text has calls among other words, so they are not run.
    is_mention: bool,
}

/// The calls of an answer with their arguments, or why these cannot be used. Some models write calls as text although
/// the server has tools; such a text has nothing else. A cut call is never run.
fn written(answer: &Completion, known: &ToolCatalogue) -> Written {
    if answer.tool_calls.is_empty() {
        let text = |call: ParsedCall| (ToolCall { name: call.name, ..ToolCall::default() }, Ok(call.arguments));
        let (calls, is_mention) = match parse_written_calls(&answer.text, known, &ReaderLimits::default()) {
            WrittenCalls::None => (Vec::new(), false),
            WrittenCalls::Only(calls) => (calls, false),
            WrittenCalls::Among(_) => (Vec::new(), true),
        };
        return Written { calls: calls.into_iter().map(text).collect(), is_mention };
    }
    let last = answer.tool_calls.len().saturating_sub(1);
    let each = answer.tool_calls.iter().enumerate();
    let calls = each.map(|(at, call)| {
        let is_cut = answer.is_truncated() && at == last;
        let arguments = if is_cut { Err("the call is cut".to_owned()) } else { arguments(&call.arguments) };
        (call.clone(), arguments)
    });
    Written { calls: calls.collect(), is_mention: false }
}

fn arguments(text: &str) -> Result<Map<String, Value>, String> {
    if text.trim().is_empty() {
        return Ok(Map::new());
    }
    let reading = parse_value(text, &ToolCatalogue::default(), &ReaderLimits::default());
    match (reading.verdict, reading.value) {
        (Verdict::Exact | Verdict::Repaired, Some(Value::Object(map))) => Ok(map),
        (Verdict::Truncated { .. }, _) => Err("the arguments are cut".into()),
        (Verdict::Unreadable { reason }, _) => Err(format!("the arguments cannot be read: {reason}")),
        (Verdict::Exact | Verdict::Repaired, _) => Err("the arguments are no object".into()),
    }
}

fn catalogue(tools: &[Tool]) -> ToolCatalogue {
    ToolCatalogue::from_schemas(tools.iter().map(|tool| (tool.name.as_str(), Some(&tool.parameters))))
}
