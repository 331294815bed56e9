//! The events of a plan as a whole, and their payloads.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::clock::rfc3339;
use crate::command::GoalCorrection;
use crate::constraint::ConstraintStatus;
use crate::criterion::{Criterion, CriterionVerdict, JudgeKind};
use crate::external_event::ExternalEvent;
use crate::failure::Failure;
use crate::goal::Goal;
use crate::id::{AgentType, PlanId, StepId};
use crate::json::Json;
use crate::plan::{Plan, Question};
use crate::planning::ReplanOptions;
use crate::problem::Issue;
use crate::revision::{Fork, Proposal, RevisionStrategy};
use crate::status::PlanStatus;

use super::hook::{HookAsked, HookDecided};
use super::table::events;
use super::weight::{self, FIXED_BYTES, ids, json};

events! {
    /// Something happened to a plan.
    PlanEvent: PlanEventKind {
        /// The goal was accepted; always the first event.
        GoalAccepted(GoalAccepted) = "goal_accepted": Submission,
            sample r#"{"plan_id":"p0-1","goal":{},"submission":"s","source":"test","deadline_ms":1}"#,
            weight |accepted| accepted.goal.description.len() + accepted.submission.len() + accepted.source.len();
        /// A language model is about to be asked; written before the call goes out.
        ModelAsked(ModelAsked) = "model_asked": Planning,
            sample r#"{"revision":0,"planner":"llm","call":1,"template":"plan","reserved":{}}"#;
        /// The result of the call, and its usage.
        ModelAnswered(ModelAnswered) = "model_answered": Planning,
            sample r#"{"revision":0,"planner":"llm","call":1,"usage":{}}"#,
            weight |answered| json(answered.answer.as_ref()) + answered.error.len();
        /// The planner's model called tools; written when they have run.
        ToolsCalled(ToolsCalled) = "tools_called": Planning,
            sample r#"{"revision":0,"planner":"tools","call":1,"tools":[]}"#,
            weight |called| called.tools.iter().map(PlannerToolCall::bytes).sum();
        /// The structured fields of the goal are other ones: a model read them in its text, or a person corrected them.
        GoalChanged(GoalChanged) = "goal_changed": Planning,
            weight |changed| changed.bytes();
        /// No planner has a plan, or a change of one.
        PlanningFailed(PlanningFailed) = "planning_failed": Planning,
            weight |failed| json(failed.provenance.as_ref()) + FIXED_BYTES * failed.issues.len();
        /// The plan was created.
        PlanCreated(PlanCreated) = "plan_created": Creation,
            sample r#"{"plan":{"steps":[]},"planner":"rules","confidence":0.5}"#,
            weight |created| weight::plan(&created.plan) + json(created.provenance.as_ref());
        /// The plan is valid.
        PlanValidated(PlanValidated) = "plan_validated": Creation,
            weight |validated| FIXED_BYTES * (validated.warnings.len() + 4 * validated.routes.len());
        /// A person must approve it before it runs.
        ApprovalRequested(ApprovalRequested) = "plan_approval_requested": Approval, sample r#"{"due_ms":1}"#;
        /// The hooks of a point are asked about the plan.
        HookAsked(HookAsked) = "hook_asked": Approval, sample r#"{"id":"p0-1:2","point":"on_plan_generated"}"#;
        /// The hooks have decided about the plan.
        HookDecided(HookDecided) = "hook_decided": Approval,
            sample r#"{"id":"p0-1:2","point":"on_plan_generated","decision":"allow"}"#;
        /// It was approved.
        Approved(Reason) = "plan_approved": Approval;
        /// It was rejected; the plan ends.
        Rejected(PlanRejected) = "plan_rejected": End, weight |rejected| ids(&rejected.cancelled);
        /// A revision adds a phase.
        PhaseAdded(PhaseAdded) = "phase_added": Change, sample r#"{"phase":"one"}"#;
        /// The steps of a phase may start.
        PhaseStarted(PhaseNamed) = "phase_started": Phase, sample r#"{"phase":"one"}"#;
        /// All steps of a phase are final, and none failed.
        PhaseCompleted(PhaseNamed) = "phase_completed": Phase, sample r#"{"phase":"one"}"#;
        /// All steps of a phase are final, and some failed.
        PhaseFailed(PhaseNamed) = "phase_failed": Phase, sample r#"{"phase":"one"}"#;
        /// A phase was skipped.
        PhaseSkipped(PhaseNamed) = "phase_skipped": Phase, sample r#"{"phase":"one"}"#;
        /// The planners are asked to change it.
        ReplanTriggered(ReplanTriggered) = "replan_triggered": Replanning,
            sample r#"{"trigger":"person","reason":"rain","due_ms":1}"#,
            weight |replan| replan.hint.len() + json(replan.information.as_ref());
        /// A revision waits for a person.
        RevisionProposed(RevisionProposed) = "revision_proposed": Replanning,
            sample r#"{"revision":1,"proposal":{"strategy":"adjust"},"changes":[],"confidence_before":0.5,
                "confidence_after":0.4,"due_ms":1}"#,
            weight |proposed| FIXED_BYTES * (4 * proposed.changes.len() + proposed.widens.len());
        /// A revision was refused.
        RevisionRefused(RevisionRefused) = "revision_refused": Replanning,
            sample r#"{"revision":1,"strategy":"adjust","reason":"too dear"}"#;
        /// A person is asked something before it is changed.
        QuestionAsked(QuestionAsked) = "question_asked": Replanning,
            sample r#"{"id":"q","question":{"question":"Which?"},"due_ms":1}"#;
        /// The question has an answer.
        QuestionAnswered(QuestionAnswered) = "question_answered": Replanning,
            sample r#"{"id":"q","answer":"this","due_ms":1}"#,
            weight |answered| answered.answer.text().len() + answered.reason.len();
        /// Takes the `step_added`, `step_modified`, `step_removed` and `phase_added` before it into the plan.
        Revised(PlanRevised) = "plan_revised": Change,
            sample r#"{"revision":1,"trigger":"person","changes":[],"added":[],"removed":[],"modified":[],
                "confidence_delta":0}"#,
            weight |revised| FIXED_BYTES * (revised.changes.len() + revised.added.len());
        /// Takes the `step_added` and `phase_added` before it into a plan that is still being written.
        Extended(PlanExtended) = "plan_extended": Change, sample r#"{"added":["a"],"open":true}"#,
            weight |extended| json(extended.provenance.as_ref()) + 4 * FIXED_BYTES * extended.routes.len();
        /// Plans inside it have more steps.
        FamilyGrew(FamilyGrew) = "family_grew": Creation;
        /// The plan stands differently with a constraint: low, broken or relaxed.
        ConstraintChanged(ConstraintChanged) = "constraint_changed": Contract,
            sample r#"{"constraint":"budget","status":"low","priority":8,"hard":true,"measure":"cost","measured":9.0,
                "limit":10.0}"#;
        /// A model or a person is asked to judge success criteria.
        JudgementRequested(JudgementRequested) = "judgement_requested": Contract,
            sample r#"{"judge":"model","criteria":["c1"],"due_ms":1}"#;
        /// Success criteria were judged.
        CriteriaJudged(CriteriaJudged) = "criteria_judged": Contract, sample r#"{"verdicts":[]}"#,
            weight |judged| judged.verdicts.iter().map(|verdict| FIXED_BYTES + verdict.evidence.len()).sum();
        /// An event came from outside; it is kept until a step takes it.
        EventReceived(ExternalEvent) = "event_received": Control, sample r#"{"id":"e1","name":"payment"}"#,
            weight |event| event.key.len() + event.data.text().len();
        /// Nothing new starts until it is resumed.
        Paused(Reason) = "plan_paused": Control;
        /// It goes on.
        Resumed(Reason) = "plan_resumed": Control;
        /// Schedulers died while they worked on it: it is in quarantine until it is resumed.
        Quarantined(Reason) = "plan_quarantined": Control;
        /// The outcome of the plan is known, and its clean-up steps run.
        CleanupStarted(CleanupStarted) = "cleanup_started": Control,
            sample r#"{"outcome":{"status":"failed"},"undo":[],"due_ms":1}"#,
            weight |started| ids(&started.outcome.cancelled) + ids(&started.undo);
        /// All that had to be done is done, or as much as its policy asks for.
        Completed(PlanEnded) = "plan_completed": End, sample r#"{"status":"completed"}"#,
            weight |end| ids(&end.cancelled);
        /// It ended with a failure.
        Failed(PlanEnded) = "plan_failed": End, sample r#"{"status":"failed"}"#, weight |end| ids(&end.cancelled);
        /// It was ended.
        Cancelled(PlanEnded) = "plan_cancelled": End, sample r#"{"status":"cancelled"}"#,
            weight |end| ids(&end.cancelled);
    }
}

/// The clean-up of a plan begins.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CleanupStarted {
    /// What the plan ends as, and what that has cancelled.
    pub outcome: PlanEnded,
    /// The undo steps that run, in their order.
    pub undo: Vec<StepId>,
    /// The plan ends then at the latest, Unix milliseconds.
    pub due_ms: u64,
}

/// The goal of a plan was accepted; always the first event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GoalAccepted {
    /// The plan's id.
    pub plan_id: PlanId,
    /// The goal.
    pub goal: Goal,
    /// The submission's id, the caller's idempotency key.
    pub submission: String,
    /// Where it came from: CloudEvents `source`.
    pub source: String,
    /// Attempt tokens are made from this word, so that no attempt needs one stored. It stays in the journal: an
    /// exported line has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub secret: String,
    /// The [`crate::command::fingerprint`] of the caller's body: another body under the same key is refused.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub fingerprint: String,
    /// The step that the plan stands for, when it is a plan inside another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
    /// W3C trace context, when the caller gave one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    /// The plan ends by then, Unix milliseconds.
    pub deadline_ms: u64,
}

impl GoalAccepted {
    /// Whether a body with this fingerprint is another one than began the plan. Those that came without an
    /// idempotency key of HTTP have no fingerprint: their id alone decides.
    pub fn is_other_body(&self, fingerprint: &str) -> bool {
        !self.fingerprint.is_empty() && !fingerprint.is_empty() && self.fingerprint != fingerprint
    }
}

/// The step that a sub-plan stands for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    /// The plan that the step belongs to.
    pub plan: PlanId,
    /// The step.
    pub step: StepId,
    /// The step's attempt that became the plan.
    pub attempt: u32,
    /// Plans above this one: 1 for a plan inside a submitted plan.
    pub depth: u32,
    /// The outermost plan; none when that is `plan`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<PlanId>,
}

impl Parent {
    /// The outermost plan.
    pub fn family(&self) -> &PlanId {
        self.root.as_ref().unwrap_or(&self.plan)
    }
}

/// Steps that the plans inside a plan have more, at any depth. Only plans that are inside no other one have this event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FamilyGrew {
    /// How many; a plan counts as one step more.
    #[serde(default)]
    pub steps: u64,
}

/// Why something was done, in words.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Reason {
    /// In one line; empty when none was given.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Located errors, where there are any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub issues: Vec<Issue>,
}

impl Reason {
    /// A reason without located errors.
    pub fn boxed(reason: impl Into<String>) -> Box<Self> {
        Box::new(Self { reason: reason.into(), issues: Vec::new() })
    }
}

/// A language model is about to be asked for the plan, for a change of it, or for verdicts on its success criteria.
///
/// It is written before the call goes out, so that a call whose scheduler ends in the middle is known to have been made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelAsked {
    /// 0 for the plan itself, else the revision that is being made; of a judge the revision that is judged.
    pub revision: u32,
    /// `llm`, `tools`, `judge`, `goal_reader`.
    pub planner: String,
    /// Counted from 1 each time the planner is asked.
    pub call: u32,
    /// The prompt's template.
    pub template: String,
    /// The most that it may take: the prompt by estimate, and the longest answer, by the most expensive model.
    pub reserved: crate::goal::Usage,
    /// The same call was begun before, by a scheduler that ended before it had written down an answer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub repeated: bool,
}

impl ModelAsked {
    /// The `planner` of calls that judge success criteria.
    pub const JUDGE: &str = "judge";
    /// The `planner` of calls that read the text of a goal.
    pub const GOAL_READER: &str = "goal_reader";
}

/// The result of a call of a language model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelAnswered {
    /// With `planner` and `call`: which [`ModelAsked`] it is about.
    pub revision: u32,
    /// `llm`, `tools`.
    pub planner: String,
    /// Counted from 1 each time the planner is asked.
    pub call: u32,
    /// What it took, tries that failed included; it belongs to what the plan has used up.
    pub usage: crate::goal::Usage,
    /// Some of it was counted from texts, because a server did not say or a call was cut short.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub estimated: bool,
    /// The answer, for a scheduler that has to go on with the planning; none when it holds what looks like a secret, or
    /// is very long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Json>,
    /// Why there is no answer.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub error: String,
}

/// The tools that a planner's model called in one answer, and the result of each; written when the calls of that answer
/// have run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ToolsCalled {
    /// With `planner` and `call`: the [`ModelAnswered`] that has asked for them.
    pub revision: u32,
    /// `tools`.
    pub planner: String,
    /// The number of the model call.
    pub call: u32,
    /// In order.
    pub tools: Vec<PlannerToolCall>,
    /// Number of further calls for which the event has no room.
    #[serde(default)]
    pub left_out: u32,
}

/// A tool call of a planner's model. Long values and values that look like secrets are texts, cut and masked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlannerToolCall {
    /// Such as `add_step`.
    pub tool: String,
    /// As the planner has read them; null when they cannot be read.
    pub arguments: Json,
    /// Whether the tool has done what it was asked for.
    pub ok: bool,
    /// What the model gets as the result; none when the call ends the planning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Json>,
}

impl PlannerToolCall {
    /// About how many bytes it takes in the log.
    fn bytes(&self) -> usize {
        FIXED_BYTES + self.arguments.text().len() + json(self.result.as_ref())
    }
}

/// Errors of calls that end before anything goes to a model, unless a try before them has taken something.
const NOT_SENT: [&str; 4] = ["LLM_NONE", "LLM_OVER_BUDGET", "LLM_RESTING", "LLM_CANCELLED"];

impl ModelAnswered {
    /// Whether a model was asked at all.
    pub fn was_sent(&self) -> bool {
        let has_taken = self.usage.tokens > 0 || self.usage.cost > 0.0;
        has_taken || self.answer.is_some() || !NOT_SENT.contains(&self.error.as_str())
    }
}

/// The structured fields of a goal, all of them as they hold from now on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct GoalChanged {
    /// As in a goal.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub constraints: Map<String, Value>,
    /// As in a goal.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub success_criteria: Vec<Criterion>,
    /// As in a goal, Unix milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u64>,
    /// The inputs of the goal's context.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub inputs: Map<String, Value>,
    /// Fields that a model read in the text of the goal and nobody has corrected: `/constraints/budget`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub read: Vec<String>,
    /// The model that read them; empty when a person corrected the goal.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub model: String,
    /// Why a person corrected it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The plan ends by then, Unix milliseconds.
    pub due_ms: u64,
}

impl GoalChanged {
    /// The fields of a goal as they are.
    pub fn of(goal: &Goal) -> Self {
        Self {
            constraints: goal.constraints.clone(),
            success_criteria: goal.success_criteria.clone(),
            deadline_ms: goal.deadline_ms,
            inputs: goal.context.inputs.clone(),
            ..Self::default()
        }
    }

    /// Gives a goal these fields.
    pub fn set(&self, goal: &mut Goal) {
        goal.constraints.clone_from(&self.constraints);
        goal.success_criteria.clone_from(&self.success_criteria);
        goal.deadline_ms = self.deadline_ms;
        goal.context.inputs.clone_from(&self.inputs);
    }

    /// Takes what a person corrects; that is read from the text no more.
    pub fn correct(&mut self, correction: GoalCorrection) {
        let GoalCorrection { constraints, success_criteria, deadline_ms, inputs } = correction;
        let mut corrected: Vec<String> = Vec::new();
        for (field, own, given) in
            [("constraints", &mut self.constraints, constraints), ("inputs", &mut self.inputs, inputs)]
        {
            for (name, value) in given {
                corrected.push(format!("/{field}/{name}"));
                if value.is_null() {
                    own.remove(&name);
                } else {
                    own.insert(name, value);
                }
            }
        }
        if let Some(deadline_ms) = deadline_ms {
            corrected.push("/deadline".into());
            self.deadline_ms = (deadline_ms > 0).then_some(deadline_ms);
        }
        if let Some(criteria) = success_criteria {
            self.success_criteria = criteria;
            self.read.retain(|pointer| !pointer.starts_with("/success_criteria/"));
        }
        self.read.retain(|pointer| !corrected.contains(pointer));
    }

    /// What was read, a line each: `budget: 2000 USD`.
    pub fn read_lines(&self) -> Vec<String> {
        let words = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let line = |pointer: &String| {
            let mut parts = pointer.trim_start_matches('/').splitn(2, '/');
            match (parts.next()?, parts.next()) {
                ("constraints", Some(name)) => {
                    self.constraints.get(name).map(|value| format!("{name}: {}", words(value)))
                }
                ("inputs", Some(name)) => self.inputs.get(name).map(|value| format!("input {name}: {}", words(value))),
                ("success_criteria", Some(n)) => {
                    let criterion = self.success_criteria.get(n.parse::<usize>().ok()?)?;
                    Some(format!("reached when: {}", criterion.text()))
                }
                ("deadline", None) => self.deadline_ms.map(|ms| format!("deadline: {}", rfc3339(ms))),
                _ => None,
            }
        };
        self.read.iter().filter_map(line).collect()
    }

    /// About how many bytes it takes in the log.
    fn bytes(&self) -> usize {
        let size = |(name, value): (&String, &Value)| FIXED_BYTES + name.len() + value.to_string().len();
        let criteria = self.success_criteria.iter().map(|criterion| FIXED_BYTES + criterion.text().len());
        self.constraints.iter().chain(&self.inputs).map(size).chain(criteria).sum()
    }
}

/// No planner has a plan, or a change of one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlanningFailed {
    /// Why there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// A planner advised to end the plan: none of them failed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub aborted: bool,
    /// Located errors of the best try.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub issues: Vec<Issue>,
    /// The planners' outputs, with the prompts of model calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<Json>,
}

/// The plan was created, by a planner or by its submission.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanCreated {
    /// Shared with the state.
    pub plan: Arc<Plan>,
    /// `submitted`, `rules`, `htn`, `llm`.
    pub planner: String,
    /// 0 to 1.
    pub confidence: f64,
    /// How the plan came about: rule or template id and version, model, prompt, repairs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<Json>,
    /// More steps are to come: the planner is still writing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub open: bool,
    /// The plan it goes on from; steps whose results are kept are completed from the beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fork: Option<Box<Fork>>,
}

/// The plan is valid: checked against agents, schemas, budgets and policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanValidated {
    /// Warnings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Issue>,
    /// The router's choices for `auto` steps, with reasons.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<Route>,
    /// Estimated seconds on the longest path.
    #[serde(default)]
    pub critical_path_seconds: f64,
}

/// One decision of the router.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Route {
    /// The step that asked for `auto`.
    pub step: StepId,
    /// Who was chosen.
    pub agent_type: AgentType,
    /// Best first.
    pub candidates: Vec<RouteCandidate>,
    /// How likely it is that anybody fits, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    /// Time that the choice took, in milliseconds: its share of that of the whole plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took_ms: Option<f64>,
}

/// An agent type that the router weighed for a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct RouteCandidate {
    /// The agent type.
    pub agent_type: AgentType,
    /// 0 to 1.
    pub similarity: f64,
    /// 0 to 1.
    pub success_rate: f64,
    /// US dollars a step.
    pub cost: f64,
    /// What the candidates are ordered by, among near equals.
    pub score: f64,
    /// Believed duration of a step, in milliseconds; none if neither declared nor measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<u64>,
    /// What the similarity is made of, 0 to 1 each: `bm25`, `char_ngrams`, `embedding`, …
    #[serde(default, skip_serializing_if = "std::collections::BTreeMap::is_empty")]
    pub factors: std::collections::BTreeMap<String, f64>,
}

/// The plan waits for a person's approval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalRequested {
    /// The default answer counts from then, Unix milliseconds.
    pub due_ms: u64,
}

/// The plan stands differently with a constraint of its goal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConstraintChanged {
    /// The constraint's name.
    pub constraint: String,
    /// Where the plan stands with it from now on.
    pub status: ConstraintStatus,
    /// 1 to 10.
    pub priority: u8,
    /// Whether the plan must not go past it.
    pub hard: bool,
    /// What is measured.
    pub measure: String,
    /// The measured value.
    pub measured: f64,
    /// The limit, in the same unit.
    pub limit: f64,
    /// The unit of both; empty for a plain number.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub unit: String,
    /// Why it was relaxed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// A model or a person is asked to judge success criteria.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JudgementRequested {
    /// `model` or `person`.
    pub judge: JudgeKind,
    /// The criteria's ids.
    pub criteria: Vec<String>,
    /// The verdicts are awaited until then, Unix milliseconds.
    pub due_ms: u64,
}

/// Success criteria were judged.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CriteriaJudged {
    /// One for each criterion that was judged.
    pub verdicts: Vec<CriterionVerdict>,
    /// The phase at whose checkpoint it was; none at the end of the plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// What a model took for it.
    #[serde(default)]
    pub usage: crate::goal::Usage,
    /// Why there are no verdicts.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// The phase that an event is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseNamed {
    /// The phase's id.
    pub phase: String,
}

/// A revision added a phase.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseAdded {
    /// The phase's id.
    pub phase: String,
    /// What the phase is for.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Whether the planner may revise the rest when the phase ends.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub checkpoint: bool,
    /// Phases before it.
    #[serde(default)]
    pub place: u32,
}

/// The planners are asked to change the plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReplanTriggered {
    /// See [`crate::revision::Trigger`].
    pub trigger: String,
    /// The step that it is about; none when it is about the whole plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<StepId>,
    /// Why it came to it.
    pub reason: String,
    /// The planner's answer is awaited until then, Unix milliseconds.
    pub due_ms: u64,
    /// What a person would like.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hint: String,
    /// What the step's report suggested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub information: Option<Json>,
    /// What a person asks of this replan.
    #[serde(default, skip_serializing_if = "ReplanOptions::is_default")]
    pub options: ReplanOptions,
}

/// A revision that a person must agree to; what it would change is in it, in the planner's words.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RevisionProposed {
    /// The revision that it would be.
    pub revision: u32,
    /// The planner's answer.
    pub proposal: Proposal,
    /// For people, a line each.
    pub changes: Vec<String>,
    /// What it may do that the plan could not do before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub widens: Vec<Issue>,
    /// The plan's confidence, 0 to 1.
    pub confidence_before: f64,
    /// What would be left of it with this revision, 0 to 1.
    pub confidence_after: f64,
    /// The policy's default counts from then, Unix milliseconds.
    pub due_ms: u64,
}

/// A revision was not taken: it is not valid, not allowed, or a person refused it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RevisionRefused {
    /// The revision that it would have been.
    pub revision: u32,
    /// How the planner wanted to go about it.
    pub strategy: RevisionStrategy,
    /// Why it was not taken.
    pub reason: String,
    /// Located errors, where there are any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub issues: Vec<Issue>,
    /// The planners are asked once more, and their answer is awaited until then, Unix milliseconds; 0: they are not.
    #[serde(default)]
    pub due_ms: u64,
    /// What it took to make it.
    #[serde(default)]
    pub usage: crate::goal::Usage,
}

/// A planner wants to know something before it revises the plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QuestionAsked {
    /// Names the question in the answer.
    pub id: String,
    /// What is asked, and the shape of the answer.
    pub question: Question,
    /// The default counts from then, Unix milliseconds.
    pub due_ms: u64,
    /// What it took to come up with it.
    #[serde(default)]
    pub usage: crate::goal::Usage,
}

/// A planner's question has an answer; the planners are asked again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuestionAnswered {
    /// The question's id.
    pub id: String,
    /// The answer.
    pub answer: Json,
    /// Nobody answered in time: it is the question's default.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_default: bool,
    /// Why, in the person's words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The planner's answer is awaited until then, Unix milliseconds.
    pub due_ms: u64,
}

/// Steps were added to a plan that is still being written, or its end was.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlanExtended {
    /// The steps that came with this part.
    pub added: Vec<StepId>,
    /// Whether more is to come.
    pub open: bool,
    /// How the whole plan came about, at its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    /// How the plan came about: template, model, prompts, repairs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<Json>,
    /// Warnings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Issue>,
    /// Who the router chose for steps that asked for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<Route>,
}

/// A validated change of a running plan. The steps themselves are in the `step_added`, `step_modified` and
/// `step_removed` before it, which take effect with it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlanRevised {
    /// Counted from 1; 0 is the plan as it began.
    pub revision: u32,
    /// See [`crate::revision::Trigger`].
    pub trigger: String,
    /// For people.
    pub changes: Vec<String>,
    /// Steps that are new.
    pub added: Vec<StepId>,
    /// Steps that are gone.
    pub removed: Vec<StepId>,
    /// Steps that were changed.
    pub modified: Vec<StepId>,
    /// `confidence_after` less `confidence_before`.
    pub confidence_delta: f64,
    /// Steps that count as done from now on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<StepId>,
    /// Steps that start again: the modified ones whose attempt is void, or that were final or blocked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub restarted: Vec<StepId>,
    /// How the planner went about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<RevisionStrategy>,
    /// The step that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<StepId>,
    /// Why it came to it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The planner's, in one line.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub summary: String,
    /// Empty when a person made it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub planner: String,
    /// The plan's confidence before, 0 to 1.
    #[serde(default)]
    pub confidence_before: f64,
    /// The plan's confidence from now on, 0 to 1.
    #[serde(default)]
    pub confidence_after: f64,
    /// How the revision came about: model, prompts, repairs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<Json>,
    /// Who the router chose for new steps that asked for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<Route>,
    /// What it took to make it.
    #[serde(default)]
    pub usage: crate::goal::Usage,
    /// Why the person who was asked agreed to it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub approved_because: String,
}

/// A person refused the plan before it began.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanRejected {
    /// Why, in the person's words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The steps that are cancelled by this event, in the order of the plan.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cancelled: Vec<StepId>,
}

/// The plan is final. Steps in flight were cancelled by events of their own before; those that were open and not in
/// flight are cancelled by this one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanEnded {
    /// What it ended as.
    pub status: PlanStatus,
    /// What it failed with, if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// Why, in words; empty when it simply completed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The steps that are cancelled by this event, in the order of the plan. They take less room than the plan that
    /// names them. Older logs do not list them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cancelled: Vec<StepId>,
}
