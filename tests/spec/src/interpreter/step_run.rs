//! A step in a run: where it stands, and what is known of its attempts.

use goalmill_common::failure::Failure;
use goalmill_common::id::StepId;
use goalmill_common::json::Json;
use goalmill_common::number::whole_u64;
use goalmill_common::plan::{Retry, Step, StepKind};
use goalmill_common::status::StepStatus;
use serde_json::Value;

use super::plan_run::PlanRun;
use super::seen::{Locals, SeenStep};
use crate::script::Act;

/// To which part of the life of its plan a step belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Main,
    Undo,
    Always,
    /// A person took it out of the plan.
    Removed,
}

/// Where a step stands.
#[derive(Clone, Debug)]
pub(super) enum Work {
    /// Its dependencies are open.
    Pending,
    /// It may begin when there is a place.
    Ready,
    /// An agent works on it: what it does, and when. Times are Unix milliseconds.
    Out {
        act: Act,
        ends_ms: Option<u64>,
        limit_ms: u64,
    },
    /// The agent has accepted the task: it holds neither a place nor a resource until its callback.
    Accepted {
        act: Act,
        ends_ms: Option<u64>,
        limit_ms: u64,
    },
    /// The next attempt or iteration begins then.
    Backoff {
        until_ms: u64,
    },
    /// It waits for a person until then: for an answer, or for an approval.
    Asked {
        until_ms: u64,
        is_question: bool,
    },
    /// It waits for a time, or for an event until a time.
    Waiting {
        until_ms: Option<u64>,
        event: Option<(String, String)>,
    },
    /// The last one of its plans runs.
    Inside,
    Ended(StepStatus),
}

/// What one agent did in one iteration of a step; a step without a loop has one iteration.
#[derive(Clone, Debug, Default)]
pub(super) struct Piece {
    pub(super) round: u32,
    pub(super) is_fallback: bool,
    /// How often the step had become other work.
    edition: u32,
    pub(super) inputs: Json,
    pub(super) outputs: Option<Json>,
    /// An attempt was sent, and nobody knows what it did.
    pub(super) unknown: bool,
}

/// When a step began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Begun {
    /// Unix milliseconds.
    pub(super) ms: u64,
    /// How many questions had been sent before.
    pub(super) asks: usize,
}

/// A step in a run.
#[derive(Clone, Debug)]
pub(super) struct StepRun {
    pub(super) spec: Step,
    pub(super) part: Part,
    pub(super) work: Work,
    /// What its expressions see beside the goal and the steps.
    pub(super) locals: Locals,
    pub(super) outputs: Option<Json>,
    pub(super) failure: Option<Failure>,
    /// It undoes an item of a map that a person took out. Such undos that have begun go on when the plan ends.
    pub(super) goes_on: bool,
    /// Of the plan that ends: the step whose work it undoes.
    pub(super) undoes: Option<StepId>,
    /// Whether it satisfies its dependents.
    pub(super) satisfies: bool,
    pub(super) partial: bool,
    /// Failures since the last iteration or fallback began.
    pub(super) failures: u32,
    /// Lost attempts of the iteration.
    pub(super) lost: u32,
    pub(super) is_fallback: bool,
    /// How often it became other work.
    pub(super) edition: u32,
    /// The number of the iteration, from 1.
    pub(super) round: u32,
    pub(super) previous: Option<Json>,
    /// The answer to its question.
    pub(super) answer: Option<Json>,
    /// In the order in which they were first sent.
    pub(super) pieces: Vec<Piece>,
    /// The plans inside it, one for each iteration.
    pub(super) plans: Vec<PlanRun>,
    pub(super) begun: Option<Begun>,
    /// When the last attempt began, Unix milliseconds.
    pub(super) last_ms: u64,
}

impl StepRun {
    pub(super) fn new(spec: Step, part: Part) -> Self {
        Self {
            spec,
            part,
            work: Work::Pending,
            locals: Vec::new(),
            outputs: None,
            failure: None,
            goes_on: false,
            undoes: None,
            satisfies: false,
            partial: false,
            failures: 0,
            lost: 0,
            is_fallback: false,
            edition: 0,
            round: 1,
            previous: None,
            answer: None,
            pieces: Vec::new(),
            plans: Vec::new(),
            begun: None,
            last_ms: 0,
        }
    }

    /// Whether an expected output is missing.
    pub(super) fn misses(&self, outputs: &Value) -> bool {
        self.spec.expected_outputs.iter().any(|name| outputs.get(name).is_none())
    }

    /// Whether its fields name another step.
    pub(super) fn speaks_of(&self, id: &StepId) -> bool {
        self.spec.dependencies.contains(id) || Json::from_value(&self.spec).text().contains(&format!("steps.{id}."))
    }

    /// Whether an agent does it.
    pub(super) fn asks_agent(&self) -> bool {
        self.spec.kind.needs_worker() && self.spec.for_each.is_none()
    }

    /// Whether it is done at once, without an agent, but takes its turn like all others.
    pub(super) fn is_instant(&self) -> bool {
        !self.asks_agent() && !self.holds_plan() && self.spec.kind != StepKind::Wait
    }

    pub(super) fn holds_plan(&self) -> bool {
        self.spec.kind == StepKind::Plan || self.spec.for_each.is_some()
    }

    /// The action that its agent is asked for.
    pub(super) fn action(&self) -> &str {
        let fallback = self.spec.fallback.as_ref().filter(|_| self.is_fallback);
        fallback.and_then(|fallback| fallback.action.as_deref()).unwrap_or(&self.spec.action)
    }

    pub(super) fn is_ended(&self) -> bool {
        self.status().is_some()
    }

    /// How it ended.
    pub(super) fn status(&self) -> Option<StepStatus> {
        if let Work::Ended(status) = self.work { Some(status) } else { None }
    }

    /// Whether an agent has its task.
    pub(super) fn is_out(&self) -> bool {
        matches!(self.work, Work::Out { .. } | Work::Accepted { .. })
    }

    /// An attempt that is out may be done. Returns whether there is one.
    pub(super) fn end_out(&mut self) -> bool {
        let is_out = self.is_out();
        if is_out {
            self.piece().unknown = true;
        }
        is_out
    }

    /// Whether it has begun and not ended.
    pub(super) fn is_begun(&self) -> bool {
        self.is_out() || matches!(self.work, Work::Backoff { .. } | Work::Waiting { .. } | Work::Inside)
    }

    pub(super) fn end(&mut self, status: StepStatus) {
        self.satisfies |= status == StepStatus::Completed;
        self.work = Work::Ended(status);
    }

    /// The plan inside it that runs.
    pub(super) fn inside(&self) -> Option<&PlanRun> {
        self.plans.last().filter(|_| matches!(self.work, Work::Inside))
    }

    pub(super) fn inside_mut(&mut self) -> Option<&mut PlanRun> {
        self.plans.last_mut().filter(|_| matches!(self.work, Work::Inside))
    }

    /// As expressions of other steps see it.
    pub(super) fn seen(&self) -> SeenStep {
        SeenStep {
            status: self.status().unwrap_or(StepStatus::Pending),
            outputs: self.outputs.clone(),
            partial: self.partial,
            failure: self.failure.clone(),
        }
    }

    /// The piece of work that is at hand.
    pub(super) fn piece(&mut self) -> &mut Piece {
        let (round, is_fallback, edition) = (self.round, self.is_fallback, self.edition);
        let is_same =
            |piece: &Piece| piece.round == round && piece.is_fallback == is_fallback && piece.edition == edition;
        let place = self.pieces.iter().position(is_same).unwrap_or(self.pieces.len());
        if place == self.pieces.len() {
            self.pieces.push(Piece { round, is_fallback, edition, ..Piece::default() });
        }
        &mut self.pieces[place]
    }

    /// Whether the fallback was asked in an iteration.
    pub(super) fn has_fallen_back(&self, round: u32) -> bool {
        self.pieces.iter().any(|piece| piece.round == round && piece.is_fallback)
    }

    /// When the next attempt begins after `failures` failed ones, in milliseconds.
    pub(super) fn backoff_ms(&self) -> u64 {
        let Retry { initial_ms, factor, max_ms, .. } = self.spec.retry;
        let mut wait_ms = initial_ms as f64;
        for _ in 1..self.failures {
            wait_ms *= factor;
        }
        whole_u64(wait_ms).min(max_ms)
    }
}
