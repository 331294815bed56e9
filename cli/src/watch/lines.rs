//! One line for each change of a plan.

use goalmill_common::constraint::{AMOUNT, ConstraintStatus, ConstraintView, SPEND};
use goalmill_common::criterion::{CriterionVerdict, JudgeKind, Judgement};
use goalmill_common::event::{
    ConstraintChanged, Event, PlanCreated, PlanEvent, PlanExtended, PlanRevised, Record, ReplanTriggered, UndonePlan,
};
use goalmill_common::goal::Goal;
use goalmill_common::id::StepId;
use goalmill_common::problem::Issue;
use goalmill_common::status::{PlanStatus, StepStatus};
use serde_json::{Map, Value};

use super::board::{Asks, Board};
use super::limit_text::{limit, limits};
use super::note::{because, reason, short, why};
use super::step_line::{ruled, step_line};
use crate::output::{Palette, Tone, plan_tone, seconds};

/// The constraint that lets demo agents fail.
const FAULTS: &str = "demo_fault";

/// Failed steps named at the end.
const FAILURES_SHOWN: usize = 5;

/// Lines for `record`, which `board` already contains. `starts`: also for started steps.
pub fn change_lines(board: &Board, record: &Record, palette: Palette, starts: bool) -> Vec<String> {
    match &record.event {
        Event::Plan(event) => plan_lines(board, event, &by(record), palette),
        Event::Step { step, event, .. } => {
            step_line(board, step, event, &by(record), palette, starts).into_iter().collect()
        }
    }
}

/// The actor: ` by cli:ann`; empty without one.
fn by(record: &Record) -> String {
    record.actor.as_ref().map(|actor| format!(" by {actor}")).unwrap_or_default()
}

fn plan_lines(board: &Board, event: &PlanEvent, by: &str, palette: Palette) -> Vec<String> {
    match event {
        PlanEvent::GoalAccepted(accepted) => {
            let goal = short(&accepted.goal.description);
            let what = if goal.is_empty() { String::new() } else { format!(" · {goal}") };
            vec![format!("{} accepted{what}", palette.tone(Tone::Bold, board.plan.as_str()))]
        }
        PlanEvent::GoalChanged(changed) if changed.model.is_empty() => {
            vec![format!("  goal corrected{by}{}", because(&changed.reason))]
        }
        PlanEvent::GoalChanged(changed) => {
            let line =
                |line: &String| palette.tone(Tone::Dim, format!("  read by model {}: {}", changed.model, short(line)));
            changed.read_lines().iter().map(line).collect()
        }
        PlanEvent::PlanCreated(created) => planned(board.goal(), created, palette),
        PlanEvent::PlanValidated(validated) => validated
            .warnings
            .iter()
            .filter(|issue| !board.warned.contains(issue))
            .map(|issue| format!("  {} {}", palette.tone(Tone::Wait, "!"), short(&issue.detail)))
            .collect(),
        PlanEvent::PlanningFailed(why) => {
            let what = if why.aborted { "the planner ended the plan" } else { "planning failed" };
            refusal(what, &why.reason, &why.issues, palette)
        }
        PlanEvent::ApprovalRequested(_) => {
            vec![format!(
                "  {} waits for approval: goalmill plan approve {}",
                palette.tone(Tone::Wait, "?"),
                board.plan
            )]
        }
        PlanEvent::HookDecided(decided) => vec![format!("  {}", ruled(decided))],
        PlanEvent::Approved(why) => vec![format!("  approved{by}{}", because(&why.reason))],
        PlanEvent::CleanupStarted(started) => vec![format!("  ends as {}: clean-up steps run", started.outcome.status)],
        PlanEvent::EventReceived(event) => {
            let key = if event.key.is_empty() { String::new() } else { format!(" {}", short(&event.key)) };
            vec![format!("  event {}{key}{by}: {}", event.name, short(event.data.text()))]
        }
        PlanEvent::Paused(why) => vec![format!("  paused{by}{}", because(&why.reason))],
        PlanEvent::Quarantined(why) => vec![
            format!("  {} in quarantine{}", palette.tone(Tone::Bad, "!"), because(&why.reason)),
            format!("    take it up again: goalmill plan resume {}", board.plan),
        ],
        PlanEvent::Resumed(why) => vec![format!("  resumed{by}{}", because(&why.reason))],
        PlanEvent::ReplanTriggered(replan) => vec![replan_line(board, replan, by, palette)],
        PlanEvent::Revised(revised) => vec![revision(board, revised, by, palette)],
        PlanEvent::PhaseStarted(phase) => {
            vec![format!("  {}", palette.tone(Tone::Dim, format!("phase {}", phase.phase)))]
        }
        PlanEvent::RevisionProposed(proposed) => {
            let what = short(&proposed.changes.join("; "));
            let wait = palette.tone(Tone::Wait, "?");
            vec![format!("  {wait} a revision waits for approval: {what}: goalmill plan approve {}", board.plan)]
        }
        PlanEvent::RevisionRefused(refused) => {
            refusal(&format!("revision refused{by}"), &refused.reason, &refused.issues, palette)
        }
        PlanEvent::QuestionAsked(asked) => {
            let (wait, plan, id) = (palette.tone(Tone::Wait, "?"), &board.plan, &asked.id);
            vec![format!("  {wait} {}: goalmill plan answer {plan} {id} ANSWER", short(&asked.question.question))]
        }
        PlanEvent::QuestionAnswered(answered) => {
            vec![format!("  answered{by}: {}{}", short(answered.answer.text()), because(&answered.reason))]
        }
        PlanEvent::ConstraintChanged(changed) => vec![constraint_line(changed, palette)],
        PlanEvent::CriteriaJudged(judged) => judged.verdicts.iter().map(|v| verdict_line(v, palette)).collect(),
        PlanEvent::JudgementRequested(requested) => match requested.judge {
            JudgeKind::Person => {
                let (wait, plan) = (palette.tone(Tone::Wait, "?"), &board.plan);
                let ask = |id: &String| format!("  {wait} is `{id}` met: goalmill plan answer {plan} {id} met|unmet");
                requested.criteria.iter().map(ask).collect()
            }
            JudgeKind::Model | JudgeKind::Expression | JudgeKind::Step => Vec::new(),
        },
        PlanEvent::Extended(extended) => whole(board, extended, palette).into_iter().collect(),
        PlanEvent::Kept(outcome) => {
            vec![format!("  {}: it ends with the plan around it, which may undo it", outcome.status)]
        }
        PlanEvent::InnerPlanStopped(stopped) => vec![format!("  the plan of {} is stopped", stopped.step)],
        PlanEvent::InnerPlanUndone(undone) => vec![undone_line(undone)],
        PlanEvent::PhaseAdded(_)
        | PlanEvent::InnerPlanKept(_)
        | PlanEvent::FamilyGrew(_)
        | PlanEvent::EventTaken(_)
        | PlanEvent::HookAsked(_)
        | PlanEvent::ModelAsked(_)
        | PlanEvent::ModelAnswered(_)
        | PlanEvent::ToolsCalled(_)
        | PlanEvent::PhaseCompleted(_)
        | PlanEvent::PhaseFailed(_)
        | PlanEvent::PhaseSkipped(_)
        | PlanEvent::Rejected(_)
        | PlanEvent::Completed(_)
        | PlanEvent::Failed(_)
        | PlanEvent::Cancelled(_) => Vec::new(),
    }
}

/// What a plan inside has undone.
fn undone_line(undone: &UndonePlan) -> String {
    let failed = match undone.not_undone.as_slice() {
        [] => String::new(),
        names => format!(", but for {}", names.join(", ")),
    };
    format!("  the plan of {} is undone{failed}", undone.step)
}

/// What was refused and why, and a line for each issue.
fn refusal(what: &str, reason: &str, issues: &[Issue], palette: Palette) -> Vec<String> {
    let mut lines = vec![format!("  {} {what}: {}", palette.tone(Tone::Bad, "✗"), short(reason))];
    lines.extend(issues.iter().map(|issue| format!("      {} at {}", short(&issue.detail), issue.pointer)));
    lines
}

fn replan_line(board: &Board, replan: &ReplanTriggered, by: &str, palette: Palette) -> String {
    let about = replan.step.as_ref().map(|step| format!(" of {step}")).unwrap_or_default();
    let (cause, why) = (replan.trigger.replace('_', " "), because(&replan.reason));
    if let Some(Asks::GoOn { .. }) = board.asks() {
        let (wait, plan, about) = (palette.tone(Tone::Wait, "?"), &board.plan, about.trim_start_matches(" of"));
        return format!(
            "  {wait} how to go on without{about}{why}: goalmill plan approve {plan} | reject {plan} | replan {plan}"
        );
    }
    format!("  {} replanning after {cause}{about}{by}{why}", palette.tone(Tone::Wait, "↻"))
}

fn constraint_line(changed: &ConstraintChanged, palette: Palette) -> String {
    let (tone, mark) = match changed.status {
        ConstraintStatus::Met => (Tone::Good, "✓"),
        ConstraintStatus::Broken => (Tone::Bad, "!"),
        ConstraintStatus::Low | ConstraintStatus::Relaxed | ConstraintStatus::NotMeasured => (Tone::Wait, "!"),
    };
    let of = match changed.measure.as_str() {
        "deadline" => String::new(),
        measure => {
            let amount = format!(": {} of {} {}", changed.measured, changed.limit, changed.unit);
            format!("{}{}", amount.trim_end(), whose(measure))
        }
    };
    let weight = if changed.hard { "hard constraint" } else { "constraint" };
    format!("  {} {weight} `{}` is {}{of}", palette.tone(tone, mark), changed.constraint, changed.status)
}

/// What an amount of money is: two measures that are easily taken for each other.
fn whose(measure: &str) -> &'static str {
    match measure {
        SPEND => " spent by the run",
        AMOUNT => " for the result",
        _ => "",
    }
}

/// Line for a constraint of a plan: `✓ budget: 85 of 100 USD`.
pub fn constraint_view_line(view: &ConstraintView, palette: Palette) -> String {
    let (tone, mark) = match view.status {
        ConstraintStatus::Met => (Tone::Good, "✓"),
        ConstraintStatus::Low | ConstraintStatus::Relaxed | ConstraintStatus::NotMeasured => (Tone::Wait, "!"),
        ConstraintStatus::Broken => (Tone::Bad, "✗"),
    };
    let amount = match (view.measure.as_str(), view.measured, view.limit) {
        ("deadline", ..) | (_, None, _) | (_, _, None) => String::new(),
        (_, Some(measured), Some(limit)) => {
            let word = if view.at_least { "of at least" } else { "of" };
            let amount = format!(": {measured} {word} {limit} {}", view.unit);
            format!("{}{}", amount.trim_end(), whose(&view.measure))
        }
    };
    let weight = if view.hard { " (hard)" } else { "" };
    let status = view.status.as_str().replace('_', " ");
    let why = because(&view.reason);
    format!("  {} {}{weight} {status}{amount}{why}", palette.tone(tone, mark), short(&view.name))
}

/// Line for the verdict on a criterion: `✓ c1 met (expression): steps.a.outputs.n = 3`.
pub fn verdict_line(verdict: &CriterionVerdict, palette: Palette) -> String {
    let (tone, mark) = match verdict.verdict {
        Judgement::Met => (Tone::Good, "✓"),
        Judgement::Unmet => (Tone::Bad, "✗"),
        Judgement::NotJudged => (Tone::Wait, "?"),
    };
    let judge = verdict.judge.map(|judge| format!(" ({judge})")).unwrap_or_default();
    let said = format!("{} {}{judge}", short(&verdict.description), verdict.verdict.as_str().replace('_', " "));
    format!("  {} {said}{}", palette.tone(tone, mark), because(&verdict.evidence))
}

fn planned(goal: Option<&Goal>, created: &PlanCreated, palette: Palette) -> Vec<String> {
    let steps = created.plan.steps.len();
    let by =
        if created.planner == "submitted" { "submitted".into() } else { format!("planned by {}", created.planner) };
    let sure = if created.planner == "submitted" {
        String::new()
    } else {
        format!(" · confidence {:.2}", created.confidence)
    };
    let plural = if steps == 1 { "" } else { "s" };
    let cleanup = created.plan.steps.iter().filter(|step| step.is_cleanup()).count();
    let cleanup = if cleanup > 0 { format!(", {cleanup} of the clean-up") } else { String::new() };
    let so_far = if created.open { " so far" } else { "" };
    let mut lines = vec![palette.tone(Tone::Dim, format!("  {by} · {steps} step{plural}{cleanup}{so_far}{sure}"))];
    let facts = |name: &str| created.plan.metadata.get(name);
    let says = |limits: &Map<String, Value>| limits.keys().any(|name| name != FAULTS);
    let given = goal.map(|goal| &goal.constraints).filter(|limits| says(limits));
    if let Some(given) = given.or_else(|| facts("facts")?.as_object()).filter(|limits| says(limits)) {
        let limits = limits(given.iter().filter(|(name, _)| *name != FAULTS));
        lines.push(palette.tone(Tone::Dim, format!("  limits: {limits}")));
    }
    if let Some(faults) = goal.and_then(|goal| goal.constraints.get(FAULTS)?.as_object()) {
        let faults = faults.iter().map(|(agent, fault)| format!("{} {}", short(agent), limit(fault).replace('_', " ")));
        let faults = faults.collect::<Vec<_>>().join(" · ");
        lines.push(palette.tone(Tone::Dim, format!("  made to fail: {faults}")));
    }
    let of_plan = || facts("success_criteria")?.as_array().map(|all| all.iter().map(limit).collect::<Vec<String>>());
    let of_goal = goal.iter().flat_map(|goal| &goal.success_criteria);
    let of_goal: Vec<String> = of_goal.map(|criterion| short(criterion.text())).collect();
    let criteria = if of_goal.is_empty() { of_plan().unwrap_or_default() } else { of_goal };
    if !criteria.is_empty() {
        lines.push(palette.tone(Tone::Dim, format!("  success: {}", criteria.join(" · "))));
    }
    lines
}

/// Line for the end of a streamed plan, with its progress when the first step started.
fn whole(board: &Board, extended: &PlanExtended, palette: Palette) -> Option<String> {
    if extended.open || extended.confidence.is_none() {
        return None;
    }
    let early = extended.provenance.as_ref().and_then(|said| began_before(board, &said.value()));
    let early = early.map(|share| format!(" · the first step began before {share} % of it was written"));
    Some(palette.tone(
        Tone::Dim,
        format!("  the plan is written: {} steps{}", board.written_ms.len(), early.unwrap_or_default()),
    ))
}

/// Percentage of the planner's answer that had arrived when the first step started.
fn began_before(board: &Board, said: &Value) -> Option<u64> {
    let begun_ms = board.begun_ms?;
    let later = board.written_ms.iter().position(|written_ms| *written_ms > begun_ms)?;
    let next = said["arrived"]["steps"].get(later)?;
    let (here, all) = (next["bytes"].as_u64()?, said["arrived"]["bytes"].as_u64()?);
    (all > 0).then(|| (here * 100).div_ceil(all))
}

fn revision(board: &Board, revised: &PlanRevised, by: &str, palette: Palette) -> String {
    let names = |sign: &str, steps: &[StepId]| -> Vec<String> { steps.iter().map(|s| format!("{sign}{s}")).collect() };
    let mut changes = names("+", &revised.added);
    changes.extend(names("-", &revised.removed));
    changes.extend(names("~", &revised.modified));
    let how = revised.strategy.map(|strategy| format!("{} · ", strategy.as_str().replace('_', " ")));
    let what = match revised.summary.as_str() {
        "" => revised.changes.iter().map(|change| short(change)).collect::<Vec<_>>().join("; "),
        summary => short(summary),
    };
    format!(
        "  {} revision {}{by}: {}{what} {} · confidence {:.2} → {:.2}",
        palette.tone(Tone::Wait, "↻"),
        revised.revision,
        how.unwrap_or_default(),
        palette.tone(Tone::Dim, format!("({})", changes.join(" "))),
        revised.confidence_before,
        board.confidence(),
    )
}

/// The last lines: outcome, cost and time of the plan.
pub fn ending(board: &Board, palette: Palette) -> Vec<String> {
    let counted = |n: u32, one: &str, many: &str| format!("{n} {}", if n == 1 { one } else { many });
    let mut facts = vec![
        counted(board.attempts, "attempt", "attempts"),
        counted(board.retries, "retry", "retries"),
        counted(board.revision(), "revision", "revisions"),
    ];
    let usage = board.usage();
    if usage.tokens > 0 {
        facts.push(format!("{} tokens", usage.tokens));
    }
    facts.push(format!("{:.2} USD", usage.cost));
    if board.status() == PlanStatus::Completed || board.status() == PlanStatus::Partial {
        let views = board.constraints().into_iter();
        let unknown = views.filter(|view| view.hard && view.status == ConstraintStatus::NotMeasured);
        facts.extend(unknown.map(|view| format!("hard constraint `{}` not measured", short(&view.name))));
    }
    let took = seconds(board.last_ms.saturating_sub(board.first_ms));
    let status = palette.tone(plan_tone(board.status()), board.status().as_str().replace('_', " "));
    let mut lines =
        vec![format!("{} {status} in {took} · {}", palette.tone(Tone::Bold, board.plan.as_str()), facts.join(" · "))];
    if let Some(failure) = board.failure() {
        lines.push(format!("  why: {}", why(failure)));
    } else if !board.reason().is_empty() && board.status() != PlanStatus::Completed {
        lines.push(format!("  why: {}", reason(board.reason())));
    }
    // A step that failed and that a revision passes over makes a plan partial too.
    let is_partial = board.status() == PlanStatus::Partial;
    let is_shown = |status: StepStatus, has_failure: bool| {
        status == StepStatus::Failed || (is_partial && status == StepStatus::Skipped && has_failure)
    };
    for row in board.rows().filter(|row| is_shown(row.status, row.failure.is_some())).take(FAILURES_SHOWN) {
        let failure = row.failure.map(why).unwrap_or_default();
        lines.push(format!("  {} {}: {failure}", palette.tone(Tone::Bad, "✗"), row.id()));
    }
    lines
}

#[cfg(test)]
mod tests {
    use goalmill_common::event::{
        CleanupStarted, GoalAccepted, PlanEnded, Reason, StepAdded, StepCompleted, StepEvent, StepQueued, StepRetrying,
        StepSkipped, StepStarted,
    };
    use goalmill_common::failure::{Failure, FailureClass};
    use goalmill_common::json::Json;
    use goalmill_common::plan::{Plan, Step};

    use super::*;

    /// A log being written: each line is an event at a time in milliseconds.
    #[derive(Default)]
    struct Script {
        records: Vec<Record>,
    }

    impl Script {
        fn plan(mut self, time_ms: u64, event: PlanEvent) -> Self {
            let seq = self.records.len() as u64 + 1;
            self.records.push(Record { seq, time_ms, actor: None, event: Event::Plan(event) });
            self
        }

        /// A step is ready before it is queued.
        fn step(mut self, time_ms: u64, step: &str, attempt: u32, event: StepEvent) -> Self {
            let last =
                self.records.iter().rev().find(|record| record.event.step().is_some_and(|id| id.as_str() == step));
            let is_ready = last.is_some_and(|last| matches!(last.event, Event::Step { event: StepEvent::Ready, .. }));
            if matches!(event, StepEvent::Queued(_)) && !is_ready {
                self = self.step(time_ms, step, attempt - 1, StepEvent::Ready);
            }
            let seq = self.records.len() as u64 + 1;
            let event = Event::Step { step: step.into(), attempt, phase: None, event };
            self.records.push(Record { seq, time_ms, actor: None, event });
            self
        }

        fn begin(steps: Vec<Step>) -> Self {
            let goal = Goal {
                description: "Plan a trip".into(),
                constraints: serde_json::from_str(r#"{"budget": {"amount": 2000, "currency": "USD"}, "month": "May"}"#)
                    .expect("it is an object"),
                ..Goal::default()
            };
            let accepted = GoalAccepted {
                plan_id: "p0-1".into(),
                goal,
                submission: "s".into(),
                source: "test".into(),
                secret: "x".into(),
                salt: String::new(),
                fingerprint: String::new(),
                entry: None,
                parent: None,
                traceparent: None,
                deadline_ms: 9_000_000,
            };
            let plan = Plan { steps, ..Plan::default() };
            let created: PlanCreated =
                serde_json::from_value(serde_json::json!({"plan": plan, "planner": "rules", "confidence": 0.85}))
                    .expect("it is a created plan");
            let validated = serde_json::from_str("{}").expect("no field is required");
            Self::default()
                .plan(1_000, PlanEvent::GoalAccepted(Box::new(accepted)))
                .plan(1_000, PlanEvent::PlanCreated(Box::new(created)))
                .plan(1_000, PlanEvent::PlanValidated(Box::new(validated)))
        }

        fn run(self, step: &str, attempt: u32, from_ms: u64, to_ms: u64, outputs: &str) -> Self {
            let done = StepCompleted {
                outputs: Json::from_text(outputs.into()).expect("it is JSON"),
                finished_ms: Some(to_ms),
                cost: 0.01,
                ..StepCompleted::default()
            };
            self.start(step, attempt, from_ms).step(to_ms, step, attempt, StepEvent::Completed(Box::new(done)))
        }

        fn start(self, step: &str, attempt: u32, from_ms: u64) -> Self {
            let queued = StepQueued::new(format!("{step}_agent").as_str().into(), 9_000);
            let started = StepStarted { worker: Some("w".into()), started_ms: from_ms, due_ms: 9_000 };
            self.step(from_ms, step, attempt, StepEvent::Queued(Box::new(queued))).step(
                from_ms,
                step,
                attempt,
                StepEvent::Started(Box::new(started)),
            )
        }

        fn end(self, time_ms: u64, status: PlanStatus) -> Self {
            let end = PlanEnded { status, failure: None, reason: String::new(), cancelled: Vec::new() };
            let end = Box::new(end);
            let event = if status == PlanStatus::Failed { PlanEvent::Failed(end) } else { PlanEvent::Completed(end) };
            self.plan(time_ms, event)
        }

        /// Plays the script, and gives the lines that a pipe gets.
        fn lines(self) -> (Board, Vec<String>) {
            let mut board = Board::new("p0-1".into());
            let mut lines = Vec::new();
            for record in &self.records {
                board.apply(record).expect("the log is right");
                lines.extend(change_lines(&board, record, Palette::plain(), true));
            }
            if board.status().is_final() {
                lines.extend(ending(&board, Palette::plain()));
            }
            (board, lines)
        }
    }

    fn step(id: &str, dependencies: &[&str]) -> Step {
        let dependencies = dependencies.iter().map(|id| StepId::from(*id)).collect();
        Step { dependencies, ..Step::new(id, format!("{id}_agent")) }
    }

    fn failure() -> Failure {
        Failure::new(FailureClass::RateLimited, "DEMO_RATE_LIMITED", "slow down")
    }

    fn retrying(due_ms: u64) -> StepEvent {
        StepEvent::Retrying(Box::new(StepRetrying::new(failure(), due_ms)))
    }

    #[test]
    fn a_run_with_parallel_steps_and_a_retry_reads_as_a_story() {
        let (_, lines) = Script::begin(vec![step("flights", &[]), step("sights", &[]), step("hotels", &["flights"])])
            .start("flights", 1, 1_010)
            .run("sights", 1, 1_015, 1_500, r#"{"total": 116.4, "currency": "USD", "summary": "5 activities"}"#)
            .step(
                1_810,
                "flights",
                1,
                StepEvent::Completed(Box::new(StepCompleted {
                    outputs: Json::from_text(r#"{"total": 612, "currency": "USD"}"#.into()).expect("it is JSON"),
                    finished_ms: Some(1_810),
                    ..StepCompleted::default()
                })),
            )
            .start("hotels", 1, 1_820)
            .step(1_830, "hotels", 1, retrying(2_030))
            .run("hotels", 2, 2_040, 2_440, r#"{"total": 504, "currency": "USD", "summary": "3 nights"}"#)
            .end(2_450, PlanStatus::Completed)
            .lines();
        let want = [
            "p0-1 accepted · Plan a trip",
            "  planned by rules · 3 steps · confidence 0.85",
            "  limits: budget 2000 USD · month May",
            "  ▶ flights  flights_agent  started",
            "  ▶ sights   sights_agent   started",
            "  ✓ sights   sights_agent    0.48 s    116.40 USD  5 activities",
            "  ✓ flights  flights_agent   0.80 s    612.00 USD  (ran beside sights)",
            "  ▶ hotels   hotels_agent   started",
            "  ↻ hotels   hotels_agent   attempt 1 failed: slow down · next try in 0.20 s",
            "  ▶ hotels   hotels_agent   started, attempt 2",
            "  ✓ hotels   hotels_agent    0.40 s    504.00 USD  3 nights  (1 retry after 0.21 s)",
            "p0-1 completed in 1.4 s · 4 attempts · 1 retry · 0 revisions · 0.02 USD",
        ];
        assert_eq!(lines, want);
    }

    #[test]
    fn the_wait_that_is_told_afterwards_is_the_one_that_was_waited() {
        let (board, _) = Script::begin(vec![step("a", &[])])
            .start("a", 1, 1_100)
            .step(1_200, "a", 1, retrying(1_400))
            .step(1_437, "a", 1, StepEvent::Ready)
            .start("a", 2, 1_500)
            .lines();
        assert_eq!(board.rows().next().map(|row| row.waits_ms.to_vec()), Some(vec![237]));
    }

    #[test]
    fn being_told_to_wait_is_no_failure_and_no_retry() {
        let told = StepRetrying { told_to_wait: true, ..StepRetrying::new(failure(), 1_400) };
        let (board, lines) = Script::begin(vec![step("a", &[])])
            .start("a", 1, 1_100)
            .step(1_200, "a", 1, StepEvent::Retrying(Box::new(told)))
            .step(1_440, "a", 1, StepEvent::Ready)
            .run("a", 2, 1_500, 1_600, "{}")
            .lines();
        assert_eq!((board.attempts, board.retries), (2, 0));
        assert!(
            lines.iter().any(|line| line.contains("attempt 1 was told to wait: slow down · next try")),
            "{lines:#?}"
        );
        assert!(lines.iter().any(|line| line.contains("(waited 0.24 s as told)")), "{lines:#?}");
    }

    #[test]
    fn an_attempt_that_was_lost_before_its_start_was_told_is_counted() {
        let queued = StepQueued::new("a_agent".into(), 9_000);
        let (board, _) = Script::begin(vec![step("a", &[])])
            .step(1_100, "a", 1, StepEvent::Queued(Box::new(queued)))
            .step(1_200, "a", 1, retrying(1_200))
            .step(1_200, "a", 1, StepEvent::Ready)
            .run("a", 2, 1_300, 1_400, "{}")
            .lines();
        assert_eq!((board.attempts, board.retries), (2, 1));
    }

    #[test]
    fn a_revision_tells_what_changed_and_what_it_cost_in_confidence() {
        let trigger = ReplanTriggered {
            trigger: "step_failure".into(),
            step: Some("hotels".into()),
            reason: "fully booked".into(),
            due_ms: 9_000,
            ..ReplanTriggered::default()
        };
        let revised = PlanRevised {
            revision: 1,
            trigger: "step_failure".into(),
            changes: vec!["insert_recovery: search nearby".into()],
            added: vec!["hotels_alt".into()],
            removed: vec!["hotels".into()],
            modified: vec![],
            confidence_before: 0.85,
            confidence_delta: -0.15,
            confidence_after: 0.7,
            ..PlanRevised::default()
        };
        let (board, lines) = Script::begin(vec![step("hotels", &[])])
            .plan(1_100, PlanEvent::ReplanTriggered(Box::new(trigger)))
            .step(1_200, "hotels_alt", 0, StepEvent::Added(Box::new(StepAdded { step: step("hotels_alt", &[]) })))
            .step(1_200, "hotels", 0, StepEvent::Removed(Reason::boxed("replaced")))
            .plan(1_200, PlanEvent::Revised(Box::new(revised)))
            .lines();
        assert!(lines[3].starts_with("  ↻ ") && lines[3].ends_with("hotels: fully booked"), "{}", lines[3]);
        assert_eq!(
            lines[6],
            "  ↻ revision 1: insert_recovery: search nearby (+hotels_alt -hotels) · confidence 0.85 → 0.70"
        );
        let counts = board.counts();
        assert_eq!((counts.total, counts.skipped, board.status()), (2, 1, PlanStatus::Running));
    }

    #[test]
    fn the_plans_end_cancels_what_it_lists() {
        let (status, cancelled) = (PlanStatus::Cancelled, vec!["a".into(), "b".into()]);
        let end = PlanEnded { status, failure: None, reason: "enough".into(), cancelled };
        let script =
            Script::begin(vec![step("a", &[]), step("b", &["a"]), step("c", &[])]).run("c", 1, 1_100, 1_200, "{}");
        let (board, _) = script.plan(1_300, PlanEvent::Cancelled(Box::new(end))).lines();
        let rows: Vec<_> = board.rows().map(|row| (row.status, row.reason)).collect();
        let gone = (StepStatus::Cancelled, "the plan was cancelled");
        assert_eq!(rows, [gone, gone, (StepStatus::Completed, "")]);
    }

    #[test]
    fn a_plan_that_fails_says_which_step_and_why() {
        let failed = goalmill_common::event::StepFailed::new(failure());
        let cause = goalmill_common::event::SkipCause::DependencyFailed;
        let skipped = StepSkipped { reason: "`a` failed".into(), ..StepSkipped::new(cause) };
        let (_, lines) = Script::begin(vec![step("a", &[]), step("b", &["a"])])
            .start("a", 1, 1_100)
            .step(1_200, "a", 1, StepEvent::Failed(Box::new(failed)))
            .step(1_200, "b", 0, StepEvent::Skipped(Box::new(skipped)))
            .end(1_300, PlanStatus::Failed)
            .lines();
        assert!(lines.contains(&"  ✗ a  a_agent  slow down [DEMO_RATE_LIMITED]".to_owned()), "{lines:#?}");
        assert!(lines.contains(&"  ○ b  b_agent  skipped: `a` failed".to_owned()), "{lines:#?}");
        assert_eq!(lines.last().map(String::as_str), Some("  ✗ a: slow down [DEMO_RATE_LIMITED]"));
    }

    #[test]
    fn clean_up_is_a_group_at_the_end_that_says_what_each_step_is_for() {
        let undo = Step { undoes: Some("book".into()), ..step("book:undo", &[]) };
        let always = Step { always: true, ..step("report", &[]) };
        let outcome = PlanEnded { status: PlanStatus::Failed, failure: None, reason: String::new(), cancelled: vec![] };
        let started = CleanupStarted { outcome, undo: vec!["book:undo".into()], due_ms: 9_000, after_inside_ms: None };
        let failed = goalmill_common::event::StepFailed::new(failure());
        let (_, lines) = Script::begin(vec![step("book", &[]), undo, step("pay", &["book"]), always])
            .run("book", 1, 1_100, 1_200, "{}")
            .start("pay", 1, 1_300)
            .step(1_400, "pay", 1, StepEvent::Failed(Box::new(failed)))
            .plan(1_400, PlanEvent::CleanupStarted(Box::new(started)))
            .run("book:undo", 1, 1_500, 1_600, "{}")
            .run("report", 1, 1_700, 1_800, r#"{"summary": "gone"}"#)
            .lines();
        assert_eq!(lines[1], "  planned by rules · 4 steps, 2 of the clean-up · confidence 0.85");
        let start = lines.iter().position(|line| line.starts_with("  ends as failed")).expect("the clean-up begins");
        assert_eq!(
            lines[start..],
            [
                "  ends as failed: clean-up steps run",
                "  ▶ book:undo  book:undo_agent  started  (undoes book)",
                "  ✓ book:undo  book:undo_agent   0.10 s  (undoes book)",
                "  ▶ report     report_agent     started  (always)",
                "  ✓ report     report_agent      0.10 s  gone  (always)",
            ]
        );
    }

    #[test]
    fn a_plan_awaits_a_person_only_when_nothing_else_moves() {
        let asked =
            || StepEvent::ApprovalRequested(Box::new(goalmill_common::event::ApprovalRequested { due_ms: 9_000 }));
        let script = || Script::begin(vec![step("a", &[]), step("b", &[])]).step(1_100, "a", 0, asked());
        let (busy, _) = script().start("b", 1, 1_150).lines();
        assert!(!busy.awaits_a_person());
        let (idle, _) = script().run("b", 1, 1_150, 1_160, "{}").lines();
        assert!(idle.awaits_a_person());
    }
}
