//! Asks the hooks of a point, and turns their verdict into a command.

use goalmill_common::command::Planned;
use goalmill_common::id::PlanId;
use goalmill_common::number::milliseconds;
use goalmill_common::problem::Issue;
use goalmill_engine::{Command, HookAnswer, HookQuestion, HookRuling};
use goalmill_plan::document::{self, Format};
use goalmill_plan::validate::{self, Rules};
use serde_json::Value;

use crate::hooks::{HookVerdict, Ruling};
use crate::scheduler::Scheduler;

/// Asks the hooks about a plan or a step. Their answer is a command.
pub(crate) async fn ask_hooks(scheduler: &Scheduler, plan: &PlanId, question: HookQuestion) -> Command {
    let HookQuestion { id, point, step, data } = question;
    let about = step.as_ref().map(|step| step.as_str());
    let verdict = scheduler.hooks.decide(point, &id, plan.as_str(), about, &data.value()).await;
    let HookVerdict { hook, ruling, by_default, why } = verdict;
    let mut answer = HookAnswer { id, point, step, hook, by_default, reason: why, ruling: HookRuling::Allow };
    let (ruling, reason) = match ruling {
        Ruling::PlanChanged { plan, reason } => match changed_plan(scheduler, &plan) {
            Ok(planned) => (HookRuling::ChangePlan(Box::new(planned)), reason),
            Err(issues) => {
                // An answer that cannot be used counts as none.
                let first = issues.first().map(|issue| format!("{} at {}", issue.detail, issue.pointer));
                let why = format!("the changed plan is not valid: {}", first.unwrap_or_default());
                answer.by_default = true;
                let refuses = scheduler.hooks.refuses_by_default(&answer.hook);
                (if refuses { HookRuling::Refuse } else { HookRuling::Allow }, why)
            }
        },
        Ruling::Allowed
        | Ruling::Vetoed(_)
        | Ruling::Approved(_)
        | Ruling::Held { .. }
        | Ruling::InputsChanged { .. }
        | Ruling::OutputsFailed(_)
        | Ruling::StrategyChosen { .. } => ruling_of(ruling),
    };
    if !reason.is_empty() {
        answer.reason = reason;
    }
    Command::HookAnswered(Box::new(HookAnswer { ruling, ..answer }))
}

/// The ruling and its reason.
fn ruling_of(ruling: Ruling) -> (HookRuling, String) {
    match ruling {
        // Only `changed_plan` makes a plan of it.
        Ruling::Allowed | Ruling::PlanChanged { .. } => (HookRuling::Allow, String::new()),
        Ruling::Vetoed(reason) => (HookRuling::Refuse, reason),
        Ruling::Approved(reason) => (HookRuling::Approve, reason),
        Ruling::Held { wait, reason } => (HookRuling::Hold(milliseconds(wait)), reason),
        Ruling::InputsChanged { inputs, reason } => (HookRuling::ChangeInputs(inputs), reason),
        Ruling::OutputsFailed(failure) => {
            let reason = failure.message.clone();
            (HookRuling::Fail(failure), reason)
        }
        Ruling::StrategyChosen { strategy, hint, reason } => (HookRuling::Choose { strategy, hint }, reason),
    }
}

/// The plan that a hook returned, validated and routed as a submitted one.
fn changed_plan(scheduler: &Scheduler, document: &Value) -> Result<Planned, Vec<Issue>> {
    let limits = &scheduler.settings.limits;
    let draft = document::parse_document(document.to_string().as_bytes(), Format::Auto, limits)?;
    let live = scheduler.directory.live();
    let rules = Rules { policy: &scheduler.policy, live: live.as_deref(), ..Rules::default() };
    let valid = validate::validate_plan_by(&draft, limits, &rules)?;
    Ok(valid.route(|plan| scheduler.directory.route(plan, rules.policy))?.submitted())
}
