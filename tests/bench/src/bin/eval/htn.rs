//! Parses every HDDL file below `htn/`, solves every problem, and holds each plan against the independent checker.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use goalmill_bench::htn_checker::check;
use goalmill_common::clock::unix_us;
use goalmill_htn::{SearchLimits, SearchOutcome, dependencies, parse_domain, parse_problem, solve};
use serde_json::{Value, json};

use crate::rows::Out;

/// Time for one problem.
const LIMIT_US: u64 = 10_000_000;

#[derive(Default)]
struct Group {
    problems: u64,
    solved: u64,
    /// Plans that the checker refused.
    refused: u64,
    /// Proven to have no plan.
    no_plan: u64,
    seconds: f64,
    slowest_seconds: f64,
    failed: Vec<String>,
}

pub fn run(dir: &Path, out: &mut Out) -> Result<Value> {
    let root = dir.join("htn");
    let mut files = Vec::new();
    collect(&root, &mut files)?;
    let (mut parsed, mut faults) = (0u64, Vec::new());
    let mut groups: BTreeMap<String, Group> = BTreeMap::new();
    for file in files.iter().filter(|f| kind(&f.1).is_some()) {
        let id = file.0.strip_prefix(&root).unwrap_or(&file.0).display().to_string();
        if kind(&file.1) == Some(Kind::Domain) {
            match parse_domain(&file.1) {
                Ok(_) => parsed += 1,
                Err(e) => faults.push(format!("{id}:{e}")),
            }
            continue;
        }
        let Some(domain) = domain_of(&file.0, &files) else {
            faults.push(format!("{id}: there is no domain beside it"));
            continue;
        };
        let read = parse_domain(domain).and_then(|domain| Ok((parse_problem(&domain, &file.1)?, domain)));
        match read {
            Ok((problem, domain)) => {
                parsed += 1;
                let name = file.0.parent().and_then(|p| p.strip_prefix(&root).ok()).unwrap_or(&root);
                let group = groups.entry(name.display().to_string()).or_default();
                out.row(&group.solve(&id, &domain, &problem))?;
            }
            Err(e) => faults.push(format!("{id}:{e}")),
        }
    }
    let order = |prefix: &str| {
        let of = || groups.iter().filter(|(name, _)| name.starts_with(prefix)).map(|(_, g)| g);
        json!({"problems": of().map(|g| g.problems).sum::<u64>(), "solved": of().map(|g| g.solved).sum::<u64>()})
    };
    let all: BTreeMap<&String, Value> = groups.iter().map(|(name, group)| (name, group.figures())).collect();
    Ok(json!({
        "what": "htn",
        "files": parsed + faults.len() as u64,
        "parsed": parsed,
        "faults": faults,
        "total_order": order("total-order"),
        "partial_order": order("partial-order"),
        "refused_by_checker": groups.values().map(|g| g.refused).sum::<u64>(),
        "domains": all,
    }))
}

impl Group {
    fn solve(&mut self, id: &str, domain: &goalmill_htn::Domain, problem: &goalmill_htn::PlanningProblem) -> Value {
        let start = unix_us();
        let outcome = solve(domain, problem, SearchLimits::default(), &mut || unix_us() - start > LIMIT_US);
        let us = unix_us() - start;
        self.problems += 1;
        self.seconds += us as f64 / 1e6;
        self.slowest_seconds = self.slowest_seconds.max(us as f64 / 1e6);
        let ms = us as f64 / 1e3;
        match outcome {
            SearchOutcome::Solved { solution, nodes } => {
                let verdict = check(domain, problem, &solution);
                let links = dependencies(domain, problem, &solution);
                let before: usize = links.before.iter().map(Vec::len).sum();
                match &verdict {
                    Ok(()) => self.solved += 1,
                    Err(flaw) => {
                        self.refused += 1;
                        self.failed.push(format!("{id}: {flaw}"));
                    }
                }
                json!({
                    "id": id, "solved": verdict.is_ok(), "plan": solution.action_lines(),
                    "dependencies": before, "nodes": nodes, "ms": ms,
                })
            }
            SearchOutcome::Exhausted { nodes } => {
                self.no_plan += 1;
                self.failed.push(format!("{id}: there is no plan"));
                json!({"id": id, "solved": false, "plan": null, "proven": true, "nodes": nodes, "ms": ms})
            }
            SearchOutcome::GaveUp { nodes } => {
                self.failed.push(format!("{id}: gave up"));
                json!({"id": id, "solved": false, "plan": null, "nodes": nodes, "ms": ms})
            }
            SearchOutcome::Unsupported { reason } => {
                self.failed.push(format!("{id}: {reason}"));
                json!({"id": id, "solved": false, "plan": null, "nodes": 0, "ms": ms})
            }
        }
    }

    fn figures(&self) -> Value {
        json!({
            "problems": self.problems, "solved": self.solved, "no_plan": self.no_plan, "seconds": self.seconds,
            "slowest_seconds": self.slowest_seconds, "failed": self.failed,
        })
    }
}

#[derive(PartialEq, Eq)]
enum Kind {
    Domain,
    Problem,
}

/// What a file defines; none when it defines nothing.
fn kind(text: &str) -> Option<Kind> {
    let code: String = text.lines().map(|l| l.split(';').next().unwrap_or_default()).collect::<Vec<_>>().join(" ");
    let words = code.to_ascii_lowercase().replace('(', " ( ");
    let mut words = words.split_whitespace();
    match (words.next(), words.next(), words.next(), words.next()) {
        (Some("("), Some("define"), Some("("), Some("domain")) => Some(Kind::Domain),
        (Some("("), Some("define"), Some("("), Some("problem")) => Some(Kind::Problem),
        _ => None,
    }
}

/// `X-domain.hddl` for `X.hddl`, else `domain.hddl`, else the only domain in the folder.
fn domain_of<'a>(problem: &Path, files: &'a [(PathBuf, String)]) -> Option<&'a str> {
    let folder = problem.parent()?;
    let stem = problem.file_stem()?.to_str()?;
    let named =
        |name: String| files.iter().find(|(path, _)| *path == folder.join(&name)).map(|(_, text)| text.as_str());
    let alone = || {
        let mut domains =
            files.iter().filter(|(path, text)| path.parent() == Some(folder) && kind(text) == Some(Kind::Domain));
        match (domains.next(), domains.next()) {
            (Some((_, text)), None) => Some(text.as_str()),
            _ => None,
        }
    };
    named(format!("{stem}-domain.hddl"))
        .or_else(|| named(format!("domain-{stem}.hddl")))
        .or_else(|| named("domain.hddl".into()))
        .or_else(alone)
}

fn collect(dir: &Path, into: &mut Vec<(PathBuf, String)>) -> Result<()> {
    let entries = std::fs::read_dir(dir).with_context(|| format!("`{}` cannot be read", dir.display()))?;
    let mut paths = entries.map(|e| Ok(e?.path())).collect::<Result<Vec<_>>>()?;
    paths.sort();
    for path in paths {
        if path.is_dir() {
            collect(&path, into)?;
        } else if path.extension().is_some_and(|e| e == "hddl" || e == "pddl") {
            let text = std::fs::read_to_string(&path).with_context(|| format!("`{}`", path.display()))?;
            into.push((path, text));
        }
    }
    Ok(())
}
