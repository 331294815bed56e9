//! Parses a problem of a domain.

use crate::model::{Domain, Formula, Network, ParseError, PlanningProblem, Term};
use crate::sexpr::{self, Sexpr};

use super::domain::{definition, parameters_of};
use super::names::{NameTable, Scope, objects};
use super::network::NetworkSections;

const HTN: [&str; 8] = [
    ":parameters", ":subtasks", ":tasks", ":ordered-subtasks", ":ordered-tasks", ":ordering", ":order", ":constraints",
];

/// Reads an HDDL or PDDL problem. Metrics and numbers are read over.
pub fn parse_problem(domain: &Domain, text: &str) -> Result<PlanningProblem, ParseError> {
    let root = sexpr::parse_sexpr(text)?;
    let (name, sections) = definition(&root, "problem")?;
    let mut spellings = domain.spellings.clone();
    let mut problem = PlanningProblem {
        name,
        domain: domain.name.clone(),
        objects: Vec::new(),
        parameters: Vec::new(),
        network: Network::default(),
        constraint: Formula::always(),
        init: Vec::new(),
        goal: Formula::always(),
    };
    for section in sections {
        if section.head().as_deref() == Some(":objects") {
            problem.objects.extend(objects(&mut spellings, &section.expect_list("objects")?[1..])?);
        }
    }
    let names = NameTable::new(domain, &spellings);
    for section in sections {
        let items = section.expect_list("a section")?;
        match section.head().as_deref() {
            Some(":domain") => {
                if let Some(name) = items.get(1).and_then(Sexpr::word) {
                    name.clone_into(&mut problem.domain);
                }
            }
            Some(":objects" | ":requirements" | ":metric" | ":length") => {}
            Some(":init") => {
                for item in &items[1..] {
                    problem.init.extend(fact(&names, item)?);
                }
            }
            Some(":goal") => {
                if let Some(goal) = items.get(1) {
                    problem.goal = names.formula(goal, &mut Scope::new())?;
                }
            }
            Some(":htn" | ":htn-tihn" | ":tihn") => {
                let parts = NetworkSections::parse(&items[1..], &HTN)?;
                problem.parameters = parameters_of(&spellings, &parts)?;
                let mut scope = problem.parameters.clone();
                problem.network = names.network(&parts, &scope)?;
                problem.constraint = names.constraints(&parts, &mut scope)?;
            }
            Some(other) => {
                return Err(section.wrong(format!("section `{other}` of a problem is not supported; delete it")));
            }
            None => return Err(section.wrong("a section such as `(:init …)` is expected")),
        }
    }
    Ok(problem)
}

/// A fact of the initial state; what is said not to hold, and numbers, are nothing.
fn fact(names: &NameTable, at: &Sexpr) -> Result<Option<(String, Vec<String>)>, ParseError> {
    if matches!(at.head().as_deref(), Some("not" | "=" | "at")) {
        let inner = at.list().and_then(|l| l.get(1)).and_then(Sexpr::list);
        if inner.is_some() {
            return Ok(None);
        }
    }
    let atom = names.atom(at, &Scope::new())?;
    let arguments = atom.terms.into_iter().map(|t| match t {
        Term::Variable(name) | Term::Constant(name) => name,
    });
    Ok(Some((atom.predicate, arguments.collect())))
}
