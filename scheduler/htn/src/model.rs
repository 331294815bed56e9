//! Parsed domains and problems.
//!
//! Names are case-insensitive, so the parser replaces each by the spelling of its declaration.
//! Variables are in lower case and keep their `?`.

use std::collections::BTreeMap;
use std::fmt;

/// Where something is in a file; both count from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SourceLocation {
    pub line: u32,
    pub column: u32,
}

impl fmt::Display for SourceLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// Why a text is no domain or no problem.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {detail}")]
pub struct ParseError {
    pub place: SourceLocation,
    pub detail: String,
}

impl ParseError {
    pub(crate) fn new(place: SourceLocation, detail: impl Into<String>) -> Self {
        Self { place, detail: detail.into() }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Term {
    /// With its `?`.
    Variable(String),
    Constant(String),
}

/// A name and the types it may have; several are an `either`, none is `object`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypedName {
    pub name: String,
    pub types: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Atom {
    pub predicate: String,
    pub terms: Vec<Term>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Formula {
    Atom(Atom),
    Equal(Term, Term),
    /// The term is of one of the types.
    SortOf(Term, Vec<String>),
    Not(Box<Formula>),
    And(Vec<Formula>),
    Or(Vec<Formula>),
    Imply(Box<Formula>, Box<Formula>),
    Forall(Vec<TypedName>, Box<Formula>),
    Exists(Vec<TypedName>, Box<Formula>),
}

impl Formula {
    /// Holds always: the empty conjunction.
    pub fn always() -> Self {
        Self::And(Vec::new())
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ActionEffect {
    Add(Atom),
    Delete(Atom),
    And(Vec<ActionEffect>),
    When(Formula, Box<ActionEffect>),
    Forall(Vec<TypedName>, Box<ActionEffect>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Predicate {
    pub name: String,
    pub parameters: Vec<TypedName>,
}

/// A compound task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskSchema {
    pub name: String,
    pub parameters: Vec<TypedName>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActionSchema {
    pub name: String,
    pub parameters: Vec<TypedName>,
    pub precondition: Formula,
    pub effect: ActionEffect,
}

/// A task to be done, compound or primitive, within a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subtask {
    pub task: String,
    pub terms: Vec<Term>,
}

/// Tasks and what must come before what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Network {
    pub subtasks: Vec<Subtask>,
    /// Pairs of positions in `subtasks`: the first is finished before the second begins. Acyclic.
    pub before: Vec<(usize, usize)>,
}

/// A way to do a compound task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MethodSchema {
    pub name: String,
    pub parameters: Vec<TypedName>,
    pub task: String,
    pub terms: Vec<Term>,
    /// Includes the constraints.
    pub precondition: Formula,
    pub network: Network,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Domain {
    pub name: String,
    /// Each type with its direct supertypes; `object` is above all and not listed.
    pub types: BTreeMap<String, Vec<String>>,
    pub constants: Vec<TypedName>,
    pub predicates: Vec<Predicate>,
    pub tasks: Vec<TaskSchema>,
    pub methods: Vec<MethodSchema>,
    pub actions: Vec<ActionSchema>,
    /// Lower case to the spelling of the declaration, by kind of name.
    pub(crate) spellings: BTreeMap<(NameKind, String), String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum NameKind {
    Type,
    Object,
    Predicate,
    Task,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanningProblem {
    pub name: String,
    pub domain: String,
    /// Those of the problem; the domain's constants exist as well.
    pub objects: Vec<TypedName>,
    /// Free variables of the initial network, to be chosen.
    pub parameters: Vec<TypedName>,
    pub network: Network,
    /// Constraints on the parameters.
    pub constraint: Formula,
    pub init: Vec<(String, Vec<String>)>,
    pub goal: Formula,
}

impl Domain {
    /// Whether `name` is `above` or below it.
    pub fn is_a(&self, name: &str, above: &str) -> bool {
        if above.eq_ignore_ascii_case("object") || name == above {
            return true;
        }
        let mut open = vec![name];
        let mut seen = std::collections::BTreeSet::new();
        while let Some(name) = open.pop() {
            if name == above {
                return true;
            }
            if seen.insert(name) {
                open.extend(self.types.get(name).into_iter().flatten().map(String::as_str));
            }
        }
        false
    }

    /// Whether something of the types `have` (any of them) fits `want` (any of them).
    pub fn fits(&self, have: &[String], want: &[String]) -> bool {
        want.is_empty() || have.iter().any(|h| want.iter().any(|w| self.is_a(h, w)))
    }
}
