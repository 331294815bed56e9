//! Compares what a driver saw with what the laws say.

use goalmill_common::plan::{Jitter, Plan};

use crate::case::Case;
use crate::engine_driver::{Stopped, drive};
use crate::interpreter::{self, Undecided};
use crate::run::{Ask, Run};

/// Orders of what happens in one millisecond that are tried. The driver keeps the laws if its order is one of them.
pub(crate) const ORDERS: u64 = 200;

/// What became of a case.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// Validation refuses the document, with this code.
    Invalid(String),
    /// The laws do not say what happens.
    Undecided(Undecided),
    /// The driver did what the laws say.
    Kept(Box<Run>),
    Found(Box<Finding>),
}

/// A difference between the laws and what a driver saw.
#[derive(Clone, Debug)]
pub struct Finding {
    pub kind: Difference,
    pub text: String,
    /// What the laws say.
    pub expected: Run,
}

/// In what a run differs from the laws.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Difference {
    /// An agent was asked for something that was not due.
    Asked,
    /// An agent was not asked, or later than it should.
    NotAsked,
    /// The plan does not end.
    Stuck,
    /// The plan that was forked ended otherwise.
    Forked,
    Status,
    Code,
    Steps,
    Time,
    Tokens,
}

/// Compares the engine with the laws.
pub fn check_engine(case: &Case) -> Verdict {
    check_orders(case, ORDERS)
}

/// - `orders`: those that are tried before the case differs.
pub(crate) fn check_orders(case: &Case, orders: u64) -> Verdict {
    let plan = match case.plan() {
        Ok(plan) => plan,
        Err(issues) => {
            return Verdict::Invalid(
                issues.into_iter().map(|issue| format!("{}: {}", issue.code, issue.detail)).next().unwrap_or_default(),
            );
        }
    };
    if has_random_waits(&plan) {
        return Verdict::Undecided(Undecided::Random);
    }
    let driven = drive(&plan, &case.script);
    let order = match &driven {
        Ok(run) => &run.asks[..],
        Err(Stopped::Stuck(asks)) => asks,
        Err(Stopped::Refused(why)) => return Verdict::Invalid(why.clone()),
    };
    let mut first = None;
    for arbiter in (0..=orders).map(|seed| seed.checked_sub(1)) {
        let expected = match interpreter::run(&plan, &case.script, order, arbiter) {
            Ok(expected) => expected,
            Err(why) => return Verdict::Undecided(why),
        };
        match difference(&expected, &driven) {
            None => return Verdict::Kept(Box::new(expected)),
            Some((kind, text)) => first.get_or_insert(Finding { kind, text, expected }),
        };
    }
    Verdict::Found(Box::new(first.expect("there is an order")))
}

/// Whether a wait before a retry has a random length.
fn has_random_waits(plan: &Plan) -> bool {
    plan.steps.iter().any(|step| {
        let is_random = step.retry.max > 0 && step.retry.jitter == Jitter::Full;
        step.kind.needs_worker() && is_random || step.plan.as_deref().is_some_and(has_random_waits)
    })
}

fn difference(expected: &Run, driven: &Result<Run, Stopped>) -> Option<(Difference, String)> {
    let (asks, run) = match driven {
        Ok(run) => (&run.asks, Some(run)),
        Err(Stopped::Stuck(asks)) => (asks, None),
        Err(Stopped::Refused(_)) => return None,
    };
    let same = expected.asks.iter().zip(asks).take_while(|(a, b)| a == b).count();
    let (due, seen) = (expected.asks.get(same), asks.get(same));
    if due != seen {
        let is_early = seen.is_some_and(|seen| due.is_none_or(|due| seen.at_ms <= due.at_ms));
        let kind = if is_early { Difference::Asked } else { Difference::NotAsked };
        return Some((kind, format!("question {same}: by the laws {}, seen {}", spell(due), spell(seen))));
    }
    let Some(run) = run else { return Some((Difference::Stuck, "the plan does not end".into())) };
    if run.status != expected.status {
        return Some((Difference::Status, format!("by the laws {}, seen {}", expected.status, run.status)));
    }
    if run.forked != expected.forked {
        let text = format!("the forked plan: by the laws {:?}, seen {:?}", expected.forked, run.forked);
        return Some((Difference::Forked, text));
    }
    if run.code != expected.code {
        return Some((Difference::Code, format!("by the laws {:?}, seen {:?}", expected.code, run.code)));
    }
    if let Some((id, step)) = expected.steps.iter().find(|(id, step)| run.steps.get(*id) != Some(step)) {
        return Some((Difference::Steps, format!("step `{id}`: by the laws {step:?}, seen {:?}", run.steps.get(id))));
    }
    if run.ended_ms != expected.ended_ms {
        return Some((Difference::Time, format!("by the laws at {}, seen at {}", expected.ended_ms, run.ended_ms)));
    }
    let is_off = run.tokens != expected.tokens;
    is_off.then(|| (Difference::Tokens, format!("by the laws {}, seen {}", expected.tokens, run.tokens)))
}

fn spell(ask: Option<&Ask>) -> String {
    ask.map_or("none".into(), |ask| format!("`{}` {} at {} ms", ask.action, ask.inputs, ask.at_ms))
}
