//! Streams the first answer: each complete, valid step is sent before the answer ends.

use futures_util::StreamExt;
use goalmill_common::plan::Step;
use goalmill_formats::{DraftKind, convert_draft};
use goalmill_llm::{Completion, CompletionDelta, ModelError, Purpose};
use goalmill_plan::document;
use goalmill_reader::{ReaderLimits, Stream, TextEnd};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::head;
use super::parse_answer;
use super::plan_task::{Arrived, ArrivedStep, PlanTask, ValidDraft};
use super::repair_loop::{DraftVerdict, GenerationTask, RepairLoop, thought_only};
use super::tidy_step::tidy_step;
use crate::call_log::CallStart;
use crate::provenance::{Provenance, Round};
use crate::repair::{Edit, names_dependencies};
use crate::{Part, PlanRequest, PlanningError};

/// Asks the first question and hands over what is complete; gives what became of the whole answer. None when there
/// was no answer and nothing was handed over: then the question may be put again.
pub async fn first_answer(
    task: &mut PlanTask<'_>,
    repair_loop: &mut RepairLoop<'_>,
    request: &PlanRequest,
    parts: mpsc::Sender<Part>,
) -> Result<Option<(DraftVerdict<ValidDraft>, String)>, PlanningError> {
    let prompt = task.first(None).map_err(|error| PlanningError::new(error.to_string()))?;
    let question = repair_loop.question(&prompt, task.want(None), Purpose::Plan);
    let stage = question.tier;
    let provenance = repair_loop.provenance.clone();
    let mut arriving = Arriving::new(parts);
    let ended = match repair_loop.begin(&prompt, &question).await {
        CallStart::Replayed(answer) => Some(Ok(*answer)),
        CallStart::Abandoned => Some(Err(ModelError::Cancelled)),
        CallStart::Call(call) => {
            let mut deltas = repair_loop.models.stream(question);
            let mut ended = None;
            while let Some(delta) = deltas.next().await {
                if let CompletionDelta::Started { .. } = delta {
                    arriving.begin();
                } else if let CompletionDelta::Ended(result) = delta {
                    repair_loop.end(call, &result).await;
                    ended = Some(*result);
                } else {
                    arriving.push_written(delta.content(), task, request, &provenance).await;
                }
            }
            ended
        }
    };
    let answer: Completion = match ended {
        Some(Ok(answer)) => answer,
        Some(Err(ModelError::Interrupted { partial, .. })) => *partial,
        Some(Err(error)) => {
            repair_loop.provenance.failed(&prompt, stage, &error);
            return Err(PlanningError::new(error.to_string()));
        }
        None => return Err(PlanningError::new("the model's answer never ended")),
    };
    task.arrived = arriving.arrived(&answer);
    let (judged, round) = arriving.finish(task, &answer);
    repair_loop.record_verdict(&prompt, stage, &answer, &judged, round);
    if let DraftVerdict::Unparseable { reason } = &judged
        && !task.frozen.is_empty()
    {
        return Err(PlanningError::new(format!("the rest of the plan did not come: {reason}")));
    }
    Ok(Some((judged, answer.model)))
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
            stream: Stream::new(ReaderLimits::default()),
            steps: Vec::new(),
            tidied: Vec::new(),
            repairs: Vec::new(),
            handed: Vec::new(),
        }
    }

    /// A call begins; nothing was written before.
    fn begin(&mut self) {
        self.stream = Stream::new(ReaderLimits::default());
        self.steps.clear();
        self.tidied.clear();
    }

    async fn push_written(
        &mut self,
        written: &str,
        task: &mut PlanTask<'_>,
        request: &PlanRequest,
        provenance: &Provenance,
    ) {
        if written.is_empty() {
            return;
        }
        for item in self.stream.push(written.as_bytes()) {
            let mut step = item.value;
            let at = format!("/steps/{}", self.steps.len());
            tidy_step(&mut step, &at, &task.actions, &mut self.tidied);
            self.steps.push(step);
            self.hand_over(task, request, provenance).await;
        }
    }

    /// Hands over what holds of the steps so far: those behind the steps that were handed over already, if these
    /// are still the same.
    async fn hand_over(&mut self, task: &mut PlanTask<'_>, request: &PlanRequest, provenance: &Provenance) {
        if self.parts.is_none() {
            return;
        }
        let mut round = Round::default();
        let converted = convert_draft(json!({"steps": self.steps}), &request.limits, DraftKind::Answer);
        if converted.is_sequence {
            // What the steps wait for is known when all of them are.
            return;
        }
        // Whether the steps are a sequence shows at the first dependency, or at the end; the first step waits for none.
        if self.steps.len() > 1 && !names_dependencies(&converted.document) {
            return;
        }
        let (_, outcome) = task.validate_draft(converted.document, &mut round);
        let Ok(valid) = outcome else { return };
        let steps = valid.into_plan().steps;
        let begun = task.frozen.len();
        if steps.len() != self.steps.len() || steps.get(..begun) != Some(&task.frozen[..]) {
            return;
        }
        self.repairs = self.tidied.iter().cloned().chain(round.repairs).collect();
        // Before they are out: from then on they may run, whatever becomes of the rest.
        provenance.begun(&steps, &self.repairs);
        if begun == 0 {
            self.send(Part::Head(Box::new(head(request)))).await;
        }
        for step in &steps[begun..] {
            if !self.send(Part::Step(Box::new(step.clone()))).await {
                return;
            }
            self.handed.push(ArrivedStep { step: step.id.clone(), bytes: self.stream.text().len() });
            task.frozen.push(Step::clone(step));
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

    fn arrived(&mut self, answer: &Completion) -> Option<Arrived> {
        let steps = std::mem::take(&mut self.handed);
        (!steps.is_empty()).then(|| Arrived { bytes: answer.content().len(), steps })
    }

    /// Judges the whole answer.
    fn finish(mut self, task: &PlanTask<'_>, answer: &Completion) -> (DraftVerdict<ValidDraft>, Round) {
        let repairs = std::mem::take(&mut self.repairs);
        let (judged, mut round) = self.judge(task, answer);
        if matches!(judged, DraftVerdict::Unparseable { .. }) {
            // Nothing is made of the answer, but the steps that were handed over run as they were repaired.
            round.repairs.extend(repairs);
        }
        (judged, round)
    }

    fn judge(self, task: &PlanTask<'_>, answer: &Completion) -> (DraftVerdict<ValidDraft>, Round) {
        let mut round = Round::default();
        if let Some(reason) = thought_only(answer) {
            return (DraftVerdict::Unparseable { reason }, round);
        }
        let is_same = self.stream.text() == answer.content();
        if !is_same || document::join_stream(answer.content()).is_some_and(|joined| joined.has_other_lines) {
            // Servers may end with another text than they streamed; the whole answer counts.
            let judged = task.evaluate_answer(answer.content(), answer.is_truncated(), None, &mut round);
            return (judged, round);
        }
        let ended = if answer.is_truncated() { TextEnd::Cut } else { TextEnd::Stopped };
        let begun = Instant::now();
        let ending = self.stream.finish(&task.actions, ended);
        let written = parse_answer::of_plan(ending.reading, &task.actions, answer.is_truncated(), DraftKind::Answer);
        task.was_read(&written, begun);
        let judged = task.evaluate_parsed(written, None, &mut round);
        (judged, round)
    }
}
