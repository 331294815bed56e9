//! Declared names; parses names and typed lists.

use std::collections::BTreeMap;

use crate::model::{Domain, NameKind, ParseError, Predicate, Term, TypedName};
use crate::sexpr::Sexpr;

/// Everything that may be referred to, with how often arguments occur.
pub(crate) struct NameTable<'a> {
    pub spellings: &'a BTreeMap<(NameKind, String), String>,
    pub predicates: &'a [Predicate],
    /// Number of parameters by task or action.
    pub tasks: BTreeMap<String, usize>,
}

/// Variables in scope, innermost last.
pub(crate) type Scope = Vec<TypedName>;

impl<'a> NameTable<'a> {
    pub fn new(domain: &'a Domain, spellings: &'a BTreeMap<(NameKind, String), String>) -> Self {
        let tasks = domain.tasks.iter().map(|t| (t.name.clone(), t.parameters.len()));
        let actions = domain.actions.iter().map(|a| (a.name.clone(), a.parameters.len()));
        Self { spellings, predicates: &domain.predicates, tasks: tasks.chain(actions).collect() }
    }

    pub fn find(&self, kind: NameKind, word: &str) -> Option<&str> {
        self.spellings.get(&(kind, word.to_ascii_lowercase())).map(String::as_str)
    }

    /// Types after a `-`: a word or `(either a b)`.
    pub fn types(&self, at: &Sexpr) -> Result<Vec<String>, ParseError> {
        types(self.spellings, at)
    }

    pub fn term(&self, at: &Sexpr, scope: &Scope) -> Result<Term, ParseError> {
        let word = at.expect_word("a variable or an object")?;
        if word.starts_with('?') {
            let name = word.to_ascii_lowercase();
            return if scope.iter().any(|v| v.name == name) {
                Ok(Term::Variable(name))
            } else {
                Err(at.wrong(format!("variable `{word}` is not declared; add it to the parameters")))
            };
        }
        match self.find(NameKind::Object, word) {
            Some(name) => Ok(Term::Constant(name.to_owned())),
            None => Err(at.wrong(format!("object `{word}` is not declared; add it to the constants or objects"))),
        }
    }

    pub fn terms(&self, at: &[Sexpr], scope: &Scope) -> Result<Vec<Term>, ParseError> {
        at.iter().map(|t| self.term(t, scope)).collect()
    }
}

pub(crate) fn type_name(spellings: &BTreeMap<(NameKind, String), String>, at: &Sexpr) -> Result<String, ParseError> {
    let word = at.expect_word("a type")?;
    if word.eq_ignore_ascii_case("object") {
        return Ok("object".into());
    }
    spellings
        .get(&(NameKind::Type, word.to_ascii_lowercase()))
        .cloned()
        .ok_or_else(|| at.wrong(format!("type `{word}` is not declared; add it to `:types`")))
}

fn types(spellings: &BTreeMap<(NameKind, String), String>, at: &Sexpr) -> Result<Vec<String>, ParseError> {
    match at.list() {
        None => Ok(vec![type_name(spellings, at)?]),
        Some([head, rest @ ..])
            if head.word().is_some_and(|w| w.eq_ignore_ascii_case("either")) && !rest.is_empty() =>
        {
            rest.iter().map(|t| type_name(spellings, t)).collect()
        }
        Some(_) => Err(at.wrong("a type or `(either a b)` is expected")),
    }
}

/// One group of a typed list: the names, and what stands after the `-`.
pub(crate) type TypedGroup<'a> = (Vec<&'a Sexpr>, Option<&'a Sexpr>);

/// Splits `a b - t c - (either u v) d` into its groups.
pub(crate) fn groups(items: &[Sexpr]) -> Result<Vec<TypedGroup<'_>>, ParseError> {
    let mut found = Vec::new();
    let mut names = Vec::new();
    let mut items = items.iter();
    while let Some(item) = items.next() {
        if item.word() == Some("-") {
            let kind = items.next().ok_or_else(|| item.wrong("a type is missing after `-`"))?;
            found.push((std::mem::take(&mut names), Some(kind)));
        } else {
            item.expect_word("a name")?;
            names.push(item);
        }
    }
    if !names.is_empty() {
        found.push((names, None));
    }
    Ok(found)
}

/// Parameters: variables with types.
pub(crate) fn parameters(
    spellings: &BTreeMap<(NameKind, String), String>,
    items: &[Sexpr],
) -> Result<Vec<TypedName>, ParseError> {
    let mut found: Vec<TypedName> = Vec::new();
    for (names, kind) in groups(items)? {
        let types = kind.map(|k| types(spellings, k)).transpose()?.unwrap_or_else(|| vec!["object".into()]);
        for name in names {
            let word = name.expect_word("a variable")?;
            if !word.starts_with('?') {
                return Err(name.wrong(format!("a variable is expected; write `?{word}`")));
            }
            let word = word.to_ascii_lowercase();
            if found.iter().any(|p| p.name == word) {
                return Err(name.wrong(format!("variable `{word}` is declared twice; rename one")));
            }
            found.push(TypedName { name: word, types: types.clone() });
        }
    }
    Ok(found)
}

/// Objects with types, each put into the spellings; one that is declared again must not differ.
pub(crate) fn objects(
    spellings: &mut BTreeMap<(NameKind, String), String>,
    items: &[Sexpr],
) -> Result<Vec<TypedName>, ParseError> {
    let mut found = Vec::new();
    for (names, kind) in groups(items)? {
        let types = kind.map(|k| types(spellings, k)).transpose()?.unwrap_or_else(|| vec!["object".into()]);
        for name in names {
            let word = name.expect_word("an object")?;
            let spelling = declare(spellings, NameKind::Object, word);
            found.push(TypedName { name: spelling, types: types.clone() });
        }
    }
    Ok(found)
}

/// Gives the spelling of the first declaration.
pub(crate) fn declare(spellings: &mut BTreeMap<(NameKind, String), String>, kind: NameKind, word: &str) -> String {
    spellings.entry((kind, word.to_ascii_lowercase())).or_insert_with(|| word.to_owned()).clone()
}
