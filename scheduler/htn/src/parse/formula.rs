//! Parses conditions and effects.

use crate::model::{ActionEffect, Atom, Formula, NameKind, ParseError};
use crate::sexpr::Sexpr;

use super::names::{NameTable, Scope, parameters};

impl NameTable<'_> {
    /// A condition; `()` and `(and)` hold always.
    pub fn formula(&self, at: &Sexpr, scope: &mut Scope) -> Result<Formula, ParseError> {
        let items = at.expect_list("a condition")?;
        let Some(head) = items.first() else { return Ok(Formula::always()) };
        let Some(word) = at.head() else {
            return Err(head.wrong("a predicate or `and`, `or`, `not`, … is expected"));
        };
        let rest = &items[1..];
        let one = |n: usize| match rest {
            [only] if n == 1 => Ok(only),
            _ => Err(at.wrong(format!("`{word}` takes {n} argument(s), not {}", rest.len()))),
        };
        match word.as_str() {
            "and" => Ok(Formula::And(self.formulas(rest, scope)?)),
            "or" => Ok(Formula::Or(self.formulas(rest, scope)?)),
            "not" => Ok(Formula::Not(Box::new(self.formula(one(1)?, scope)?))),
            "imply" => match rest {
                [a, b] => Ok(Formula::Imply(Box::new(self.formula(a, scope)?), Box::new(self.formula(b, scope)?))),
                _ => Err(at.wrong("`imply` takes two conditions")),
            },
            "forall" | "exists" => {
                let [variables, body] = rest else {
                    return Err(at.wrong(format!("`{word}` takes a list of variables and a condition")));
                };
                let variables = parameters(self.spellings, variables.expect_list("a list of variables")?)?;
                let body = within(scope, &variables, |scope| self.formula(body, scope))?;
                Ok(match word.as_str() {
                    "forall" => Formula::Forall(variables, Box::new(body)),
                    _ => Formula::Exists(variables, Box::new(body)),
                })
            }
            "=" => match rest {
                [a, b] => Ok(Formula::Equal(self.term(a, scope)?, self.term(b, scope)?)),
                _ => Err(at.wrong("`=` takes two terms")),
            },
            "sortof" => match rest {
                [term, dash, kind] if dash.word() == Some("-") => {
                    Ok(Formula::SortOf(self.term(term, scope)?, self.types(kind)?))
                }
                _ => Err(at.wrong("write `(sortof ?x - type)`")),
            },
            _ => Ok(Formula::Atom(self.atom(at, scope)?)),
        }
    }

    fn formulas(&self, at: &[Sexpr], scope: &mut Scope) -> Result<Vec<Formula>, ParseError> {
        at.iter().map(|f| self.formula(f, scope)).collect()
    }

    /// `(predicate term …)`.
    pub fn atom(&self, at: &Sexpr, scope: &Scope) -> Result<Atom, ParseError> {
        let items = at.expect_list("a fact")?;
        let Some(head) = items.first() else { return Err(at.wrong("a fact is empty; name its predicate")) };
        let word = head.expect_word("a predicate")?;
        let declared =
            self.find(NameKind::Predicate, word).and_then(|name| self.predicates.iter().find(|p| p.name == name));
        let Some(declared) = declared else {
            return Err(head.wrong(format!("predicate `{word}` is not declared; add it to `:predicates`")));
        };
        let (want, have) = (declared.parameters.len(), items.len() - 1);
        if want != have {
            return Err(at.wrong(format!("`{}` takes {want} argument(s), not {have}", declared.name)));
        }
        Ok(Atom { predicate: declared.name.clone(), terms: self.terms(&items[1..], scope)? })
    }

    /// An effect; costs are read over.
    pub fn effect(&self, at: &Sexpr, scope: &mut Scope) -> Result<ActionEffect, ParseError> {
        let items = at.expect_list("an effect")?;
        let Some(word) = at.head() else {
            return match items {
                [] => Ok(ActionEffect::And(Vec::new())),
                _ => Err(at.wrong("a predicate or `and`, `not`, `when`, `forall` is expected")),
            };
        };
        match (word.as_str(), &items[1..]) {
            ("and", rest) => {
                Ok(ActionEffect::And(rest.iter().map(|e| self.effect(e, scope)).collect::<Result<_, _>>()?))
            }
            ("not", [atom]) => Ok(ActionEffect::Delete(self.atom(atom, scope)?)),
            ("when", [condition, effect]) => {
                Ok(ActionEffect::When(self.formula(condition, scope)?, Box::new(self.effect(effect, scope)?)))
            }
            ("forall", [variables, body]) => {
                let variables = parameters(self.spellings, variables.expect_list("a list of variables")?)?;
                let body = within(scope, &variables, |scope| self.effect(body, scope))?;
                Ok(ActionEffect::Forall(variables, Box::new(body)))
            }
            ("increase" | "decrease" | "assign" | "scale-up" | "scale-down", [_, _]) => {
                Ok(ActionEffect::And(Vec::new()))
            }
            ("not" | "when" | "forall", _) => Err(at.wrong(format!("`{word}` has the wrong number of arguments"))),
            _ => Ok(ActionEffect::Add(self.atom(at, scope)?)),
        }
    }
}

/// Reads something within which more variables are known.
fn within<T>(
    scope: &mut Scope,
    variables: &[crate::model::TypedName],
    read: impl FnOnce(&mut Scope) -> Result<T, ParseError>,
) -> Result<T, ParseError> {
    let before = scope.len();
    scope.extend_from_slice(variables);
    let read = read(scope);
    scope.truncate(before);
    read
}
