//! Questions to people.

use goalmill_common::event::{StepEvent, StepQuestion};
use goalmill_common::json::Json;
use goalmill_common::json_limits;
use goalmill_plan::document::issue;

use crate::Rejection;
use crate::attempt::{failure, output_check};
use crate::graph::StepIndex;
use crate::turn::Turn;

/// Asks the step's question. Returns whether the step waits for the answer.
pub(crate) fn ask_step(turn: &mut Turn<'_>, i: StepIndex) -> bool {
    let Some(ask) = turn.state.plan.step(i).ask.clone() else { return false };
    if turn.state.steps[i].decisions().answer().is_some() {
        return false;
    }
    match turn.expressions(i).text(&ask.question) {
        Ok(question) => {
            let due_ms = turn.after(ask.limit_ms.min(turn.context.limits.approval_ms_max));
            turn.emit_step(i, StepEvent::QuestionAsked(Box::new(StepQuestion { question, due_ms })));
        }
        Err(why) => failure::put_off(turn, i, why),
    }
    true
}

pub(crate) fn check_answer(turn: &Turn<'_>, schema: Option<&Json>, answer: &Json) -> Result<(), Rejection> {
    let Some(detail) = answer_issue(turn, schema, answer) else { return Ok(()) };
    let issues = vec![issue("INVALID_ANSWER", "/answer", detail, "answer as the question's `schema` says")];
    Err(Rejection::Invalid { reason: "the answer does not fit the question".into(), issues })
}

/// Returns why an answer does not fit the question with this schema.
pub(crate) fn answer_issue(turn: &Turn<'_>, schema: Option<&Json>, answer: &Json) -> Option<String> {
    let (bytes, most) = (answer.text().len(), turn.context.limits.payload_bytes_max);
    if bytes > most {
        return Some(format!("it has {bytes} bytes, more than `payload_bytes_max` ({most})"));
    }
    if let Err(wrong) = json_limits::check_json(answer, turn.context.limits.nesting_max) {
        return Some(wrong.to_string());
    }
    output_check::schema_mismatch(schema?, answer).map(|why| why.to_string())
}
