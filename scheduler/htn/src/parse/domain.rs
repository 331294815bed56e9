//! Parses a domain: declarations first, then references.

use std::collections::BTreeMap;

use crate::model::{
    ActionEffect, ActionSchema, Domain, Formula, MethodSchema, NameKind, ParseError, Predicate, TaskSchema, TypedName,
};
use crate::sexpr::{self, Sexpr};

use super::names::{NameTable, declare, groups, objects, parameters};
use super::network::NetworkSections;

const TASK: [&str; 3] = [":parameters", ":precondition", ":effect"];
const METHOD: [&str; 11] = [
    ":parameters", ":task", ":precondition", ":effect", ":subtasks", ":tasks", ":ordered-subtasks", ":ordered-tasks",
    ":ordering", ":order", ":constraints",
];

/// Reads an HDDL or PDDL domain. Functions and costs are read over; derived predicates and durations are refused.
pub fn parse_domain(text: &str) -> Result<Domain, ParseError> {
    let root = sexpr::parse_sexpr(text)?;
    let (name, sections) = definition(&root, "domain")?;
    let mut domain = Domain { name, ..Domain::default() };
    for section in sections {
        match section.head().as_deref() {
            Some(":types") => types(&mut domain, &section.expect_list("types")?[1..])?,
            Some(
                ":requirements" | ":constants" | ":predicates" | ":task" | ":action" | ":method" | ":functions"
                | ":constraints",
            ) => {}
            Some(other) => {
                return Err(section.wrong(format!("section `{other}` of a domain is not supported; delete it")));
            }
            None => return Err(section.wrong("a section such as `(:predicates …)` is expected")),
        }
    }
    let of = |kind: &'static str| sections.iter().filter(move |s| s.head().as_deref() == Some(kind));
    for section in of(":constants") {
        domain.constants.extend(objects(&mut domain.spellings, &section.expect_list("constants")?[1..])?);
    }
    for section in of(":predicates") {
        for item in &section.expect_list("predicates")?[1..] {
            predicate(&mut domain, item)?;
        }
    }
    for section in of(":task") {
        let (name, parameters) = signature(&mut domain, section, &TASK)?;
        domain.tasks.push(TaskSchema { name, parameters });
    }
    for section in of(":action") {
        let (name, parameters) = signature(&mut domain, section, &TASK)?;
        let (precondition, effect) = (Formula::always(), ActionEffect::And(Vec::new()));
        domain.actions.push(ActionSchema { name, parameters, precondition, effect });
    }
    let names = NameTable::new(&domain, &domain.spellings);
    let mut bodies = Vec::new();
    for (section, action) in of(":action").zip(&domain.actions) {
        bodies.push(body(&names, section, action)?);
    }
    let methods = of(":method").map(|section| method(&names, section)).collect::<Result<_, _>>()?;
    for (action, (precondition, effect)) in domain.actions.iter_mut().zip(bodies) {
        (action.precondition, action.effect) = (precondition, effect);
    }
    domain.methods = methods;
    Ok(domain)
}

/// `(define (KIND name) section …)`.
pub(super) fn definition<'a>(root: &'a Sexpr, kind: &str) -> Result<(String, &'a [Sexpr]), ParseError> {
    match root.expect_list("`(define …)`")? {
        [define, title, sections @ ..]
            if define.word().is_some_and(|w| w.eq_ignore_ascii_case("define"))
                && title.head().as_deref() == Some(kind) =>
        {
            let name = match title.list() {
                Some([_, name]) => name.expect_word("a name")?.to_owned(),
                _ => return Err(title.wrong(format!("write `({kind} name)`"))),
            };
            Ok((name, sections))
        }
        _ => Err(root.wrong(format!("`(define ({kind} name) …)` is expected"))),
    }
}

fn types(domain: &mut Domain, items: &[Sexpr]) -> Result<(), ParseError> {
    for (names, kind) in groups(items)? {
        let above: Vec<&Sexpr> = match kind {
            None => Vec::new(),
            Some(kind) => match kind.list() {
                None => vec![kind],
                Some(either) => either.iter().skip(1).collect(),
            },
        };
        let mut supertypes = Vec::new();
        for kind in above {
            let word = kind.expect_word("a type")?;
            if !word.eq_ignore_ascii_case("object") {
                let name = declare(&mut domain.spellings, NameKind::Type, word);
                domain.types.entry(name.clone()).or_default();
                supertypes.push(name);
            }
        }
        for name in names {
            let word = name.expect_word("a type")?;
            if !word.eq_ignore_ascii_case("object") {
                let name = declare(&mut domain.spellings, NameKind::Type, word);
                domain.types.entry(name).or_default().extend(supertypes.iter().cloned());
            }
        }
    }
    Ok(())
}

fn predicate(domain: &mut Domain, item: &Sexpr) -> Result<(), ParseError> {
    let Some((head, rest)) = item.expect_list("a predicate")?.split_first() else {
        return Err(item.wrong("a predicate needs a name"));
    };
    let word = head.expect_word("a predicate's name")?;
    if domain.spellings.contains_key(&(NameKind::Predicate, word.to_ascii_lowercase())) {
        return Err(head.wrong(format!("predicate `{word}` is declared twice; delete one")));
    }
    let name = declare(&mut domain.spellings, NameKind::Predicate, word);
    let parameters = parameters(&domain.spellings, rest)?;
    domain.predicates.push(Predicate { name, parameters });
    Ok(())
}

/// The name and parameters of a task or an action.
fn signature(domain: &mut Domain, section: &Sexpr, known: &[&str]) -> Result<(String, Vec<TypedName>), ParseError> {
    let [_, name, rest @ ..] = section.expect_list("a section")? else {
        return Err(section.wrong("a name is expected"));
    };
    let word = name.expect_word("a name")?;
    if domain.spellings.contains_key(&(NameKind::Task, word.to_ascii_lowercase())) {
        return Err(name.wrong(format!("`{word}` is declared twice; rename one")));
    }
    let name = declare(&mut domain.spellings, NameKind::Task, word);
    let parts = NetworkSections::parse(rest, known)?;
    Ok((name, parameters_of(&domain.spellings, &parts)?))
}

pub(super) fn parameters_of(
    spellings: &BTreeMap<(NameKind, String), String>,
    parts: &NetworkSections,
) -> Result<Vec<TypedName>, ParseError> {
    match parts.get(":parameters") {
        None => Ok(Vec::new()),
        Some(at) => parameters(spellings, at.expect_list("a list of parameters")?),
    }
}

fn body(names: &NameTable, section: &Sexpr, action: &ActionSchema) -> Result<(Formula, ActionEffect), ParseError> {
    let parts = NetworkSections::parse(&section.expect_list("an action")?[2..], &TASK)?;
    let mut scope = action.parameters.clone();
    let precondition = parts.get(":precondition").map(|at| names.formula(at, &mut scope)).transpose()?;
    let effect = parts.get(":effect").map(|at| names.effect(at, &mut scope)).transpose()?;
    Ok((precondition.unwrap_or_else(Formula::always), effect.unwrap_or(ActionEffect::And(Vec::new()))))
}

fn method(names: &NameTable, section: &Sexpr) -> Result<MethodSchema, ParseError> {
    let [_, name, rest @ ..] = section.expect_list("a method")? else {
        return Err(section.wrong("a method needs a name"));
    };
    let parts = NetworkSections::parse(rest, &METHOD)?;
    let parameters = parameters_of(names.spellings, &parts)?;
    let mut scope = parameters.clone();
    let Some(at) = parts.get(":task") else {
        return Err(name.wrong("a method needs `:task`: what it is a way to do"));
    };
    let Some((head, terms)) = at.expect_list("a task")?.split_first() else {
        return Err(at.wrong("`:task` is empty; name the task"));
    };
    let word = head.expect_word("a task")?;
    let task = names.find(NameKind::Task, word).and_then(|task| Some((task, *names.tasks.get(task)?)));
    let Some((task, want)) = task else {
        return Err(head.wrong(format!("task `{word}` is not declared; add a `:task`")));
    };
    if want != terms.len() {
        return Err(at.wrong(format!("`{task}` takes {want} argument(s), not {}", terms.len())));
    }
    let precondition = parts.get(":precondition").map(|at| names.formula(at, &mut scope)).transpose()?;
    let constraints = names.constraints(&parts, &mut scope)?;
    Ok(MethodSchema {
        name: name.expect_word("a name")?.to_owned(),
        task: task.to_owned(),
        terms: names.terms(terms, &scope)?,
        precondition: Formula::And(precondition.into_iter().chain([constraints]).collect()),
        network: names.network(&parts, &scope)?,
        parameters,
    })
}
