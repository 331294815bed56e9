//! Parses task networks: subtasks, labels and ordering.

use std::collections::BTreeMap;

use crate::model::{Formula, NameKind, Network, ParseError, Subtask};
use crate::sexpr::Sexpr;

use super::names::{NameTable, Scope};

/// The parts of a method or of `:htn` that are not yet read: each keyword with what follows it.
pub(crate) struct NetworkSections<'a> {
    parts: BTreeMap<String, (&'a Sexpr, Option<&'a Sexpr>)>,
}

impl<'a> NetworkSections<'a> {
    /// - `known`: the keywords that may occur.
    pub fn parse(items: &'a [Sexpr], known: &[&str]) -> Result<Self, ParseError> {
        let mut parts = BTreeMap::new();
        let mut items = items.iter().peekable();
        while let Some(item) = items.next() {
            let keyword = item.expect_word("a keyword")?.to_ascii_lowercase();
            if !known.contains(&keyword.as_str()) {
                return Err(item.wrong(format!("`{keyword}` is not known here; one of `{}`", known.join("`, `"))));
            }
            // A keyword without a value counts as empty.
            let value = items.next_if(|next| !next.word().is_some_and(|w| w.starts_with(':')));
            if parts.insert(keyword.clone(), (item, value)).is_some() {
                return Err(item.wrong(format!("`{keyword}` occurs twice; join them")));
            }
        }
        Ok(Self { parts })
    }

    pub fn get(&self, keyword: &str) -> Option<&'a Sexpr> {
        self.parts.get(keyword).and_then(|(_, value)| *value)
    }

    /// The first of several keywords that mean the same.
    fn any(&self, keywords: &[&str]) -> Option<&'a Sexpr> {
        keywords.iter().find_map(|k| self.get(k))
    }
}

impl NameTable<'_> {
    pub fn network(&self, parts: &NetworkSections, scope: &Scope) -> Result<Network, ParseError> {
        let ordered = parts.any(&[":ordered-subtasks", ":ordered-tasks"]);
        let subtasks = ordered.or_else(|| parts.any(&[":subtasks", ":tasks"]));
        let mut network = Network::default();
        let mut labels: BTreeMap<String, usize> = BTreeMap::new();
        for item in subtasks.map(conjuncts).transpose()?.into_iter().flatten() {
            let (label, call) = match item.list() {
                Some([label, call]) if label.word().is_some() && call.list().is_some() => (Some(label), call),
                _ => (None, item),
            };
            if let Some(label) = label {
                let word = label.expect_word("a label")?;
                if labels.insert(word.to_ascii_lowercase(), network.subtasks.len()).is_some() {
                    return Err(label.wrong(format!("label `{word}` occurs twice; rename one")));
                }
            }
            network.subtasks.push(self.subtask(call, scope)?);
        }
        if ordered.is_some() {
            network.before = (1..network.subtasks.len()).map(|n| (n - 1, n)).collect();
        }
        if let Some(ordering) = parts.any(&[":ordering", ":order"]) {
            for item in conjuncts(ordering)? {
                let [sign, a, b] = item.expect_list("an ordering")? else {
                    return Err(item.wrong("write `(< first second)`"));
                };
                // `(a < b)` is seen as well.
                let (sign, a) = if sign.word() == Some("<") { (sign, a) } else { (a, sign) };
                if sign.word() != Some("<") {
                    return Err(item.wrong("write `(< first second)`"));
                }
                let find = |at: &Sexpr| {
                    let word = at.expect_word("a label")?;
                    let found = labels.get(&word.to_ascii_lowercase()).copied();
                    found.ok_or_else(|| at.wrong(format!("label `{word}` is not there; label the subtask")))
                };
                network.before.push((find(a)?, find(b)?));
            }
            if has_cycle(network.subtasks.len(), &network.before) {
                return Err(ordering.wrong("the ordering goes in a circle; delete one of its pairs"));
            }
        }
        Ok(network)
    }

    fn subtask(&self, at: &Sexpr, scope: &Scope) -> Result<Subtask, ParseError> {
        let items = at.expect_list("a subtask")?;
        let Some(head) = items.first() else { return Err(at.wrong("a subtask is empty; name its task")) };
        let word = head.expect_word("a task")?;
        let found = self.find(NameKind::Task, word).and_then(|name| Some((name, *self.tasks.get(name)?)));
        let Some((name, want)) = found else {
            return Err(head.wrong(format!("task `{word}` is not declared; add a `:task` or an `:action`")));
        };
        if want != items.len() - 1 {
            return Err(at.wrong(format!("`{name}` takes {want} argument(s), not {}", items.len() - 1)));
        }
        Ok(Subtask { task: name.to_owned(), terms: self.terms(&items[1..], scope)? })
    }

    /// `:constraints`, as a condition.
    pub fn constraints(&self, parts: &NetworkSections, scope: &mut Scope) -> Result<Formula, ParseError> {
        parts.get(":constraints").map_or(Ok(Formula::always()), |at| self.formula(at, scope))
    }
}

/// The members of `(and …)`, of a bare list of lists, of nothing, or one alone.
fn conjuncts(at: &Sexpr) -> Result<Vec<&Sexpr>, ParseError> {
    let items = at.expect_list("a list")?;
    Ok(match items.first() {
        None => Vec::new(),
        Some(head) if head.word().is_some_and(|w| w.eq_ignore_ascii_case("and")) => items[1..].iter().collect(),
        Some(head) if head.list().is_some() => items.iter().collect(),
        Some(_) => vec![at],
    })
}

fn has_cycle(count: usize, before: &[(usize, usize)]) -> bool {
    let mut waits = vec![0; count];
    for (_, b) in before {
        waits[*b] += 1;
    }
    let mut ready: Vec<usize> = (0..count).filter(|n| waits[*n] == 0).collect();
    let mut done = 0;
    while let Some(n) = ready.pop() {
        done += 1;
        for (_, b) in before.iter().filter(|(a, _)| *a == n) {
            waits[*b] -= 1;
            if waits[*b] == 0 {
                ready.push(*b);
            }
        }
    }
    done < count
}
