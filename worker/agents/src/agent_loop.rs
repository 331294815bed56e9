//! One step: calls the model and runs its tool calls until the model gives a valid answer or a limit is reached.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use goalmill_common::call::{CallBudget, CallNeeds, CallWait, CallWaitKind};
use goalmill_common::error_body::quote_beginning;
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::json::Json;
use goalmill_common::number::milliseconds;
use goalmill_common::report::TokenSplit;
use goalmill_common::task::Task;
use goalmill_common::text::shorten;
use goalmill_llm::{
    BudgetExceeded, Completion, CompletionRequest, Message, ModelError, ProviderFields, Purpose, ResponseFormat,
    ResponseMode, SpendBudget, SpendLimit, TokenUsage, Tool, ToolCall, ToolChoice, Usd,
};
use goalmill_reader::{ParsedCall, ReaderLimits, ToolCatalogue, parse_calls};
use goalmill_worker::executor::{
    CallId, CallResult, CallUsage, Calls, IndependentCall, MakeCall, Progress, over_budget,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::answer_format::AnswerFormat;
use crate::answer_text::read_arguments;
use crate::llm_agent::LlmAgent;
use crate::model_failure::model_failure;
use crate::prompt::{render_result, render_task};
use crate::streamed_reply::complete;
use crate::tools::{BoundTool, PlanCall};

/// The tool with which an agent that has tools gives its answer.
const FINAL_ANSWER: &str = "final_answer";
/// Name of the schema of an answer.
const ANSWER_NAME: &str = "answer";
/// Characters of the arguments that a person sees before a tool is run.
const APPROVAL_CHARS_MAX: usize = 3_500;
/// Name of recorded model calls.
const MODEL_CALL: &str = "model";

/// The part of a completion that the loop uses; recorded as the outcome of the call.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct ModelReply {
    text: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<ToolCall>,
    /// The reply ended early.
    #[serde(default)]
    is_cut: bool,
    /// Calls stand in the text, so results are sent as texts.
    #[serde(default)]
    is_text: bool,
    /// Name of the model in the settings.
    model: String,
    /// What the server wants back with the calls.
    #[serde(default, skip_serializing_if = "ProviderFields::is_empty")]
    provider_fields: ProviderFields,
}

impl ModelReply {
    fn read(completion: &Completion, format: &ResponseFormat) -> Self {
        let (text, tool_calls) = match format {
            // Some models write calls as text although the server has tools.
            ResponseFormat::Tools { tools, .. } if completion.tool_calls.is_empty() => {
                (completion.text.clone(), written_calls(&completion.text, tools))
            }
            ResponseFormat::Tools { .. } => (completion.text.clone(), completion.tool_calls.clone()),
            ResponseFormat::Json { .. } | ResponseFormat::Text => (completion.content().to_owned(), Vec::new()),
        };
        let is_text = completion.mode == ResponseMode::Text || completion.tool_calls.is_empty();
        Self {
            text,
            tool_calls,
            is_cut: completion.is_truncated(),
            is_text,
            model: completion.model.clone(),
            provider_fields: completion.provider_fields.clone(),
        }
    }
}

/// Parses the calls of known tools that a model wrote as text.
pub fn written_calls(text: &str, tools: &[Tool]) -> Vec<ToolCall> {
    let known = ToolCatalogue::from_schemas(tools.iter().map(|tool| (tool.name.as_str(), Some(&tool.parameters))));
    let reading = parse_calls(text, &known, &ReaderLimits::default());
    let call = |(at, call): (usize, ParsedCall)| ToolCall {
        id: format!("call_{at}"),
        name: call.name,
        arguments: Value::Object(call.arguments).to_string(),
        ..ToolCall::default()
    };
    reading.calls.into_iter().filter(|call| call.known).enumerate().map(call).collect()
}

/// A call of a tool that changes nothing.
struct ReadCall<'a, 'c> {
    tool: &'a BoundTool,
    call: &'c ToolCall,
    arguments: Value,
}

/// The state of one attempt.
pub(crate) struct AgentLoop<'a> {
    agent: &'a LlmAgent,
    task: &'a Task,
    /// The task without its recorded calls, for tools.
    tool_task: Task,
    calls: &'a dyn Calls,
    format: AnswerFormat,
    budget: SpendBudget,
    /// What the calls that were made or replayed have used up.
    recorded: (TokenSplit, Usd),
    deadline: Instant,
    messages: Vec<Message>,
    /// The text of the task. It identifies the calls of the model, because all other messages follow from recorded
    /// calls.
    task_text: String,
    invalid_answers: u32,
    /// The next reply must be an answer.
    must_answer: bool,
    act: Act,
}

/// What the loop knows of the side effect of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    /// The action has none.
    None,
    /// No tool that can change something was called successfully.
    Open,
    /// The same, and the model was told so.
    Told,
    Done,
}

impl<'a> AgentLoop<'a> {
    pub fn new(
        agent: &'a LlmAgent,
        task: &'a Task,
        format: AnswerFormat,
        system: String,
        calls: &'a dyn Calls,
    ) -> Self {
        let limits = &agent.settings.limits;
        let limit = SpendLimit { tokens: Some(limits.tokens), cost: limits.cost.map(Usd::from_dollars) };
        let task_text = render_task(agent, task);
        let messages = vec![Message::system(system), Message::user(task_text.clone())];
        Self {
            agent,
            task,
            tool_task: Task { calls: Vec::new(), ..task.clone() },
            calls,
            format,
            budget: SpendBudget::part_of(SpendBudget::new(limit_of(task.budget.as_ref())), limit),
            recorded: (TokenSplit::default(), Usd::ZERO),
            deadline: Instant::now() + Duration::from_secs(limits.seconds),
            messages,
            task_text,
            invalid_answers: 0,
            must_answer: false,
            act: if agent.action(task).is_some_and(|action| action.side_effect) { Act::Open } else { Act::None },
        }
    }

    /// What was used up by calls that have failed: no recorded call has it.
    pub fn unrecorded(&self) -> CallUsage {
        let spent = self.budget.spent();
        let (tokens, cost) = &self.recorded;
        CallUsage {
            cost: spent.cost.minus(*cost).dollars(),
            tokens: TokenSplit {
                prompt_tokens: spent.input_tokens.saturating_sub(tokens.prompt_tokens),
                completion_tokens: spent.output_tokens.saturating_sub(tokens.completion_tokens),
            },
        }
    }

    /// Returns why the side effect of the action is not done, whatever the answer says.
    ///
    /// - `answer`: quoted, because it may say why.
    pub fn undone_act(&self, answer: &Value) -> Option<Failure> {
        if matches!(self.act, Act::None | Act::Done) {
            return None;
        }
        let action = self.agent.action(self.task).map_or("", |action| action.name.as_str());
        let message = format!(
            "the action `{action}` has a side effect, and no tool that can change something was called successfully, so it \
             was not done; the answer begins with `{}`",
            quote_beginning(&answer.to_string())
        );
        Some(Failure::new(FailureClass::Permanent, "AGENT_ACT_NOT_DONE", message))
    }

    /// Returns the valid answer.
    pub async fn run(&mut self, progress: &Progress, cancelled: &CancellationToken) -> Result<Value, Failure> {
        let turns = self.agent.settings.limits.turns;
        for turn in 1..=turns {
            progress.update(self.share(turn), format!("turn {turn}: the model is asked"));
            let must_answer = turn == turns || self.must_answer;
            let reply = self.ask_model(must_answer, turn, progress, cancelled).await?;
            if let Some(answer) = self.handle_reply(reply, turn, progress).await? {
                return Ok(answer);
            }
        }
        let message = format!("the agent gave no valid answer within {turns} calls of the model (`limits.turns`)");
        Err(Failure::new(FailureClass::Permanent, "AGENT_TURNS_EXCEEDED", message))
    }

    async fn ask_model(
        &mut self,
        must_answer: bool,
        turn: u32,
        progress: &Progress,
        cancelled: &CancellationToken,
    ) -> Result<ModelReply, Failure> {
        let request = self.request(must_answer, cancelled);
        let (models, budget) = (self.agent.models.clone(), self.task.budget.as_ref());
        let shown = self.agent.settings.stream.then(|| (progress.clone(), self.share(turn), turn));
        let is_over = AtomicBool::new(false);
        let needs = if budget.is_some() { needs_of(models.max_usage(&request)) } else { CallNeeds::default() };
        let make = Box::new(|_| {
            let (is_over, format) = (&is_over, request.format.clone());
            let call = async move {
                let completion = complete(&models, request, shown).await.map_err(|error| {
                    is_over.store(is_over_plan(&error), Ordering::Relaxed);
                    model_failure(&error, &models)
                })?;
                let reply = ModelReply::read(&completion, &format);
                let reply = serde_json::to_value(&reply).expect("a reply always has a JSON form");
                // Every attempt at the call costs, not only the last one.
                let mut usage = CallUsage::default();
                completion.attempts.iter().for_each(|attempt| usage.add(&used(&attempt.usage, attempt.cost)));
                Ok(CallResult::new(reply, usage))
            };
            Box::pin(call) as futures_util::future::BoxFuture<'_, _>
        });
        let called = timeout_at(self.deadline, self.calls.call(MODEL_CALL, &self.task_text, make)).await;
        let result = called.map_err(|_| self.out_of_time())?;
        if is_over.load(Ordering::Relaxed) {
            return Err(self.end_over_budget(MODEL_CALL, &self.task_text, needs));
        }
        let result = result?;
        self.count(&result);
        serde_json::from_str(result.outcome.text()).map_err(|error| {
            let message = format!("the recorded reply of the model cannot be read: {error}");
            Failure::new(FailureClass::Permanent, "CALL_INVALID", message)
        })
    }

    /// Ends the attempt because a call does not fit into the budget of the plan: it waits for more, if there may be
    /// more.
    fn end_over_budget(&self, name: &str, inputs: &str, needs: CallNeeds) -> Failure {
        match &self.task.budget {
            Some(CallBudget { last: false, .. }) => self.calls.wait_for_budget(name, inputs, needs),
            Some(CallBudget { last: true, .. }) | None => over_budget(name, needs),
        }
    }

    /// Counts a call whose usage is recorded.
    fn count(&mut self, result: &CallResult) {
        let (tokens, cost) = &mut self.recorded;
        let more = result.usage.tokens;
        tokens.prompt_tokens = tokens.prompt_tokens.saturating_add(more.prompt_tokens);
        tokens.completion_tokens = tokens.completion_tokens.saturating_add(more.completion_tokens);
        *cost += Usd::from_dollars(result.usage.cost);
        if result.is_replayed {
            let (usage, cost) = reserved(&result.usage);
            self.budget.record_call(&usage, cost);
        }
    }

    /// The share of the turns before this one.
    fn share(&self, turn: u32) -> f64 {
        f64::from(turn - 1) / f64::from(self.agent.settings.limits.turns)
    }

    fn request(&self, must_answer: bool, cancelled: &CancellationToken) -> CompletionRequest {
        let settings = &self.agent.settings;
        let parameters = self.format.parameters().clone();
        let format = if self.agent.tools.is_empty() {
            ResponseFormat::Json { name: ANSWER_NAME.into(), schema: parameters.into() }
        } else {
            let mut tools = self.agent.tools.definitions();
            let description = "Gives the answer of the task and ends the work.".into();
            tools.push(Tool { name: FINAL_ANSWER.into(), description, parameters });
            let choice = if must_answer { ToolChoice::Named(FINAL_ANSWER.into()) } else { ToolChoice::Auto };
            ResponseFormat::Tools { tools, choice }
        };
        let left = self.deadline.saturating_duration_since(Instant::now());
        CompletionRequest {
            tier: settings.tier,
            purpose: Purpose::Step,
            model: settings.model.clone(),
            temperature: settings.temperature,
            output_tokens_max: settings.output_tokens_max,
            timeout_ms: Some(milliseconds(left)),
            budget: self.budget.clone(),
            // Nothing more is to be had: a shorter answer is better than none.
            shorten_to_budget: self.task.budget.is_some_and(|budget| budget.last),
            cancel: cancelled.clone(),
            ..CompletionRequest::new(self.messages.clone(), format)
        }
    }

    /// Runs the tool calls of a reply, or reads the answer in the reply. `None`: continue with the next turn.
    async fn handle_reply(
        &mut self,
        reply: ModelReply,
        turn: u32,
        progress: &Progress,
    ) -> Result<Option<Value>, Failure> {
        let ModelReply { text, tool_calls, is_cut, is_text, model, provider_fields } = reply;
        tracing::debug!(
            plan_id = %self.task.plan, step_id = %self.task.step,
            "turn {turn} of step `{}`: model `{model}` calls {} tools", self.task.step, tool_calls.len()
        );
        let sent_calls = if is_text { Vec::new() } else { tool_calls.clone() };
        self.messages.push(Message::Assistant { text: text.clone(), tool_calls: sent_calls, provider_fields });
        let final_call = tool_calls.iter().find(|call| call.name == FINAL_ANSWER);
        if final_call.is_some() || tool_calls.is_empty() {
            let given = final_call.map_or(text.as_str(), |call| call.arguments.as_str());
            return self.handle_answer(given, &tool_calls, (is_cut, is_text), turn);
        }
        let whole = tool_calls.len() - usize::from(is_cut);
        let (runnable, refused) = tool_calls.split_at(whole.min(self.agent.settings.limits.calls_per_turn));
        self.run_calls(runnable, is_text, turn, progress).await?;
        for (at, call) in refused.iter().enumerate() {
            let is_last = runnable.len() + at + 1 == tool_calls.len();
            let reason = if is_cut && is_last && runnable.len() == whole {
                "the call was cut at the token limit of the reply"
            } else {
                "too many calls at once; call it again"
            };
            self.push_result(call, is_text, self.refuse(call, reason.into()));
        }
        Ok(None)
    }

    /// Takes the answer of a reply, or asks the model for what it lacks.
    fn handle_answer(
        &mut self,
        given: &str,
        tool_calls: &[ToolCall],
        (is_cut, is_text): (bool, bool),
        turn: u32,
    ) -> Result<Option<Value>, Failure> {
        let parsed = if is_cut {
            Err("the reply was cut at its token limit; be shorter".into())
        } else {
            self.format.parse(given)
        };
        match parsed {
            // A call and another answer need two turns.
            Ok(_) if self.act == Act::Open && turn + 1 < self.agent.settings.limits.turns => {
                self.request_act(tool_calls, is_text);
                Ok(None)
            }
            Ok(answer) => Ok(Some(answer)),
            Err(reason) => {
                let code = if is_cut { "AGENT_ANSWER_TRUNCATED" } else { "AGENT_ANSWER_INVALID" };
                self.request_repair(tool_calls, is_text, code, &reason, given).map(|()| None)
            }
        }
    }

    /// Makes the calls in their order, those that only read side by side, and adds their results to the messages.
    async fn run_calls(
        &mut self,
        calls: &[ToolCall],
        is_text: bool,
        turn: u32,
        progress: &Progress,
    ) -> Result<(), Failure> {
        let mut rest = calls;
        while let Some(call) = rest.first() {
            let reads = self.leading_reads(rest);
            let name = self.agent.tools.known_name(&call.name);
            let more = if reads.len() > 1 { format!(" and {} more", reads.len() - 1) } else { String::new() };
            progress.update(self.share(turn + 1), format!("turn {turn}: tool `{name}`{more}"));
            let results =
                if reads.len() > 1 { self.call_reads(reads).await? } else { vec![self.call_tool(call).await?] };
            let (made, others) = rest.split_at(results.len());
            for (call, result) in made.iter().zip(results) {
                self.note_act(call, &result);
                self.push_result(call, is_text, result);
            }
            rest = others;
        }
        Ok(())
    }

    /// The calls at the beginning of `calls` that change nothing: none of them needs the result of another one.
    fn leading_reads<'c>(&self, calls: &'c [ToolCall]) -> Vec<ReadCall<'a, 'c>> {
        let agent = self.agent;
        let read = |call: &'c ToolCall| {
            let tool = agent.tools.find(&call.name).ok().filter(|tool| tool.is_free_read())?;
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

    /// Tells the model what is wrong with its answer, or ends the step after too many invalid answers.
    ///
    /// - `code`: of the failure of the step.
    /// - `given`: the answer, which the failure quotes.
    fn request_repair(
        &mut self,
        tool_calls: &[ToolCall],
        is_text: bool,
        code: &str,
        reason: &str,
        given: &str,
    ) -> Result<(), Failure> {
        self.invalid_answers += 1;
        let limits = &self.agent.settings.limits;
        if self.invalid_answers > limits.repairs {
            let quoted = quote_beginning(given);
            let begins = if quoted.is_empty() { String::new() } else { format!("; it begins with `{quoted}`") };
            let count = self.invalid_answers;
            let message = format!("the agent gave {count} invalid answers; the last one: {reason}{begins}");
            return Err(Failure::new(FailureClass::Permanent, code, message));
        }
        // A text without an answer may be a thought before the next tool call, once.
        self.must_answer = !tool_calls.is_empty() || self.invalid_answers > 1;
        let told = format!("The answer is not valid: {reason}. Correct it and give the whole answer again.");
        self.refuse_answer(tool_calls, is_text, &told);
        Ok(())
    }

    /// Tells the model once that it has not done what its action is for.
    fn request_act(&mut self, tool_calls: &[ToolCall], is_text: bool) {
        self.act = Act::Told;
        let told = "Nothing was done: no tool that changes something was called successfully. Call the tool that does \
                    it, then answer. If it cannot or need not be done, say so and why in the answer.";
        self.refuse_answer(tool_calls, is_text, told);
    }

    /// Notes whether a call has done something.
    fn note_act(&mut self, call: &ToolCall, result: &str) {
        let may_act = self.agent.tools.find(&call.name).is_ok_and(BoundTool::may_act);
        if self.act != Act::None && may_act && succeeded(result) {
            self.act = Act::Done;
        }
    }

    /// Tells the model why its reply is no answer.
    fn refuse_answer(&mut self, tool_calls: &[ToolCall], is_text: bool, told: &str) {
        if tool_calls.is_empty() {
            self.messages.push(Message::user(told.to_owned()));
            return;
        }
        // Servers require a result for each call.
        for call in tool_calls {
            let is_answer = call.name == FINAL_ANSWER;
            let reason = if is_answer { told } else { "not run: it came together with an answer" };
            self.push_result(call, is_text, self.refuse(call, reason.into()));
        }
    }

    /// Adds the result of a tool call to the conversation.
    fn push_result(&mut self, call: &ToolCall, is_text: bool, text: String) {
        self.messages.push(if is_text {
            Message::user(format!("Result of a tool, as JSON data:\n{text}"))
        } else {
            Message::Tool { call_id: call.id.clone(), name: call.name.clone(), text }
        });
    }

    /// The result of a call that is not run.
    fn refuse(&self, call: &ToolCall, reason: String) -> String {
        render_result(&call.name, Err(reason), self.agent.settings.limits.result_bytes).to_string()
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
            plan: Some(Json::of(&plan)),
            inputs: inputs.as_ref().map(Json::of),
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
        if !tool.needs_approval() || tool.check(arguments).is_err() {
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

    fn out_of_time(&self) -> Failure {
        let seconds = self.agent.settings.limits.seconds;
        let message = format!("the agent gave no answer within {seconds} seconds (`limits.seconds`)");
        Failure::new(FailureClass::Timeout, "AGENT_TIME_EXCEEDED", message)
    }
}

/// Whether the result of a tool, as the model reads it, is no error.
fn succeeded(result: &str) -> bool {
    serde_json::from_str::<Value>(result).is_ok_and(|result| result["ok"] == true)
}

/// The limit that the plan sets.
fn limit_of(budget: Option<&CallBudget>) -> SpendLimit {
    let Some(budget) = budget else { return SpendLimit::default() };
    SpendLimit { tokens: budget.tokens, cost: budget.cost.map(Usd::from_dollars) }
}

fn needs_of((tokens, cost): (u64, Usd)) -> CallNeeds {
    CallNeeds { tokens, cost: cost.dollars() }
}

/// Whether a call was not made because of the budget of the plan, and not because of the agent's own limits.
fn is_over_plan(error: &ModelError) -> bool {
    matches!(error, ModelError::OverBudget { exceeded: BudgetExceeded::Shared(_), .. })
}

fn used(usage: &TokenUsage, cost: Usd) -> CallUsage {
    let tokens = TokenSplit { prompt_tokens: usage.input_tokens, completion_tokens: usage.output_tokens };
    CallUsage { cost: cost.dollars(), tokens }
}

/// The usage of a replayed call, in the types of budgets.
fn reserved(usage: &CallUsage) -> (TokenUsage, Usd) {
    let TokenSplit { prompt_tokens: input_tokens, completion_tokens: output_tokens } = usage.tokens;
    (TokenUsage { input_tokens, output_tokens, estimated: false }, Usd::from_dollars(usage.cost))
}
