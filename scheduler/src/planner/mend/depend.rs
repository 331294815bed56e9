//! Dependencies: those that lead nowhere, those that are missing, and those that close a ring for nothing.

use std::collections::{BTreeMap, BTreeSet};

use goalmill_engine::validate::names::{alike, normal};
use serde_json::Value;

use super::work::{Graph, Link, Work};

/// How some formats say that there is no dependency.
const NOTHING: &[&str] = &["none", "null", "n/a", "na", "-", "start", "end", "-1", ""];

/// Lets links that name a step by its action, or nearly by its id, name it by its id.
pub(super) fn rename(work: &mut Work<'_>) {
    // Renaming a link's ends leaves the steps' own ids as they are.
    let numbers = work.numbers();
    for link in work.links() {
        let Some(index) = link.index else { continue };
        let ends = link.ends.as_ref();
        for (id, other, key) in
            [(&link.from, &link.to, ends.map(|(from, _)| from)), (&link.to, &link.from, ends.map(|(_, to)| to))]
        {
            if numbers.contains_key(id) || is_nothing(id) {
                continue;
            }
            let Some(near) = near(&numbers, id).or_else(|| by_action(work, id)).filter(|near| near != other) else {
                continue;
            };
            let pointer = match key {
                Some(key) => format!("{}/{index}/{key}", link.list),
                None => format!("{}/{index}", link.list),
            };
            let why = format!("there is no step `{id}`; this is the one that can be meant");
            work.replace(&pointer, near.into(), "DEPENDENCY_RENAMED", why);
        }
    }
}

fn is_nothing(id: &str) -> bool {
    NOTHING.contains(&id.to_ascii_lowercase().as_str())
}

/// The step with this action; `Search-2` is the second one that searches.
fn by_action(work: &Work<'_>, id: &str) -> Option<String> {
    let with = |action: &str| -> Vec<usize> {
        (0..work.steps.len())
            .filter(|step| !action.is_empty() && normal(&work.action(*step)) == normal(action))
            .collect()
    };
    if let [only] = with(id).as_slice() {
        return Some(work.id(*only));
    }
    let (action, number) = id.rsplit_once(['-', '_', ' ', '#'])?;
    let nth = number.parse::<usize>().ok()?.checked_sub(1)?;
    with(action).get(nth).map(|step| work.id(*step))
}

pub(super) fn resolve(work: &mut Work<'_>) {
    shift(work);
    rename(work);
    let numbers = work.numbers();
    for link in work.links() {
        mend(work, &numbers, &link);
    }
    untie(work);
    work.sweep();
    complete(work);
}

/// Moves every number of the dependency lists by one when all of them then name an earlier step.
fn shift(work: &mut Work<'_>) {
    let numbers = work.numbers();
    let links: Vec<Link> =
        work.links().into_iter().filter(|link| link.ends.is_none() && link.index.is_some()).collect();
    let is_good = |from: &str, link: &Link| {
        let pair = numbers.get(from).zip(numbers.get(&link.to));
        pair.is_some_and(|(from, to)| work.may_see(*to, *from))
    };
    if links.iter().all(|link| is_good(&link.from, link)) {
        return;
    }
    for by in [-1_i64, 1] {
        let moved = |link: &Link| {
            let digits = link.from.len() - link.from.trim_end_matches(|c: char| c.is_ascii_digit()).len();
            let (family, number) = link.from.split_at(link.from.len() - digits);
            let number = number.parse::<i64>().ok()?.checked_add(by).filter(|n| *n >= 0)?;
            let id = format!("{family}{number}");
            is_good(&id, link).then_some(id)
        };
        let Some(moved) = links.iter().map(moved).collect::<Option<Vec<_>>>() else { continue };
        for (link, id) in links.iter().zip(moved) {
            let pointer = format!("{}/{}", link.list, link.index.unwrap_or_default());
            let why = format!("all numbers moved by {by:+}: then every dependency names an earlier step");
            work.replace(&pointer, id.into(), "INDEX_SHIFT", why);
        }
        return;
    }
}

/// Takes out a link with an end that is not there, or from a step to itself.
fn mend(work: &mut Work<'_>, numbers: &BTreeMap<String, usize>, link: &Link) {
    let Some(index) = link.index else { return };
    let (from, to) = (numbers.get(&link.from).copied(), numbers.get(&link.to).copied());
    if from.is_some() && from == to {
        if sees_all(work, numbers, from.unwrap_or_default()) {
            let why = "a step cannot wait for itself; what it reads comes from other steps";
            work.remove(&link.list, index, "DEPENDENCY_DROPPED", why.into());
        }
        return;
    }
    let why = match (from, to) {
        (Some(_), Some(_)) => return,
        (None, _) if is_nothing(&link.from) => "it names no step".to_owned(),
        // Nothing waits for it.
        (_, None) => format!("there is no step `{}` that could wait", link.to),
        (None, Some(to)) if sees_all(work, numbers, to) => {
            format!(
                "there is no step `{}`, and all that `{}` reads comes from steps that are there",
                link.from, link.to
            )
        }
        (None, Some(_)) => return,
    };
    work.remove(&link.list, index, "DEPENDENCY_DROPPED", why);
}

/// Whether everything a step reads comes from a step that is there, so that it needs nothing else.
fn sees_all(work: &Work<'_>, numbers: &BTreeMap<String, usize>, step: usize) -> bool {
    let mut own = work.seen().into_iter().filter(|seen| seen.step == step);
    own.all(|seen| numbers.get(&seen.target).is_some_and(|target| work.may_see(step, *target)))
}

/// The one id that is like this one.
fn near(numbers: &BTreeMap<String, usize>, id: &str) -> Option<String> {
    let same: Vec<&String> = numbers.keys().filter(|known| normal(known) == normal(id)).collect();
    if let [only] = same.as_slice() {
        return Some((*only).clone());
    }
    // Numbers tell steps apart: `step-12` is not a slip of `step-11`.
    let digits = |text: &str| text.chars().filter(char::is_ascii_digit).collect::<String>();
    let mut scored: Vec<(f64, &String)> =
        numbers.keys().filter(|known| digits(known) == digits(id)).map(|known| (alike(known, id), known)).collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1)));
    let (best, name) = scored.first()?;
    let second = scored.get(1).map_or(0.0, |(score, _)| *score);
    (*best >= 0.8 && best - second >= 0.1).then(|| (*name).clone())
}

/// Takes links out of rings: those against the order in which the steps are written, through which nothing is read.
fn untie(work: &mut Work<'_>) {
    let Graph { numbers, sources: mut needs } = work.graph();
    let reads: BTreeSet<(usize, usize)> =
        work.seen().iter().filter_map(|seen| Some((*numbers.get(&seen.target)?, seen.step))).collect();
    if work.rules.imply {
        reads.iter().filter(|(from, to)| work.may_see(*to, *from)).for_each(|(from, to)| {
            needs[*to].insert(*from);
        });
    }
    for link in work.links() {
        let Some((from, to)) = numbers.get(&link.from).copied().zip(numbers.get(&link.to).copied()) else { continue };
        let Some(index) = link.index.filter(|_| work.rank[from] > work.rank[to] && !reads.contains(&(from, to))) else {
            continue;
        };
        if !reaches(&needs, to, from) {
            continue;
        }
        needs[to].remove(&from);
        let why = format!(
            "it closes a ring against the order of the steps, and `{}` reads nothing from `{}`",
            link.to, link.from
        );
        work.remove(&link.list, index, "DEPENDENCY_DROPPED", why);
    }
}

/// Whether `later` waits for `earlier`, at whatever remove.
fn reaches(needs: &[BTreeSet<usize>], earlier: usize, later: usize) -> bool {
    let mut open = vec![later];
    let mut known = BTreeSet::new();
    while let Some(step) = open.pop() {
        if step == earlier {
            return true;
        }
        if known.insert(step) {
            open.extend(needs[step].iter().copied());
        }
    }
    false
}

/// Adds dependencies on steps that are seen and not waited for.
fn complete(work: &mut Work<'_>) {
    if work.rules.imply {
        return;
    }
    let Graph { numbers, sources: mut needs } = work.graph();
    for seen in work.seen() {
        let Some(target) = numbers.get(&seen.target).copied().filter(|t| work.may_see(seen.step, *t)) else { continue };
        if reaches(&needs, target, seen.step) || reaches(&needs, seen.step, target) {
            continue;
        }
        let mut list = match work.field(seen.step, "dependencies") {
            Some(Value::Array(items)) => items.clone(),
            None => Vec::new(),
            Some(Value::String(text)) => {
                text.split([',', ' ']).filter(|id| !id.is_empty()).map(|id| Value::from(id.to_owned())).collect()
            }
            Some(other) => vec![other.clone()],
        };
        list.push(seen.target.clone().into());
        let why = format!("an expression of the step sees `{}`", seen.target);
        work.set(seen.step, "dependencies", list.into(), "DEPENDENCY_ADDED", why);
        needs[seen.step].insert(target);
    }
}
