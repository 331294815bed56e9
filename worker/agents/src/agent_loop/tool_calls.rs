//! The tool calls of a reply: run in their order, those that only read concurrently.

use std::sync::atomic::{AtomicBool, Ordering};

use goalmill_common::call::{CallNeeds, CallWait, CallWaitKind};
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::json::Json;
use goalmill_common::task::Task;
use goalmill_common::text::shorten;
use goalmill_llm::{BudgetExceeded, TokenUsage, ToolCall, Usd};
use goalmill_worker::executor::{CallId, CallResult, CallUsage, IndependentCall, MakeCall, Progress};
use serde_json::{Value, json};
use tokio::time::timeout_at;

use super::AgentLoop;
use crate::answer_text::read_arguments;
use crate::prompt::render_result;
use crate::tools::{BoundTool, PlanCall};

/// Characters of the arguments that a person sees before a tool is run.
const APPROVAL_CHARS_MAX: usize = 3_500;

/// A call of a tool that changes nothing.
struct ReadCall<'a, 'c> {
    tool: &'a BoundTool,
    call: &'c ToolCall,
    arguments: Value,
}

impl<'a> AgentLoop<'a> {
    /// Makes the calls in their order, those that only read side by side, and adds their results to the messages.
    pub(super) async fn run_calls(
        &mut self,
        calls: &[ToolCall],
        is_text: bool,
        turn: u32,
        progress: &Progress,
    ) -> Result<(), Failure> {
        let mut rest = calls;
        while let Some(call) = rest.first() {
            // A text may repeat what was done; a server that has calls says so by a call of its own.
            if is_text && self.was_made(call) {
                let reason = "it was already made with these arguments in this attempt; its result stands above";
                self.push_result(call, is_text, self.refuse(call, reason.into()));
                rest = &rest[1..];
                continue;
            }
            let reads = self.leading_reads(rest, is_text);
            let name = self.agent.tools.known_name(&call.name);
            let more = if reads.len() > 1 { format!(" and {} more", reads.len() - 1) } else { String::new() };
            progress.update(self.share(turn + 1), format!("turn {turn}: tool `{name}`{more}"));
            let results =
                if reads.len() > 1 { self.call_reads(reads).await? } else { vec![self.call_tool(call).await?] };
            let (made, others) = rest.split_at(results.len());
            for (call, result) in made.iter().zip(results) {
                self.made.extend(self.made_call(call));
                self.note_act(call, &result);
                self.push_result(call, is_text, result);
            }
            rest = others;
        }
        Ok(())
    }

    /// Whether this attempt has made a call of the same tool with the same arguments.
    fn was_made(&self, call: &ToolCall) -> bool {
        self.made_call(call).is_some_and(|call| self.made.contains(&call))
    }

    /// The name and the arguments of a call. Arguments that cannot be read are never run.
    fn made_call(&self, call: &ToolCall) -> Option<(String, Value)> {
        Some((self.agent.tools.known_name(&call.name).to_owned(), read_arguments(&call.arguments).ok()?))
    }

    /// The calls at the beginning of `calls` that change nothing: none of them needs the result of another one.
    fn leading_reads<'c>(&self, calls: &'c [ToolCall], is_text: bool) -> Vec<ReadCall<'a, 'c>> {
        let agent = self.agent;
        let mut taken = Vec::new();
        let read = |call: &'c ToolCall| {
            let tool = agent.tools.find(&call.name).ok().filter(|tool| tool.is_free_read())?;
            let made = self.made_call(call)?;
            if is_text && (self.made.contains(&made) || taken.contains(&made)) {
                return None;
            }
            taken.push(made);
            Some(ReadCall { tool, call, arguments: read_arguments(&call.arguments).ok()? })
        };
        calls.iter().map_while(read).collect()
    }

    /// Runs calls that change nothing at the same time.
    async fn call_reads(&mut self, reads: Vec<ReadCall<'a, '_>>) -> Result<Vec<String>, Failure> {
        // They are free, so no budget ends them.
        let is_over = AtomicBool::new(false);
        let calls = reads.into_iter().map(|ReadCall { tool, call, arguments }| IndependentCall {
            name: tool.name(),
            inputs: &call.arguments,
            make: self.tool_run(tool, Ok(arguments), &is_over),
        });
        let results = self.calls.call_all(calls.collect());
        let results = timeout_at(self.deadline, results).await.map_err(|_| self.out_of_time())?;
        let mut texts = Vec::with_capacity(results.len());
        for result in results {
            let result = result?;
            self.count(&result);
            texts.push(result.outcome.text().to_owned());
        }
        Ok(texts)
    }

    /// Runs one tool call; the model gets the error if it fails. The tool gets the idempotency key of the call.
    async fn call_tool(&mut self, call: &ToolCall) -> Result<String, Failure> {
        let agent = self.agent;
        let tool = match agent.tools.find(&call.name) {
            Ok(tool) => tool,
            Err(reason) => return Ok(self.refuse(call, reason)),
        };
        let arguments = read_arguments(&call.arguments);
        if let Ok(arguments) = &arguments {
            let plan = match tool.plan_call(arguments).transpose() {
                Ok(plan) => plan,
                Err(reason) => return Ok(self.refuse(call, reason)),
            };
            if let Some(decided) = self.ask_about(tool, call, arguments).await? {
                return Ok(decided);
            }
            if let Some(plan) = plan {
                return self.run_plan(tool, call, plan).await;
            }
        }
        let result = self.run_tool(tool, call, arguments).await?;
        self.count(&result);
        Ok(result.outcome.text().to_owned())
    }

    /// Runs a tool when the result of the call is not recorded.
    ///
    /// - `is_over`: becomes true if the plan's budget has no room for the price of the tool.
    fn tool_run<'c>(
        &'c self,
        tool: &'c BoundTool,
        arguments: Result<Value, String>,
        is_over: &'c AtomicBool,
    ) -> MakeCall<'c> {
        let (task, limit) = (&self.tool_task, self.agent.settings.limits.result_bytes);
        let (budget, price) = (self.budget.clone(), tool.price());
        Box::new(move |id: CallId| {
            let run = async move {
                let reserved = (price > Usd::ZERO).then(|| budget.reserve(&TokenUsage::default(), price)).transpose();
                let mut reserved = reserved.map_err(|exceeded| {
                    is_over.store(matches!(exceeded, BudgetExceeded::Shared(_)), Ordering::Relaxed);
                    let message = format!("the tool `{}`: {exceeded}", tool.name());
                    Failure::new(FailureClass::Permanent, "AGENT_BUDGET_EXCEEDED", message)
                })?;
                // From here on it counts, also if the call is interrupted.
                reserved.iter_mut().for_each(|reserved| reserved.update(TokenUsage::default(), price));
                let task = Task { idempotency_key: id.idempotency_key, ..task.clone() };
                let result = match arguments {
                    Ok(arguments) => tool.run(&arguments, &task).await,
                    Err(error) => Err(format!("the arguments are not JSON: {error}")),
                };
                let usage = CallUsage { cost: price.dollars(), ..CallUsage::default() };
                Ok(CallResult::new(render_result(tool.name(), result, limit), usage))
            };
            Box::pin(run) as futures_util::future::BoxFuture<'_, _>
        })
    }

    async fn run_tool(
        &self,
        tool: &BoundTool,
        call: &ToolCall,
        arguments: Result<Value, String>,
    ) -> Result<CallResult, Failure> {
        let (price, is_over) = (tool.price(), AtomicBool::new(false));
        let make = self.tool_run(tool, arguments, &is_over);
        let called = timeout_at(self.deadline, self.calls.call(tool.name(), &call.arguments, make)).await;
        let result = called.map_err(|_| self.out_of_time())?;
        if is_over.load(Ordering::Relaxed) {
            let needs = CallNeeds { tokens: 0, cost: price.dollars() };
            return Err(self.end_over_budget(tool.name(), &call.arguments, needs));
        }
        result
    }

    /// Runs the plan that a call asks for. The step waits for its end without a worker.
    async fn run_plan(&self, tool: &BoundTool, call: &ToolCall, plan: PlanCall) -> Result<String, Failure> {
        let PlanCall { plan, inputs, limit_ms, text } = plan;
        let wait = CallWait {
            plan: Some(Json::from_value(&plan)),
            inputs: inputs.as_ref().map(Json::from_value),
            limit_ms,
            ..CallWait::new(CallWaitKind::Plan, text)
        };
        let outcome = self.calls.wait(tool.name(), &call.arguments, wait).await?.outcome.value();
        let result = tool.read_outcome(&outcome);
        Ok(render_result(tool.name(), result, self.agent.settings.limits.result_bytes).to_string())
    }

    /// Asks a person the question of the call, or whether the call may be run. Returns the result if the call is not
    /// run.
    async fn ask_about(&self, tool: &BoundTool, call: &ToolCall, arguments: &Value) -> Result<Option<String>, Failure> {
        let limit = self.agent.settings.limits.result_bytes;
        if let Some(question) = tool.question(arguments) {
            let answered = self.calls.wait(tool.name(), &call.arguments, question).await?.outcome.value();
            let result = match answered.get("answer") {
                Some(answer) => Ok(json!({"answer": answer})),
                None => Err(answered["error"].as_str().unwrap_or("nobody answered").to_owned()),
            };
            return Ok(Some(render_result(tool.name(), result, limit).to_string()));
        }
        if !tool.needs_approval() || tool.check_tool_arguments(arguments).is_err() {
            return Ok(None);
        }
        let text =
            format!("run the tool `{}` with {}", tool.name(), shorten(&arguments.to_string(), APPROVAL_CHARS_MAX));
        let wait = CallWait::new(CallWaitKind::Approval, text);
        let decided =
            self.calls.wait(&format!("approve {}", tool.name()), &call.arguments, wait).await?.outcome.value();
        if decided["approved"] == true {
            return Ok(None);
        }
        let reason = decided["reason"].as_str().filter(|reason| !reason.is_empty()).unwrap_or("no reason was given");
        Ok(Some(self.refuse(call, format!("a person refused this call: {reason}"))))
    }
}
