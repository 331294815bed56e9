//! The executor of an agent of the program.

use async_trait::async_trait;
use goalmill_common::agent::Agent;
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::task::Task;
use goalmill_worker::executor::{
    AnswerForm, Calls, ExecutionResult, Executor, Progress, UnrecordedCalls, parse_answer,
};
use tokio_util::sync::CancellationToken;

use crate::calls::TaskCalls;
use crate::frames::{FromProgram, TaskEnded, TaskFrame, TaskStop, ToProgram};
use crate::link::{OpenTask, ProgramLink};

/// Gives tasks to the program.
pub(crate) struct BridgedAgent {
    card: Agent,
    link: ProgramLink,
}

impl BridgedAgent {
    pub fn new(card: Agent, link: ProgramLink) -> Self {
        Self { card, link }
    }
}

#[async_trait]
impl Executor for BridgedAgent {
    async fn execute(
        &self,
        task: &Task,
        progress: &Progress,
        cancelled: &CancellationToken,
    ) -> Result<ExecutionResult, Failure> {
        self.execute_with_calls(task, progress, &UnrecordedCalls::new(task), cancelled).await
    }

    async fn execute_with_calls(
        &self,
        task: &Task,
        progress: &Progress,
        calls: &dyn Calls,
        cancelled: &CancellationToken,
    ) -> Result<ExecutionResult, Failure> {
        let Some(mut open) = self.link.open() else {
            // It has not begun: the worker hands it back when it ends.
            cancelled.cancelled().await;
            return Err(lost());
        };
        self.link.send(&ToProgram::Task(Box::new(TaskFrame::new(open.number, task))));
        let mut calls = TaskCalls::new(calls, task, open.link.clone(), open.number);
        let ended = run_task(&mut open, &mut calls, progress, cancelled).await?;
        // What was made is recorded before the attempt ends.
        calls.finish().await?;
        match ended.answer {
            Some(answer) => parse_answer(answer.text().as_bytes(), AnswerForm::Envelope, &task.step),
            None => Err(Failure::new(FailureClass::Transient, "ANSWER_EMPTY", "the program gave no answer")),
        }
    }

    fn card(&self) -> Option<Agent> {
        (!self.card.is_bare()).then(|| self.card.clone())
    }
}

/// Handles the frames of a task until its end.
async fn run_task(
    open: &mut OpenTask,
    calls: &mut TaskCalls<'_>,
    progress: &Progress,
    cancelled: &CancellationToken,
) -> Result<TaskEnded, Failure> {
    let mut is_stopped = false;
    loop {
        let frame = tokio::select! {
            biased;
            frame = open.frames.recv() => frame.ok_or_else(lost)?,
            refused = calls.advance(), if !calls.is_idle() => match refused {
                Ok(()) => continue,
                Err(failure) => {
                    open.link.send(&ToProgram::Stop(TaskStop { task: open.number, failure: Some(&failure) }));
                    return Err(failure);
                }
            },
            () = cancelled.cancelled(), if !is_stopped => {
                is_stopped = true;
                open.link.send(&ToProgram::Stop(TaskStop { task: open.number, failure: None }));
                continue;
            }
        };
        match frame {
            FromProgram::Ended(ended) => return Ok(*ended),
            FromProgram::Progress(shown) => progress.update(shown.share, shown.message),
            FromProgram::Call(call) => calls.begin(call),
            FromProgram::Made(made) => calls.made(*made),
            FromProgram::Abandoned(id) => calls.abandon(id.call),
            FromProgram::Wait(wait) => calls.wait(*wait),
            FromProgram::Reserve(reservation) => calls.reserve(reservation),
            FromProgram::Unreadable(frame) => {
                let failure =
                    Failure::new(FailureClass::Permanent, "ANSWER_INVALID", frame.reason).with_unknown_outcome();
                open.link.send(&ToProgram::Stop(TaskStop { task: open.number, failure: Some(&failure) }));
                return Err(failure);
            }
            FromProgram::Hello(_) | FromProgram::Drain(_) | FromProgram::Run(_) => {}
        }
    }
}

/// The attempt was running in a program that is gone.
fn lost() -> Failure {
    Failure::new(FailureClass::Lost, "WORKER_LOST", "the program that ran the attempt has ended")
}
