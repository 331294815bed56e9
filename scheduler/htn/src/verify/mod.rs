//! Verifies that a plan of actions reaches the goal of a PDDL problem; reports the failing step and its cause.
//!
//! Agrees with VAL: first all actions, objects and types are checked, then the plan is simulated.
//! Source: R. Howey, D. Long, M. Fox, "VAL: Automatic Plan Validation, Continuous Effects and Mixed Initiative Planning
//! Using PDDL", ICTAI 2004.

mod state;

use std::collections::HashMap;

use crate::compile::{CompiledProblem, Condition, GroundAction, Literal, Scratch, TaskKind, compile, fill};
use crate::facts::{FastHasher, Object};
use crate::model::{Domain, PlanningProblem};
use state::VerifierState;

type NameIndex = HashMap<String, u32, std::hash::BuildHasherDefault<FastHasher>>;

/// One action as it stands in a plan: its name, then its arguments.
pub type PlanLine = Vec<String>;

/// The result of a verification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanVerdict {
    Valid,
    /// An action is not applicable or not defined.
    Failed {
        /// Counts from 1.
        step: usize,
        action: String,
        fault: StepFault,
    },
    /// All actions are applicable, but these conditions of the goal do not hold at the end.
    GoalUnmet {
        unmet: Vec<String>,
    },
}

/// Why an action is not applicable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepFault {
    UnknownAction,
    UnknownObject {
        object: String,
    },
    ArgumentCount {
        want: usize,
        have: usize,
    },
    WrongType {
        object: String,
    },
    /// Conditions that do not hold before the action.
    Unmet {
        unmet: Vec<String>,
    },
}

impl PlanVerdict {
    pub fn is_valid(&self) -> bool {
        *self == Self::Valid
    }
}

impl std::fmt::Display for PlanVerdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Valid => write!(f, "the plan is valid"),
            Self::GoalUnmet { unmet } => write!(f, "the goal is not reached: {} does not hold", unmet.join(" and ")),
            Self::Failed { step, action, fault } => {
                write!(f, "step {step}, `({action})`: ")?;
                match fault {
                    StepFault::UnknownAction => write!(f, "there is no such action"),
                    StepFault::UnknownObject { object } => write!(f, "there is no object `{object}`"),
                    StepFault::ArgumentCount { want, have } => write!(f, "it takes {want} argument(s), not {have}"),
                    StepFault::WrongType { object } => write!(f, "`{object}` is not of the right type"),
                    StepFault::Unmet { unmet } => write!(f, "{} does not hold", unmet.join(" and ")),
                }
            }
        }
    }
}

/// A compiled problem for the verification of many plans.
pub struct PlanVerifier {
    compiled: CompiledProblem,
    predicates: Vec<String>,
    actions: NameIndex,
    objects: NameIndex,
    init: VerifierState,
}

impl PlanVerifier {
    /// Compiles a problem.
    pub fn new(domain: &Domain, problem: &PlanningProblem) -> Result<Self, String> {
        let compiled = compile(domain, problem, None)?;
        let actions = domain.actions.iter().zip(0..).map(|(a, n)| (a.name.to_ascii_lowercase(), n)).collect();
        let objects = compiled.objects.iter().zip(0..).map(|(o, n)| (o.to_ascii_lowercase(), n)).collect();
        let mut init = VerifierState::new(&compiled.arities, compiled.objects.len());
        for key in &compiled.init {
            init.set(key, true);
        }
        let predicates = domain.predicates.iter().map(|p| p.name.clone()).collect();
        Ok(Self { compiled, predicates, actions, objects, init })
    }

    pub fn verify(&self, plan: &[PlanLine]) -> PlanVerdict {
        let mut resolved = Vec::with_capacity(plan.len());
        for (n, line) in plan.iter().enumerate() {
            match self.resolve(line) {
                Err(fault) if !self.is_met_later(line, &fault) => return failed(n, line, fault),
                step => resolved.push(step),
            }
        }
        let mut state = self.init.clone();
        let mut scratch = Scratch::new();
        for (n, step) in resolved.into_iter().enumerate() {
            let (action, mut binding) = match step {
                Ok(step) => step,
                Err(fault) => return failed(n, &plan[n], fault),
            };
            if !action.condition.holds(&state, &self.compiled.sorts, &mut binding, &mut scratch) {
                let unmet = self.unmet(&action.condition, &state, &mut binding);
                return failed(n, &plan[n], StepFault::Unmet { unmet });
            }
            state.apply(&self.compiled.sorts, action, &mut binding, &mut scratch);
        }
        let TaskKind::Primitive(goal) = &self.compiled.tasks[self.compiled.goal as usize].kind else {
            return PlanVerdict::Valid;
        };
        let mut binding = vec![0; goal.width];
        if goal.condition.holds(&state, &self.compiled.sorts, &mut binding, &mut scratch) {
            return PlanVerdict::Valid;
        }
        PlanVerdict::GoalUnmet { unmet: self.unmet(&goal.condition, &state, &mut binding) }
    }

    fn resolve(&self, line: &[String]) -> Result<(&GroundAction, Vec<Object>), StepFault> {
        let Some((name, arguments)) = line.split_first() else { return Err(StepFault::UnknownAction) };
        let task = find(&self.actions, name).ok_or(StepFault::UnknownAction)?;
        let TaskKind::Primitive(action) = &self.compiled.tasks[task as usize].kind else {
            return Err(StepFault::UnknownAction);
        };
        if arguments.len() != action.sorts.len() {
            return Err(StepFault::ArgumentCount { want: action.sorts.len(), have: arguments.len() });
        }
        let mut binding = Vec::with_capacity(action.width);
        for (argument, sort) in arguments.iter().zip(&action.sorts) {
            let object = find(&self.objects, argument);
            let object = object.ok_or_else(|| StepFault::UnknownObject { object: argument.clone() })?;
            if !self.compiled.sorts[*sort as usize].has[object as usize] {
                return Err(StepFault::WrongType { object: argument.clone() });
            }
            binding.push(object);
        }
        binding.resize(action.width, 0);
        Ok((action, binding))
    }

    /// Without types, no fact holds for an unknown object: the action fails when it is simulated.
    fn is_met_later(&self, line: &[String], fault: &StepFault) -> bool {
        let StepFault::UnknownObject { .. } = fault else { return false };
        let task =
            line.first().and_then(|name| find(&self.actions, name)).map(|t| &self.compiled.tasks[t as usize].kind);
        match task {
            Some(TaskKind::Primitive(action)) => {
                action.sorts.iter().all(|s| self.compiled.sorts[*s as usize].has.iter().all(|has| *has))
            }
            _ => false,
        }
    }

    /// The conjuncts that do not hold, in words.
    fn unmet(&self, condition: &Condition, state: &VerifierState, binding: &mut [Object]) -> Vec<String> {
        let mut conjuncts = Vec::new();
        condition.clone().conjuncts(&mut conjuncts);
        let mut scratch = Scratch::new();
        conjuncts.retain(|c| !c.holds(state, &self.compiled.sorts, binding, &mut scratch));
        conjuncts.iter().map(|c| self.words(c, binding)).collect()
    }

    fn words(&self, condition: &Condition, binding: &[Object]) -> String {
        let name = |arg: crate::compile::Arg| self.compiled.objects[arg.value(binding) as usize].as_str();
        match condition {
            Condition::Fact(literal) => self.fact(literal, binding),
            Condition::Not(inner) => format!("(not {})", self.words(inner, binding)),
            Condition::Equal(a, b) => format!("(= {} {})", name(*a), name(*b)),
            Condition::Sort(a, _) => format!("(sortof {} …)", name(*a)),
            Condition::And(_) => "(and …)".into(),
            Condition::Or(_) => "(or …)".into(),
            Condition::Forall(..) => "(forall …)".into(),
            Condition::Exists(..) => "(exists …)".into(),
        }
    }

    fn fact(&self, literal: &Literal, binding: &[Object]) -> String {
        let mut key = Vec::new();
        fill(&mut key, literal, binding);
        let arguments = key[1..].iter().map(|o| self.compiled.objects[*o as usize].as_str());
        let words: Vec<&str> = std::iter::once(self.predicates[key[0] as usize].as_str()).chain(arguments).collect();
        format!("({})", words.join(" "))
    }
}

fn failed(n: usize, line: &[String], fault: StepFault) -> PlanVerdict {
    PlanVerdict::Failed { step: n + 1, action: line.join(" "), fault }
}

fn find(words: &NameIndex, word: &str) -> Option<u32> {
    words.get(word).or_else(|| words.get(&word.to_ascii_lowercase())).copied()
}

/// Extracts the actions `(name argument …)` of a text.
pub fn parse_plan(text: &str) -> Vec<PlanLine> {
    let groups = text.split('(').skip(1).filter_map(|rest| rest.split_once(')'));
    let lines = groups.map(|(inside, _)| inside.split_whitespace().map(str::to_owned).collect::<PlanLine>());
    lines.filter(|line| !line.is_empty()).collect()
}

#[cfg(test)]
mod tests;
