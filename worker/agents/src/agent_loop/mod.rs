//! One step: calls the model and runs its tool calls until the model gives a valid answer or a limit is reached.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use goalmill_common::call::CallNeeds;
use goalmill_common::error_body::quote_beginning;
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::number::milliseconds;
use goalmill_common::report::TokenSplit;
use goalmill_common::task::Task;
use goalmill_llm::{
    CompletionRequest, Message, Purpose, ResponseFormat, SpendBudget, SpendLimit, Tool, ToolCall, ToolChoice, Usd,
};
use goalmill_worker::executor::{CallResult, CallUsage, Calls, Progress};
use serde_json::Value;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::answer_format::AnswerFormat;
use crate::llm_agent::LlmAgent;
use crate::model_failure::model_failure;
use crate::prompt::{render_result, render_task};
use crate::streamed_reply::complete;
use crate::tools::BoundTool;

mod model_reply;
mod spending;
mod tool_calls;

pub use model_reply::written_calls;

use model_reply::ModelReply;
use spending::{is_over_plan, limit_of, needs_of, used};

/// The tool with which an agent that has tools gives its answer.
const FINAL_ANSWER: &str = "final_answer";
/// Name of the schema of an answer.
const ANSWER_NAME: &str = "answer";
/// Name of recorded model calls.
const MODEL_CALL: &str = "model";
/// The reply to a model that writes a call among sentences; it is sent once.
const CALL_OR_ANSWER: &str = "The tool call was not run, because it stands among other words. If you want to call the \
                              tool, reply with the call and nothing else. Otherwise reply with the answer.";

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
    invalid_answers: u32,
    /// The next reply must be an answer.
    must_answer: bool,
    /// The model knows that a call among sentences is not run.
    is_told_to_call: bool,
    /// Calls of tools that this attempt has made: name and arguments.
    made: Vec<(String, Value)>,
    act: Act,
}

/// What the loop knows of the side effect of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    /// The action has none.
    None,
    /// No tool that can change something was called successfully.
    Open,
    /// The same, and the model knows it.
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
        let messages = vec![Message::system(system), Message::user(task_text)];
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
            invalid_answers: 0,
            must_answer: false,
            is_told_to_call: false,
            made: Vec::new(),
            act: if agent.action(task).is_some_and(|action| action.side_effect) { Act::Open } else { Act::None },
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
                let reply = ModelReply::from_completion(&completion, &format);
                let reply = serde_json::to_value(&reply).expect("a reply always has a JSON form");
                // Every attempt at the call costs, not only the last one.
                let mut usage = CallUsage::default();
                completion.attempts.iter().for_each(|attempt| usage.add(&used(&attempt.usage, attempt.cost)));
                Ok(CallResult::new(reply, usage))
            };
            Box::pin(call) as futures_util::future::BoxFuture<'_, _>
        });
        let conversation = self.conversation();
        let called = timeout_at(self.deadline, self.calls.call(MODEL_CALL, &conversation, make)).await;
        let result = called.map_err(|_| self.out_of_time())?;
        if is_over.load(Ordering::Relaxed) {
            return Err(self.end_over_budget(MODEL_CALL, &conversation, needs));
        }
        let result = result?;
        self.count(&result);
        serde_json::from_str(result.outcome.text()).map_err(|error| {
            let message = format!("the recorded reply of the model cannot be read: {error}");
            Failure::new(FailureClass::Permanent, "CALL_INVALID", message)
        })
    }

    /// What identifies a call of the model: the conversation without the instructions of the agent, which may change while
    /// the step runs.
    fn conversation(&self) -> String {
        serde_json::to_string(&self.messages[1..]).expect("messages always have a JSON form")
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
        let ModelReply { text, mut tool_calls, is_cut, is_text, mentions_calls, model, provider_fields } = reply;
        // The reply is the answer; what it quotes is not run.
        if is_text && self.format.holds_answer(&text) {
            tool_calls.clear();
        }
        tracing::debug!(
            plan_id = %self.task.plan, step_id = %self.task.step,
            "turn {turn} of step `{}`: model `{model}` calls {} tools", self.task.step, tool_calls.len()
        );
        let sent_calls = if is_text { Vec::new() } else { tool_calls.clone() };
        self.messages.push(Message::Assistant { text: text.clone(), tool_calls: sent_calls, provider_fields });
        let final_call = tool_calls.iter().find(|call| call.name == FINAL_ANSWER);
        if tool_calls.is_empty()
            && mentions_calls
            && !is_cut
            && !self.is_told_to_call
            && self.format.parse(&text).is_err()
        {
            self.is_told_to_call = true;
            self.messages.push(Message::user(CALL_OR_ANSWER));
            return Ok(None);
        }
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
        let refusal = format!("The answer is not valid: {reason}. Correct it and give the whole answer again.");
        self.refuse_answer(tool_calls, is_text, &refusal);
        Ok(())
    }

    /// Tells the model once that it has not done what its action is for.
    fn request_act(&mut self, tool_calls: &[ToolCall], is_text: bool) {
        self.act = Act::Told;
        let refusal = "Nothing was done: no tool that changes something was called successfully. Call the tool that does \
                    it, then answer. If it cannot or need not be done, say so and why in the answer.";
        self.refuse_answer(tool_calls, is_text, refusal);
    }

    /// Notes whether a call has done something.
    fn note_act(&mut self, call: &ToolCall, result: &str) {
        let may_act = self.agent.tools.find(&call.name).is_ok_and(BoundTool::may_act);
        if self.act != Act::None && may_act && succeeded(result) {
            self.act = Act::Done;
        }
    }

    /// Tells the model why its reply is no answer.
    fn refuse_answer(&mut self, tool_calls: &[ToolCall], is_text: bool, refusal: &str) {
        if tool_calls.is_empty() {
            self.messages.push(Message::user(refusal.to_owned()));
            return;
        }
        // Servers require a result for each call.
        for call in tool_calls {
            let is_answer = call.name == FINAL_ANSWER;
            let reason = if is_answer { refusal } else { "not run: it came together with an answer" };
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
