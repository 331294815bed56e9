//! The first answer as it is written: steps are handed over as soon as they are complete and hold.

use futures_util::StreamExt;
use goalmill_common::plan::Step;
use goalmill_llm::{Answer, Delta, ModelError, Purpose};
use goalmill_reader::{Ended, Limits, Stream};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::account::{Account, Round};
use super::draft;
use super::head;
use super::plan::{Arrived, ArrivedStep, PlanMatter, ValidDraft};
use super::talk::{Judged, Matter, Talk};
use crate::ledger::Begun;
use crate::repair::Edit;
use crate::{Part, PlanRequest, PlanningError};

/// Asks the first question and hands over what is complete; gives what became of the whole answer. None when there
/// was no answer and nothing was handed over: then the question may be put again.
pub async fn first_answer(
    matter: &mut PlanMatter<'_>,
    talk: &mut Talk<'_>,
    request: &PlanRequest,
    parts: mpsc::Sender<Part>,
) -> Result<Option<(Judged<ValidDraft>, String)>, PlanningError> {
    let prompt = matter.first(None).map_err(|error| PlanningError::new(error.to_string()))?;
    let question = talk.question(&prompt, matter.want(), Purpose::Plan);
    let stage = question.stage;
    let account = talk.account.clone();
    let mut arriving = Arriving::new(parts);
    let ended = match talk.begin(&prompt, &question).await {
        Begun::Kept(answer) => Some(Ok(*answer)),
        Begun::Gone => Some(Err(ModelError::Cancelled)),
        Begun::Call(call) => {
            let mut deltas = talk.models.stream(question);
            let mut ended = None;
            while let Some(delta) = deltas.next().await {
                match delta {
                    Delta::Begun { .. } => arriving.begin(),
                    Delta::Ended(result) => {
                        talk.end(call, &result).await;
                        ended = Some(*result);
                    }
                    other => arriving.take(other.written(), matter, request, &account).await,
                }
            }
            ended
        }
    };
    let answer: Answer = match ended {
        Some(Ok(answer)) => answer,
        Some(Err(ModelError::BrokenOff { partial, .. })) => *partial,
        Some(Err(error)) => {
            talk.account.failed(&prompt, stage, &error);
            return Err(PlanningError::new(error.to_string()));
        }
        None => return Err(PlanningError::new("the model's answer never ended")),
    };
    matter.arrived = arriving.arrived(&answer);
    let (judged, round) = arriving.finish(matter, &answer);
    talk.told(&prompt, stage, &answer, &judged, round);
    match judged {
        Judged::Unreadable { reason } if !matter.frozen.is_empty() => {
            Err(PlanningError::new(format!("the rest of the plan did not come: {reason}")))
        }
        judged => Ok(Some((judged, answer.model))),
    }
}

/// An answer that is being written.
struct Arriving {
    parts: Option<mpsc::Sender<Part>>,
    stream: Stream,
    steps: Vec<Value>,
    /// What was changed to see steps in it.
    tidied: Vec<Edit>,
    /// The same, and what was repaired, in the steps that were handed over.
    repairs: Vec<Edit>,
    handed: Vec<ArrivedStep>,
}

impl Arriving {
    fn new(parts: mpsc::Sender<Part>) -> Self {
        Self {
            parts: Some(parts),
            stream: Stream::new(Limits::default()),
            steps: Vec::new(),
            tidied: Vec::new(),
            repairs: Vec::new(),
            handed: Vec::new(),
        }
    }

    /// A call begins; nothing was written before.
    fn begin(&mut self) {
        self.stream = Stream::new(Limits::default());
        self.steps.clear();
        self.tidied.clear();
    }

    async fn take(&mut self, written: &str, matter: &mut PlanMatter<'_>, request: &PlanRequest, account: &Account) {
        if written.is_empty() {
            return;
        }
        for item in self.stream.push(written.as_bytes()) {
            let mut step = item.value;
            let at = format!("/steps/{}", self.steps.len());
            draft::tidy_step(&mut step, &at, &matter.actions, &mut self.tidied);
            self.steps.push(step);
            self.hand_over(matter, request, account).await;
        }
    }

    /// Hands over what holds of the steps so far: those behind the steps that were handed over already, if these
    /// are still the same.
    async fn hand_over(&mut self, matter: &mut PlanMatter<'_>, request: &PlanRequest, account: &Account) {
        if self.parts.is_none() {
            return;
        }
        let mut round = Round::default();
        let (_, outcome) = matter.validate_draft(json!({"steps": self.steps}), &mut round);
        let Ok(valid) = outcome else { return };
        let steps = valid.into_plan().steps;
        let begun = matter.frozen.len();
        if steps.len() != self.steps.len() || steps.get(..begun) != Some(&matter.frozen[..]) {
            return;
        }
        self.repairs = self.tidied.iter().cloned().chain(round.repairs).collect();
        // Before they are out: from then on they may run, whatever becomes of the rest.
        account.begun(&steps, &self.repairs);
        if begun == 0 {
            self.send(Part::Head(Box::new(head(request)))).await;
        }
        for step in &steps[begun..] {
            if !self.send(Part::Step(Box::new(step.clone()))).await {
                return;
            }
            self.handed.push(ArrivedStep { step: step.id.clone(), bytes: self.stream.text().len() });
            matter.frozen.push(Step::clone(step));
        }
    }

    /// Whether somebody took it.
    async fn send(&mut self, part: Part) -> bool {
        let Some(parts) = &self.parts else { return false };
        let taken = parts.send(part).await.is_ok();
        if !taken {
            self.parts = None;
        }
        taken
    }

    fn arrived(&mut self, answer: &Answer) -> Option<Arrived> {
        let steps = std::mem::take(&mut self.handed);
        (!steps.is_empty()).then(|| Arrived { bytes: answer.written().len(), steps })
    }

    /// Judges the whole answer.
    fn finish(mut self, matter: &PlanMatter<'_>, answer: &Answer) -> (Judged<ValidDraft>, Round) {
        let repairs = std::mem::take(&mut self.repairs);
        let (judged, mut round) = self.judge(matter, answer);
        if matches!(judged, Judged::Unreadable { .. }) {
            // Nothing is made of the answer, but the steps that were handed over run as they were repaired.
            round.repairs.extend(repairs);
        }
        (judged, round)
    }

    fn judge(self, matter: &PlanMatter<'_>, answer: &Answer) -> (Judged<ValidDraft>, Round) {
        let mut round = Round::default();
        let is_same = self.stream.text() == answer.written();
        if !is_same {
            // Servers may end with another text than they streamed; the whole answer counts.
            let judged = matter.judge(answer.written(), answer.is_truncated(), None, &mut round);
            return (judged, round);
        }
        let ended = if answer.is_truncated() { Ended::Cut } else { Ended::Stopped };
        let begun = Instant::now();
        let ending = self.stream.finish(&matter.actions, ended);
        let written = draft::of_plan(ending.reading, &matter.actions, answer.is_truncated());
        matter.was_read(&written, begun);
        let judged = matter.weigh(written, None, &mut round);
        (judged, round)
    }
}
