//! Shows a plan while it runs: events fold into a board, the board's changes become lines.

mod board;
mod follow;
mod limit_text;
mod lines;
mod note;
mod step_line;
mod view;

use std::time::Duration;

use goalmill_common::id::PlanId;
use goalmill_common::problem::Issue;
use goalmill_common::status::PlanStatus;
use tokio::time::{Instant, timeout_at};

pub use board::{Asks, Board};
pub use follow::{Follow, Source};
pub use limit_text::limits;
pub use lines::{constraint_view_line, ending, verdict_line};
pub use note::{cut, note, short};
pub use view::View;

use crate::exit::{Exit, Failed};
use crate::output::Screen;

/// Options of a wait.
#[derive(Clone, Debug, Default)]
pub struct Patience {
    /// Shows progress.
    pub show: bool,
    /// Warnings that were shown before, when the plan was submitted.
    pub warned: Vec<Issue>,
    /// Ends as soon as the plan is blocked by a person.
    pub stop_at_approval: bool,
    pub timeout: Option<Duration>,
}

/// Outcome of a wait.
pub enum Waited {
    /// The plan has ended or awaits a person.
    Settled(Box<Board>),
    TimedOut,
    Interrupted,
}

/// Follows a plan until it ends, awaits a person, times out, or Ctrl-C.
pub async fn wait(screen: &Screen, source: Source, plan: &PlanId, patience: Patience) -> Result<Waited, Failed> {
    let deadline = patience.timeout.map(|limit| Instant::now() + limit);
    let mut follow = Follow::open(source, plan.clone(), 0).await?;
    let mut board = Board::new(plan.clone());
    board.warned = patience.warned;
    let mut view = patience.show.then(|| View::new(screen));
    // Listens all the time: a signal that comes while a line is printed counts too.
    let mut interrupted = std::pin::pin!(tokio::signal::ctrl_c());
    loop {
        let next = async {
            match deadline {
                Some(deadline) => timeout_at(deadline, follow.next()).await.ok(),
                None => Some(follow.next().await),
            }
        };
        let record = tokio::select! {
            record = next => record,
            heard = &mut interrupted => {
                heard?;
                return Ok(Waited::Interrupted);
            }
        };
        let Some(record) = record else { return Ok(Waited::TimedOut) };
        let record = record?;
        board.apply(&record).map_err(|error| {
            Failed::other(format!("the log of plan {plan}: {error}"))
                .help("client and server may be of different versions")
        })?;
        if let Some(view) = &mut view {
            view.show(&board, &record)?;
        }
        let stops = patience.stop_at_approval && board.awaits_a_person();
        if board.status().is_final() || (stops && follow.is_current().await?) {
            end_on_interrupt();
            return Ok(Waited::Settled(Box::new(board)));
        }
    }
}

/// Ends the program at the next Ctrl-C: once it was listened for, it does nothing by itself.
fn end_on_interrupt() {
    #[expect(clippy::disallowed_methods, reason = "it ends with the program")]
    tokio::spawn(async {
        if tokio::signal::ctrl_c().await.is_ok() {
            std::process::exit(i32::from(Exit::Interrupted.code()));
        }
    });
}

/// Message and exit code of a wait that ended before the plan.
pub fn left_alone(screen: &Screen, plan: &PlanId, waited: &Waited) -> Exit {
    match waited {
        Waited::TimedOut => {
            screen.note(format!(
                "the time to wait is over; plan {plan} goes on\n  watch it:  goalmill watch {plan}\n  \
                 cancel it: goalmill plan cancel {plan}"
            ));
            Exit::Timeout
        }
        Waited::Interrupted => {
            screen.note(format!(
                "\nplan {plan} goes on\n  watch it:  goalmill watch {plan}\n  cancel it: goalmill plan cancel {plan}"
            ));
            Exit::Interrupted
        }
        Waited::Settled(board) if board.status() == PlanStatus::AwaitingApproval => {
            screen.note(format!(
                "plan {plan} waits for approval\n  review:  goalmill plan show {plan}\n  \
                 approve: goalmill plan approve {plan}\n  reject:  goalmill plan reject {plan} --reason '…'"
            ));
            Exit::AwaitingApproval
        }
        Waited::Settled(board) if !board.status().is_final() => {
            match board.asks() {
                Some(Asks::Question { id, question }) => screen.note(format!(
                    "plan {plan} asks: {}\n  answer: goalmill plan answer {plan} {id} ANSWER",
                    short(&question)
                )),
                Some(Asks::Revision { revision }) => screen.note(format!(
                    "revision {revision} of plan {plan} waits for approval\n  approve: goalmill plan approve {plan}\n  \
                     reject:  goalmill plan reject {plan} --reason '…'"
                )),
                Some(Asks::GoOn { step }) => {
                    let step = step.as_ref().map(|step| format!(" {step}")).unwrap_or_default();
                    screen.note(format!(
                        "plan {plan} asks how to go on without step{step}\n  go on:     goalmill plan approve {plan}\n  \
                         end it:    goalmill plan reject {plan} --reason '…'\n  replan:    goalmill plan replan {plan}"
                    ));
                }
                None => {}
            }
            for row in board.awaiting() {
                let step = row.id();
                screen.note(match row.question {
                    Some(question) => format!(
                        "step {step} asks: {}\n  answer: goalmill step answer {plan} {step} ANSWER",
                        short(question)
                    ),
                    None => format!(
                        "step {step} waits for approval\n  approve: goalmill step approve {plan} {step}\n  \
                         reject:  goalmill step reject {plan} {step} --reason '…'"
                    ),
                });
            }
            Exit::AwaitingApproval
        }
        Waited::Settled(board) => Exit::of_plan(board.status()),
    }
}
