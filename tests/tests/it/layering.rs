//! Holds the arrows between packages, between the modules of the scheduler, and what each may name.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Crates that do input and output.
const IO: &[&str] = &["tokio", "redis", "deadpool", "axum", "reqwest"];
const REDIS: &[&str] = &["redis", "deadpool"];

/// Package directory, the packages of ours it may use, the crates it must not.
pub const RULES: &[(&str, &[&str], &[&str])] = &[
    ("common", &[], IO),
    ("common/broker", &["common"], &["axum", "reqwest"]),
    ("common/client", &["common", "http"], &["redis", "deadpool", "axum"]),
    ("common/expression", &["common"], IO),
    ("common/http", &[], &["redis", "deadpool", "axum"]),
    ("common/llm", &["common", "http"], &["redis", "deadpool", "axum"]),
    ("common/mcp-server", &["client", "common"], &["redis", "deadpool", "axum", "reqwest"]),
    ("common/postgres", &[], &["redis", "deadpool", "axum", "reqwest"]),
    ("scheduler/archive", &["common", "postgres"], &["redis", "axum", "reqwest"]),
    ("scheduler/plan", &["common", "expression"], IO),
    ("scheduler/formats", &["common", "plan"], IO),
    ("scheduler/engine", &["common", "expression", "plan"], IO),
    ("scheduler/reader", &[], IO),
    ("scheduler/htn", &[], IO),
    ("scheduler/router", &["common", "http", "plan"], &["redis", "deadpool", "axum"]),
    (
        "scheduler/planning",
        &["common", "engine", "expression", "formats", "htn", "llm", "plan", "reader", "router"],
        &["redis", "deadpool", "axum", "reqwest"],
    ),
    (
        "scheduler/testkit",
        &["common", "engine", "formats", "plan", "planning", "shard"],
        &["tokio", "redis", "deadpool", "axum", "reqwest"],
    ),
    ("scheduler/shard", &["common", "engine", "expression", "plan"], IO),
    (
        "scheduler",
        &[
            "archive", "broker", "client", "common", "engine", "formats", "http", "llm", "mcp-server", "plan",
            "planning", "router", "shard",
        ],
        REDIS,
    ),
    ("worker", &["common", "broker", "expression", "http", "launcher"], REDIS),
    (
        "worker/agents",
        &["common", "expression", "http", "launcher", "llm", "mcp", "plan", "postgres", "reader", "worker"],
        &["redis", "deadpool", "axum"],
    ),
    ("worker/demo", &["common", "llm", "worker"], REDIS),
    ("worker/launcher", &[], IO),
    ("worker/bridge", &["common", "worker"], REDIS),
    ("worker/mcp", &["common", "http", "worker"], REDIS),
    (
        "cli",
        &[
            "agents", "archive", "bridge", "common", "broker", "client", "demo", "engine", "expression", "formats",
            "http", "launcher", "llm", "mcp-server", "plan", "planning", "scheduler", "testkit", "worker",
        ],
        &["redis", "deadpool", "axum"],
    ),
];

/// Files of one import cycle at most.
const CYCLE_MAX: usize = 3;

/// The top-level modules of the scheduler: each uses only modules of later rows.
const SCHEDULER_ORDER: &[&[&str]] = &[
    &["app"],
    &["api", "archiver", "event_stream", "intake", "gauges", "goal_streams", "reaper", "reconcile"],
    &["event_delivery"],
    &["inbox_poll", "scaling", "shard_client", "submission"],
    &["shard"],
    &["effects", "watchdog"],
    &["stored_plans"],
    &["quarantine", "unused_agent_types"],
    &["scheduler"],
    &["planning_steps"],
    &["execution_stats", "health_monitor", "hooks", "namespace_limits", "traces", "traces_disabled"],
    &["agent_directory", "event_log"],
    &[
        "busy_poll", "dead_letter_counter", "loops", "payload_cache", "plan_reader", "quality", "run_blocking",
        "start_status",
    ],
    &["redis_gauges", "token_secret"],
];

/// The packages of the workspace, as directories.
pub fn packages() -> Vec<&'static str> {
    RULES.iter().map(|(package, _, _)| *package).chain(["tests", "tests/bench", "tests/spec"]).collect()
}

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests package stands in the workspace").to_owned()
}

/// The names under `[dependencies]`.
fn dependencies(package: &str) -> BTreeSet<String> {
    let manifest = fs::read_to_string(root().join(package).join("Cargo.toml")).expect("every package has a manifest");
    let section = manifest.split("[dependencies]").nth(1).expect("every package has dependencies");
    section
        .lines()
        .take_while(|line| !line.starts_with('['))
        .filter_map(|line| line.split(['.', ' ', '=']).next())
        .filter(|name| !name.is_empty())
        .map(Into::into)
        .collect()
}

pub fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("the directory can be read").flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

/// A module by its path: `["shard", "ready"]`.
type Module = Vec<String>;

/// The modules of a package without those for tests, each with the modules of the same package that it uses.
fn modules(package: &str) -> BTreeMap<Module, BTreeSet<Module>> {
    let src = root().join(package).join("src");
    let mut files = Vec::new();
    sources(&src, &mut files);
    let mut texts = BTreeMap::new();
    for file in files {
        let relative = file.strip_prefix(&src).expect("it lies in `src`").with_extension("");
        let mut module: Module = relative.iter().map(|part| part.to_string_lossy().into_owned()).collect();
        if module.last().is_some_and(|last| ["mod", "lib", "main"].contains(&last.as_str())) {
            module.pop();
        }
        if !module.iter().any(|part| part == "tests" || part == "bin") {
            texts.insert(module, product_code(&fs::read_to_string(&file).expect("a source file can be read")));
        }
    }
    let uses = |module: &Module, text: &str| -> BTreeSet<Module> {
        used_paths(text).iter().filter_map(|path| resolve(module, path, &texts)).filter(|used| used != module).collect()
    };
    texts.iter().map(|(module, text)| (module.clone(), uses(module, text))).collect()
}

/// The source without comments and without what follows `#[cfg(test)]`.
pub fn product_code(source: &str) -> String {
    let code = source.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    code.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

/// The paths that begin with `crate` or `super`, in `use` declarations and elsewhere.
fn used_paths(code: &str) -> Vec<String> {
    let is_path = |c: char| c.is_alphanumeric() || "_:".contains(c);
    let mut paths = Vec::new();
    for (at, _) in code.match_indices("crate::").chain(code.match_indices("super::")) {
        if code[..at].ends_with(is_path) {
            continue;
        }
        let rest = &code[at..];
        let end = rest.find(|c| !is_path(c)).unwrap_or(rest.len());
        let head = rest[..end].to_owned();
        match rest[end..].strip_prefix('{') {
            Some(tree) if head.ends_with("::") => leaves(&head, tree, &mut paths),
            _ => paths.push(head),
        }
    }
    paths
}

/// The leaves of a `use` tree after its `{`, each with `head` before it.
fn leaves(head: &str, tree: &str, paths: &mut Vec<String>) {
    let (mut heads, mut leaf) = (vec![head.to_owned()], String::new());
    for c in tree.chars() {
        let open = heads.last().cloned().unwrap_or_default();
        match c {
            '{' => heads.push(format!("{open}{}", std::mem::take(&mut leaf))),
            ',' | '}' => {
                let name = leaf.split_whitespace().next().unwrap_or_default();
                if !name.is_empty() {
                    paths.push(format!("{open}{name}"));
                }
                leaf.clear();
                if c == '}' {
                    heads.pop();
                }
            }
            c => leaf.push(if c == '\n' { ' ' } else { c }),
        }
        if heads.is_empty() {
            return;
        }
        if leaf.trim().is_empty() {
            leaf.clear();
        }
    }
}

/// The module that a path within `module` leads to: the longest beginning of it that is a file.
fn resolve(module: &Module, path: &str, texts: &BTreeMap<Module, String>) -> Option<Module> {
    let mut parts = path.split("::").peekable();
    let mut found =
        if parts.next()? == "crate" { Module::new() } else { module[..module.len().checked_sub(1)?].to_vec() };
    while parts.next_if(|part| *part == "super").is_some() {
        found.pop()?;
    }
    for part in parts {
        let mut next = found.clone();
        next.push(part.to_owned());
        if !texts.contains_key(&next) {
            break;
        }
        found = next;
    }
    texts.contains_key(&found).then_some(found)
}

/// Groups of modules that use each other, directly or by way of others.
fn cycles(modules: &BTreeMap<Module, BTreeSet<Module>>) -> Vec<BTreeSet<Module>> {
    let reached: BTreeMap<&Module, BTreeSet<&Module>> = modules
        .keys()
        .map(|module| {
            let (mut found, mut open) = (BTreeSet::new(), vec![module]);
            while let Some(next) = open.pop() {
                open.extend(modules[next].iter().filter(|used| found.insert(*used)));
            }
            (module, found)
        })
        .collect();
    let mut groups = BTreeSet::new();
    for (module, found) in &reached {
        let group: BTreeSet<Module> =
            found.iter().filter(|other| reached[*other].contains(module)).map(|other| (*other).clone()).collect();
        groups.insert(group);
    }
    groups.into_iter().filter(|group| group.len() > 1).collect()
}

#[test]
fn every_package_has_its_rule() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).expect("the workspace has a manifest");
    let members =
        manifest.split("members = [").nth(1).and_then(|rest| rest.split(']').next()).expect("it lists members");
    let members: BTreeSet<&str> = members.split('"').skip(1).step_by(2).filter(|m| !m.starts_with("tests")).collect();
    assert_eq!(members, RULES.iter().map(|(package, _, _)| *package).collect());
}

#[test]
fn packages_use_only_what_stands_below_them() {
    for (package, ours, never) in RULES {
        for dependency in dependencies(package) {
            if let Some(name) = dependency.strip_prefix("goalmill-") {
                assert!(ours.contains(&name), "`{package}` must not use `{dependency}`");
            }
            assert!(!never.contains(&dependency.as_str()), "`{package}` must not use `{dependency}`");
        }
    }
}

#[test]
fn no_import_cycle_has_more_than_three_files() {
    let mut found = Vec::new();
    for (package, _, _) in RULES {
        let most = if *package == "scheduler/engine" { 1 } else { CYCLE_MAX };
        for group in cycles(&modules(package)).into_iter().filter(|group| group.len() > most) {
            let names: Vec<String> = group.iter().map(|module| module.join("/")).collect();
            found.push(format!("{package}: {}", names.join(" ")));
        }
    }
    assert!(found.is_empty(), "files that use each other in a circle:\n{}", found.join("\n"));
}

/// A rule over several concepts is a function of the concept that decides, so that each call says whose rule it is.
#[test]
fn methods_of_the_engine_stand_beside_their_type() {
    let src = root().join("scheduler/engine/src");
    let mut files = Vec::new();
    sources(&src, &mut files);
    let codes: Vec<(PathBuf, String)> = files
        .into_iter()
        .map(|file| {
            let code = product_code(&fs::read_to_string(&file).expect("a source file can be read"));
            (file.strip_prefix(&src).expect("it lies in `src`").to_owned(), code)
        })
        .collect();
    let name_of = |line: &str| -> String { line.chars().take_while(|c| c.is_alphanumeric()).collect() };
    let mut homes: BTreeMap<String, Vec<&Path>> = BTreeMap::new();
    for (file, code) in &codes {
        for line in code.lines().map(|line| {
            line.trim_start_matches("pub(crate) ").trim_start_matches("pub(super) ").trim_start_matches("pub ")
        }) {
            if let Some(name) = line.strip_prefix("struct ").or_else(|| line.strip_prefix("enum ")) {
                homes.entry(name_of(name)).or_default().push(file);
            }
        }
    }
    let mut wrong = Vec::new();
    let mut seen = 0;
    for (file, code) in &codes {
        for line in code.lines().filter(|line| !line.contains(" for ")) {
            let Some(rest) = line.strip_prefix("impl").filter(|rest| rest.starts_with([' ', '<'])) else { continue };
            let name = name_of(rest.trim_start_matches(|c: char| c != ' ').trim_start());
            let stands = homes.get(&name).into_iter().flatten().any(|home| {
                // The folder `state` is the home of the state of a plan.
                home == file || home.ends_with("state/mod.rs") && file.parent() == home.parent()
            });
            seen += 1;
            if !stands {
                wrong.push(format!("{}: {line}", file.display()));
            }
        }
    }
    assert!(seen > 50, "only {seen} blocks of methods were found");
    assert!(wrong.is_empty(), "methods of types of other files:\n{}", wrong.join("\n"));
}

#[test]
fn every_source_is_a_module_of_its_package() {
    let mut stray = Vec::new();
    for (package, _, _) in RULES {
        let src = root().join(package).join("src");
        let mut files = Vec::new();
        sources(&src, &mut files);
        for file in files {
            let owner = if file.ends_with("mod.rs") { file.parent().expect("it lies in `src`") } else { &file };
            let name = owner.file_stem().expect("a source has a name").to_string_lossy().into_owned();
            if owner.parent() == Some(&*src) && ["lib", "main"].contains(&name.as_str()) {
                continue;
            }
            let folder = owner.parent().expect("it lies in `src`");
            let parents = ["mod.rs", "lib.rs", "main.rs"].map(|parent| folder.join(parent));
            let declared = parents.iter().filter_map(|parent| fs::read_to_string(parent).ok()).any(|text| {
                // What stands in for a module is the module by its path.
                text.contains(&format!("path = \"{name}.rs\""))
                    || text
                        .lines()
                        .any(|line| line == format!("mod {name};") || line.ends_with(&format!(" mod {name};")))
            });
            if !declared {
                stray.push(file.display().to_string());
            }
        }
    }
    assert!(stray.is_empty(), "no module declares these files:\n{}", stray.join("\n"));
}

#[test]
fn modules_of_the_scheduler_use_only_modules_of_later_rows() {
    let row = |name: &String| {
        let row = SCHEDULER_ORDER.iter().position(|row| row.contains(&name.as_str()));
        row.unwrap_or_else(|| panic!("`scheduler/src/{name}` has no row in `SCHEDULER_ORDER`"))
    };
    let mut wrong = BTreeSet::new();
    for (module, used) in modules("scheduler") {
        let Some(top) = module.first() else { continue };
        for other in used.iter().filter_map(|used| used.first()).filter(|other| *other != top) {
            if row(other) <= row(top) {
                wrong.insert(format!("`{top}` must not use `{other}`"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.into_iter().collect::<Vec<_>>().join("\n"));
}

#[test]
fn the_parser_of_imports_reads_trees_and_paths() {
    let code = "use crate::a::{self, b::{C, D as E}};\nuse super::f;\nfn g() { crate::h::i(); }\n";
    let mut paths = used_paths(code);
    paths.sort();
    assert_eq!(paths, ["crate::a::b::C", "crate::a::b::D", "crate::a::self", "crate::h::i", "super::f"]);
    let module = |name: &str| vec![name.to_owned()];
    let round = BTreeMap::from([
        (module("a"), BTreeSet::from([module("b")])),
        (module("b"), BTreeSet::from([module("c")])),
        (module("c"), BTreeSet::from([module("a")])),
        (module("d"), BTreeSet::from([module("a")])),
    ]);
    assert_eq!(cycles(&round), [BTreeSet::from([module("a"), module("b"), module("c")])]);
}

#[test]
fn only_keys_spells_a_redis_key() {
    for (package, _, _) in RULES {
        let mut files = Vec::new();
        sources(&root().join(package).join("src"), &mut files);
        for file in files.into_iter().filter(|f| !f.ends_with("common/src/keys.rs")) {
            let text = fs::read_to_string(&file).expect("a source file can be read");
            for (n, line) in text.lines().enumerate() {
                let code = line.trim_start();
                let comment = code.starts_with("//");
                assert!(comment || !code.contains("\"goalmill:"), "{}:{} spells a key", file.display(), n + 1);
            }
        }
    }
}
