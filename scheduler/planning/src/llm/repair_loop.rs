//! The generate, validate, critique loop; the best of several first answers (n-best candidates) is taken.
//!
//! A critique holds the located issues and the steps that they are about, never the conversation so far: its length
//! does not grow with the rounds, and another model than the draft's can answer it. So a cheap model writes, and a
//! strong one corrects.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use goalmill_common::config::LlmSettings;
use goalmill_common::goal::{Budget, Planning, Usage};
use goalmill_common::problem::Issue;
use goalmill_llm::{
    Completion, CompletionOutcome, CompletionRequest, FinishReason, ModelError, ModelRegistry, ModelTier, Purpose,
    ResponseFormat, SpendBudget, SpendLimit, Usd,
};
use serde_json::Value;
use tokio::time::Instant;

use super::LlmDeps;
use super::prompt_store::{Prompt, PromptError};
use crate::PlanningError;
use crate::call_log::{CallLog, CallScope, CallStart, RanTool};
use crate::provenance::{Provenance, Round};

/// Issues that count beyond which it does not task how many there are.
const ISSUES_SHOWN_MAX: usize = 20;

/// What became of an answer.
#[derive(Debug)]
pub enum DraftVerdict<T> {
    Valid(T),
    /// It can be read, and does not hold.
    Invalid {
        draft: Value,
        issues: Vec<Issue>,
    },
    /// It cannot be read, or was cut.
    Unparseable {
        reason: String,
    },
}

/// What holds.
#[derive(Debug)]
pub struct AcceptedDraft<T> {
    pub output: T,
    /// The model that wrote it.
    pub model: String,
    /// Further valid answers among first answers that were requested concurrently.
    pub others: Vec<(T, String)>,
    /// Whether one of the first answers, requested concurrently, is valid.
    pub is_at_once: bool,
}

impl<T> AcceptedDraft<T> {
    /// What holds of the first answer.
    pub fn one(output: T, model: String) -> Self {
        Self { output, model, others: Vec::new(), is_at_once: true }
    }
}

/// Something that a model is to write.
pub trait GenerationTask: Sync {
    type Output: Send;

    /// The first question.
    ///
    /// - `note`: why the last answer was no use, if there was one.
    fn first(&self, note: Option<&str>) -> Result<Prompt, PromptError>;

    /// The question after an answer that does not hold.
    fn critique(&self, draft: &Value, issues: &[Issue], note: Option<&str>) -> Result<Prompt, PromptError>;

    /// Reads and checks an answer.
    ///
    /// - `before`: the draft that was criticised.
    fn evaluate_answer(
        &self,
        text: &str,
        is_cut: bool,
        before: Option<&Value>,
        round: &mut Round,
    ) -> DraftVerdict<Self::Output>;

    /// The form of the answer.
    ///
    /// - `before`: the draft that is criticised.
    fn want(&self, before: Option<&Value>) -> ResponseFormat;

    /// Whether another model may start over.
    fn may_start_over(&self) -> bool {
        true
    }
}

/// One plan's, or one revision's, questions to models.
pub struct RepairLoop<'a> {
    pub models: &'a Arc<ModelRegistry>,
    /// Of the installation, with the goal's parameters in their place.
    pub settings: LlmSettings,
    pub spend: SpendBudget,
    pub provenance: Provenance,
    scope: CallScope,
    pub purpose: Purpose,
    /// When the pipeline stops waiting.
    pub until: Option<Instant>,
    without: BTreeSet<String>,
    /// Asked before all others.
    first: Option<String>,
    /// No other model is asked.
    is_only: bool,
    /// Of questions that are no repair.
    stage: ModelTier,
}

/// Where the repair_loop about one model's draft stands.
struct RepairProgress {
    /// Who wrote the draft; as long as there is none, who answered last.
    author: String,
    draft: Option<(Value, Vec<Issue>)>,
    note: Option<String>,
    fewest: usize,
    stalled: u32,
    rounds: u32,
}

impl RepairProgress {
    fn new() -> Self {
        Self { author: String::new(), draft: None, note: None, fewest: usize::MAX, stalled: 0, rounds: 0 }
    }

    /// Notes who answered.
    fn by(&mut self, model: String) {
        if self.draft.is_none() {
            self.author = model;
        }
    }

    fn bad(&mut self, draft: Value, issues: Vec<Issue>) {
        let is_better = issues.len() < self.fewest;
        self.stalled = if is_better { 0 } else { self.stalled + 1 };
        if issues.len() <= self.fewest {
            self.fewest = issues.len();
            self.draft = Some((draft, issues));
        }
        self.note = None;
    }

    fn unreadable(&mut self, reason: String) {
        self.stalled += 1;
        self.note = Some(reason);
    }

    fn is_over(&self, settings: &LlmSettings) -> bool {
        self.stalled >= settings.stalled_max || self.rounds > settings.rounds_max
    }
}

impl<'a> RepairLoop<'a> {
    /// - `planner`: who asks.
    /// - `budget`: what the goal, or what is left of it, allows.
    /// - `planning`: the goal's parameters; its model is asked first, or alone.
    pub fn new(
        deps: &'a LlmDeps,
        call_log: &CallLog,
        planner: &'static str,
        budget: &Budget,
        purpose: Purpose,
        planning: &Planning,
    ) -> Self {
        let (models, settings) = (&deps.models, deps.settings_for(planning));
        let budget = call_log.left_of(budget);
        let tokens = budget.tokens.map_or(settings.tokens_max, |tokens| tokens.min(settings.tokens_max));
        let cost = budget.cost.map(|cost| Usd::from_dollars(cost.max(0.0)));
        let spend = SpendBudget::new(SpendLimit { tokens: Some(tokens), cost });
        let provenance = Provenance::new().with_reasoning(settings.reasoning_chars_max);
        Self {
            models,
            settings,
            scope: call_log.scope(planner, &spend, &provenance),
            spend,
            provenance,
            purpose,
            until: Instant::now().checked_add(deps.timeout),
            without: BTreeSet::new(),
            first: planning.model.clone(),
            is_only: planning.model_only && planning.model.is_some(),
            stage: ModelTier::Cheap,
        }
    }

    /// From now on half of the time that is left is all; gives it.
    pub fn halve(&mut self) -> Duration {
        let now = Instant::now();
        let half = self.until.map_or(Duration::MAX, |until| until.saturating_duration_since(now) / 2);
        self.until = now.checked_add(half);
        half
    }

    /// What was spent, as plans count it.
    pub fn usage(&self) -> Usage {
        let spent = self.spend.spent();
        Usage { tokens: spent.tokens(), cost: spent.cost.dollars() }
    }

    /// Repairs, revisions and reviews ask strong models.
    fn stage(&self, purpose: Purpose) -> ModelTier {
        match purpose {
            Purpose::Repair | Purpose::Replan | Purpose::Review => ModelTier::Strong,
            Purpose::Plan | Purpose::Embed | Purpose::Step => self.stage,
        }
    }

    /// The question as it is sent.
    pub fn question(&self, prompt: &Prompt, want: ResponseFormat, purpose: Purpose) -> CompletionRequest {
        CompletionRequest {
            shorten_to_budget: true,
            tier: self.stage(purpose),
            purpose,
            excluded_models: self.without.clone(),
            model: self.first.clone().filter(|_| self.is_only),
            preferred_model: self.first.clone(),
            temperature: self.settings.temperature,
            output_tokens_max: Some(self.settings.output_tokens_max),
            deadline: self.until,
            budget: self.spend.clone(),
            progress: self.scope.progress(),
            ..CompletionRequest::new(prompt.messages.clone(), want)
        }
    }

    /// Whether what is left is enough for a question and a short answer, by whichever model.
    pub fn fits(&self, question: &CompletionRequest) -> bool {
        let (tokens, cost) = self.models.max_usage(question);
        let left = self.spend.remaining();
        left.tokens.is_none_or(|left| tokens <= left) && left.cost.is_none_or(|left| cost <= left)
    }

    /// The answer to a question: from a model, unless another scheduler had it before it ended.
    pub async fn complete(&self, prompt: &Prompt, question: &CompletionRequest) -> Result<Completion, ModelError> {
        let call = match self.begin(prompt, question).await {
            CallStart::Replayed(answer) => return Ok(*answer),
            CallStart::Abandoned => return Err(ModelError::Cancelled),
            CallStart::Call(call) => call,
        };
        let result = self.models.complete(question).await;
        self.scope.end(call, &result).await;
        result
    }

    /// Writes down that a question is about to be put.
    pub async fn begin(&self, prompt: &Prompt, question: &CompletionRequest) -> CallStart {
        let (tokens, cost) = self.models.max_usage(question);
        self.scope.begin(&prompt.template, Usage { tokens, cost: cost.dollars() }).await
    }

    /// Writes down how it was answered.
    pub async fn end(&self, call: u32, result: &Result<Completion, ModelError>) {
        self.scope.end(call, result).await;
    }

    /// Writes down the tools that the last answer has called.
    pub async fn record_tools(&self, ran: Vec<RanTool>) {
        self.scope.tools_called(ran).await;
    }

    /// Asks until something holds, by one model after the other.
    ///
    /// - `begun`: an answer that came already, with the model that gave it.
    pub async fn run<M: GenerationTask>(
        &mut self,
        task: &M,
        begun: Option<(DraftVerdict<M::Output>, String)>,
    ) -> Result<AcceptedDraft<M::Output>, PlanningError> {
        let mut best: Option<Vec<Issue>> = None;
        let mut last_note = None;
        let mut begun = begun;
        let mut is_first = true;
        loop {
            let mut progress = RepairProgress::new();
            if let Some((judged, by)) = begun.take() {
                progress.by(by.clone());
                match judged {
                    DraftVerdict::Valid(good) => return Ok(AcceptedDraft::one(good, by)),
                    DraftVerdict::Invalid { draft, issues } => progress.bad(draft, issues),
                    DraftVerdict::Unparseable { reason } => progress.unreadable(reason),
                }
                progress.rounds += 1;
            }
            while !progress.is_over(&self.settings) {
                match self.round(task, &mut progress).await {
                    Ok(Some(accepted)) => {
                        let is_at_once = is_first && progress.rounds == 1;
                        return Ok(AcceptedDraft { is_at_once, ..accepted });
                    }
                    Ok(None) => {}
                    Err(error) => {
                        keep_best(&mut best, progress.draft);
                        return Err(failure(&error, best, progress.note.or(last_note)));
                    }
                }
            }
            keep_best(&mut best, progress.draft);
            last_note = progress.note.or(last_note);
            if !task.may_start_over() {
                let reason = "the rest of the plan does not get better, and its first steps have begun";
                let error = PlanningError::new(reason);
                return Err(PlanningError { issues: best.unwrap_or_default(), ..error });
            }
            // A model that could not correct it may still write a better one.
            self.without.insert(progress.author);
            self.stage = ModelTier::Strong;
            is_first = false;
        }
    }

    /// One question and its answer; the first question may be sent several times concurrently.
    async fn round<M: GenerationTask>(
        &mut self,
        task: &M,
        progress: &mut RepairProgress,
    ) -> Result<Option<AcceptedDraft<M::Output>>, Error> {
        let before = progress.draft.as_ref();
        let note = progress.note.as_deref();
        let prompt = match before {
            None => task.first(note)?,
            Some((draft, issues)) => task.critique(draft, &issues[..issues.len().min(ISSUES_SHOWN_MAX)], note)?,
        };
        let purpose = if before.is_some() { Purpose::Repair } else { self.purpose };
        let asks = if progress.rounds == 0 { self.settings.candidates.max(1) } else { 1 };
        let question = self.question(&prompt, task.want(before.map(|(draft, _)| draft)), purpose);
        let answers = futures_util::future::join_all((0..asks).map(|_| self.complete(&prompt, &question))).await;
        progress.rounds += 1;
        let before = before.map(|(draft, _)| draft.clone());
        let output_tokens_max = self.settings.output_tokens_max;
        let mut judged = Vec::new();
        let mut failed = None;
        for answer in answers {
            match answer {
                Ok(answer) => judged.push(self.evaluate(task, &prompt, question.tier, &answer, before.as_ref())),
                Err(ModelError::Interrupted { partial, .. }) => {
                    judged.push(self.evaluate(task, &prompt, question.tier, &partial, before.as_ref()));
                }
                Err(error) => {
                    self.provenance.failed(&prompt, question.tier, &error);
                    failed = Some(error);
                }
            }
        }
        judged.sort_by_key(|(judged, _)| rank(judged));
        let mut judged = judged.into_iter();
        let Some((best, by)) = judged.next() else {
            return Err(Error::Model(failed.unwrap_or(ModelError::Cancelled)));
        };
        progress.by(by.clone());
        match best {
            DraftVerdict::Valid(good) => {
                let others = judged.filter_map(good_one).collect();
                return Ok(Some(AcceptedDraft { others, ..AcceptedDraft::one(good, by) }));
            }
            DraftVerdict::Invalid { draft, issues } => progress.bad(draft, issues),
            // An answer that gets more room next time is no sign that the model cannot write the plan.
            DraftVerdict::Unparseable { reason } if self.settings.output_tokens_max > output_tokens_max => {
                progress.note = Some(reason);
            }
            DraftVerdict::Unparseable { reason } => progress.unreadable(reason),
        }
        Ok(None)
    }

    /// Judges an answer, and tells the provenance and the choice of models.
    pub fn evaluate<M: GenerationTask>(
        &mut self,
        task: &M,
        prompt: &Prompt,
        stage: ModelTier,
        answer: &Completion,
        before: Option<&Value>,
    ) -> (DraftVerdict<M::Output>, String) {
        let mut round = Round::default();
        let judged = match thought_only(answer) {
            Some(reason) => DraftVerdict::Unparseable { reason },
            None => task.evaluate_answer(answer.content(), answer.is_truncated(), before, &mut round),
        };
        self.record_verdict(prompt, stage, answer, &judged, round);
        (judged, answer.model.clone())
    }

    /// Gives the next answer twice as many tokens, within half of what is left.
    fn raise_output(&mut self) {
        let most = self.spend.remaining().tokens.unwrap_or(self.settings.tokens_max) / 2;
        let limit = &mut self.settings.output_tokens_max;
        *limit = limit.saturating_mul(2).min(most).max(*limit);
    }

    /// Notes what became of an answer.
    ///
    /// - `stage`: of the question.
    pub fn record_verdict<T>(
        &mut self,
        prompt: &Prompt,
        stage: ModelTier,
        answer: &Completion,
        judged: &DraftVerdict<T>,
        mut round: Round,
    ) {
        let outcome = match judged {
            DraftVerdict::Valid(_) => CompletionOutcome::Valid,
            DraftVerdict::Invalid { issues, .. } => {
                round.issues.clone_from(issues);
                CompletionOutcome::Invalid
            }
            DraftVerdict::Unparseable { reason } => {
                round.verdict.clone_from(reason);
                if answer.finish == FinishReason::Length {
                    self.raise_output();
                }
                if answer.is_truncated() { CompletionOutcome::Truncated } else { CompletionOutcome::Unparseable }
            }
        };
        round.outcome = outcome.as_str();
        self.models.record_outcome(answer, outcome);
        // A model that hangs would take its share of every round.
        self.without.extend(answer.timed_out_models().map(Into::into));
        self.provenance.answered(prompt, stage, self.settings.temperature, answer, &round);
    }
}

/// Why a round gave nothing.
enum Error {
    Model(ModelError),
    Prompt(PromptError),
}

impl From<PromptError> for Error {
    fn from(error: PromptError) -> Self {
        Self::Prompt(error)
    }
}

fn good_one<T>((judged, by): (DraftVerdict<T>, String)) -> Option<(T, String)> {
    match judged {
        DraftVerdict::Valid(good) => Some((good, by)),
        DraftVerdict::Invalid { .. } | DraftVerdict::Unparseable { .. } => None,
    }
}

fn rank<T>(judged: &DraftVerdict<T>) -> usize {
    match judged {
        DraftVerdict::Valid(_) => 0,
        DraftVerdict::Invalid { issues, .. } => issues.len().max(1),
        DraftVerdict::Unparseable { .. } => usize::MAX,
    }
}

fn keep_best(best: &mut Option<Vec<Issue>>, draft: Option<(Value, Vec<Issue>)>) {
    let Some((_, issues)) = draft else { return };
    if best.as_ref().is_none_or(|known| issues.len() < known.len()) {
        *best = Some(issues);
    }
}

fn failure(error: &Error, best: Option<Vec<Issue>>, note: Option<String>) -> PlanningError {
    let stopped = match error {
        Error::Model(error) => error.to_string(),
        Error::Prompt(error) => error.to_string(),
    };
    let issues = best.unwrap_or_default();
    let reason = match (issues.len(), note) {
        (0, None) => stopped,
        (0, Some(note)) => format!("no answer could be used ({note}), and then: {stopped}"),
        (1, _) => format!("the best answer still has one issue, and then: {stopped}"),
        (n, _) => format!("the best answer still has {n} issues, and then: {stopped}"),
    };
    PlanningError { issues, ..PlanningError::new(reason) }
}

/// Why nothing of an answer is there but what the model thought; `None` for any other answer.
pub(super) fn thought_only(answer: &Completion) -> Option<String> {
    let is_thought = answer.is_truncated() && answer.content().trim().is_empty() && !answer.thinking.is_empty();
    let tokens = answer.usage.output_tokens;
    is_thought.then(|| {
        format!(
            "thinking used up all {tokens} tokens of the answer; set `planner.llm.output_tokens_max` higher, or \
             `reasoning_effort` of model `{}` lower",
            answer.model
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_issue_is_not_called_issues() {
        let told = |count| {
            let text = |word: &str| word.to_owned();
            let issue =
                Issue { code: text("MISSING_FIELD"), pointer: text("/steps"), detail: text("d"), hint: text("m") };
            let issues = vec![issue; count];
            failure(&Error::Model(ModelError::Cancelled), Some(issues), None).reason
        };
        assert!(!told(0).contains("issue"), "{}", told(0));
        assert!(told(1).contains("one issue") && !told(1).contains("issues"), "{}", told(1));
        assert!(told(2).contains("2 issues"), "{}", told(2));
    }
}
