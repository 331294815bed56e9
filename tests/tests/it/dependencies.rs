//! Holds what the workspace depends on to `deny.toml`: licences, banned crates, sources.

use std::collections::BTreeSet;
use std::iter::Peekable;
use std::process::Command;

use config::{Config, File, FileFormat};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::docs::{read, root};

/// As lock files and `cargo metadata` spell it.
const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// What is used of `deny.toml`.
#[derive(Deserialize)]
struct Rules {
    graph: Graph,
    licenses: Licenses,
    bans: Bans,
}

#[derive(Deserialize)]
struct Graph {
    targets: Vec<String>,
}

#[derive(Deserialize)]
struct Licenses {
    allow: Vec<String>,
}

#[derive(Deserialize)]
struct Bans {
    deny: Vec<Ban>,
}

#[derive(Deserialize)]
struct Ban {
    #[serde(rename = "crate")]
    name: String,
}

/// What `cargo metadata` says of the packages of the resolved graph.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Clone, Deserialize)]
struct Package {
    name: String,
    version: String,
    /// None if the crate has only a text of its own.
    license: Option<String>,
}

#[derive(Deserialize)]
struct Lock {
    package: Vec<Locked>,
}

#[derive(Clone, Deserialize)]
struct Locked {
    name: String,
    version: String,
    /// None for packages at a path.
    source: Option<String>,
}

#[test]
fn every_package_has_a_licence_that_is_allowed_and_none_is_banned() {
    let rules: Rules = toml("deny.toml");
    let packages = resolved(&rules.graph.targets);
    let names: BTreeSet<&str> = packages.iter().map(|package| package.name.as_str()).collect();
    assert!(names.is_superset(&["goalmill", "redis", "tokio"].into()), "the graph is not ours: {names:?}");
    assert_eq!(faults(&rules, &packages), Vec::<String>::new());
}

#[test]
fn every_package_comes_from_crates_io_or_a_path() {
    let lock: Lock = toml("Cargo.lock");
    assert!(lock.package.iter().any(|package| package.source.is_some()), "no package of the lock has a source");
    assert_eq!(strangers(&lock.package), Vec::<String>::new());
}

#[test]
fn a_licence_that_is_not_allowed_is_told_with_its_crate() {
    let told = |name: &str, license: Option<&str>| {
        let license = license.map(Into::into);
        faults(&rules(), &[Package { name: name.into(), version: "1.2.3".into(), license }])
    };
    assert_eq!(told("free", Some("GPL-3.0-only OR MIT")), Vec::<String>::new());
    assert_eq!(
        told("bound", Some("GPL-3.0-only")),
        ["`bound` 1.2.3 has the licence `GPL-3.0-only`: allow what it lacks in `licenses.allow` of deny.toml, or do \
          without the crate"]
    );
    assert_eq!(
        told("own", None),
        ["`own` 1.2.3 names no licence: do without the crate, or ask its authors for an SPDX expression"]
    );
    assert_eq!(
        told("torn", Some("MIT OR")),
        [
            "`torn` 1.2.3 has the licence `MIT OR`, which is no SPDX expression: do without the crate, or ask its authors"
        ]
    );
}

#[test]
fn a_banned_crate_is_told() {
    let package = |name: &str| Package { name: name.into(), version: "0.1.0".into(), license: Some("MIT".into()) };
    assert_eq!(
        faults(&rules(), &[package("evil"), package("evil-not")]),
        ["`evil` 0.1.0 (MIT) is banned by deny.toml: `cargo tree -i evil` says who brings it; turn off that feature"]
    );
}

#[test]
fn a_package_from_elsewhere_is_told() {
    let locked = |name: &str, source: Option<&str>| Locked {
        name: name.into(),
        version: "0.1.0".into(),
        source: source.map(Into::into),
    };
    let packages =
        [locked("ours", None), locked("theirs", Some(CRATES_IO)), locked("loose", Some("git+https://example.com/x"))];
    assert_eq!(
        strangers(&packages),
        ["`loose` 0.1.0 comes from `git+https://example.com/x`: take a version that crates.io has"]
    );
}

#[test]
fn licence_expressions_are_read_as_spdx_says() {
    let allow = ["MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception"].map(String::from);
    for (expression, expected) in [
        ("MIT", Some(true)),
        ("mit", Some(false)),
        ("GPL-2.0-only", Some(false)),
        ("GPL-2.0-only OR MIT", Some(true)),
        ("MIT AND ISC", Some(false)),
        ("MIT AND Apache-2.0", Some(true)),
        // AND binds tighter than OR.
        ("MIT OR ISC AND Zlib", Some(true)),
        ("ISC AND MIT OR Zlib", Some(false)),
        ("(MIT OR ISC) AND Zlib", Some(false)),
        ("(MIT OR ISC) AND Apache-2.0", Some(true)),
        ("((MIT))", Some(true)),
        // As crates wrote it before there were expressions.
        ("MIT/Apache-2.0", Some(true)),
        ("ISC / MIT", Some(true)),
        ("GPL-2.0/ISC", Some(false)),
        // An exception is allowed with its licence, and does not come with it.
        ("Apache-2.0 WITH LLVM-exception", Some(true)),
        ("MIT WITH LLVM-exception", Some(false)),
        ("Zlib OR Apache-2.0 WITH LLVM-exception", Some(true)),
        ("", None),
        ("OR", None),
        ("MIT Apache-2.0", None),
        ("MIT AND", None),
        ("MIT WITH", None),
        ("MIT WITH (x)", None),
        ("(MIT", None),
        ("MIT)", None),
    ] {
        assert_eq!(is_satisfied(expression, &allow), expected, "`{expression}`");
    }
}

fn rules() -> Rules {
    Rules {
        graph: Graph { targets: Vec::new() },
        licenses: Licenses { allow: vec!["MIT".into()] },
        bans: Bans { deny: vec![Ban { name: "evil".into() }] },
    }
}

fn toml<T: DeserializeOwned>(path: &str) -> T {
    let text = File::from_str(&read(path), FileFormat::Toml);
    let table = Config::builder().add_source(text).build().and_then(Config::try_deserialize);
    table.unwrap_or_else(|error| panic!("`{path}` cannot be read: {error}"))
}

/// The packages that the workspace is built from on these targets, with the features that are on unless told otherwise.
fn resolved(targets: &[String]) -> Vec<Package> {
    let mut command = Command::new(env!("CARGO"));
    command.current_dir(root()).args(["metadata", "--locked", "--offline", "--format-version", "1"]);
    command.args(targets.iter().flat_map(|target| ["--filter-platform", target]));
    let output = command.output().expect("cargo can be started");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "run `cargo fetch --locked`, then try again: {told}");
    let metadata: Metadata = serde_json::from_slice(&output.stdout).expect("cargo describes the packages as JSON");
    metadata.packages
}

/// What the rules have against each package: a sentence with its hint.
fn faults(rules: &Rules, packages: &[Package]) -> Vec<String> {
    let mut faults = Vec::new();
    for Package { name, version, license } in packages {
        let spelled = license.as_deref().unwrap_or("no licence");
        if rules.bans.deny.iter().any(|ban| ban.name == *name) {
            faults.push(format!(
                "`{name}` {version} ({spelled}) is banned by deny.toml: `cargo tree -i {name}` says who brings it; turn \
                 off that feature"
            ));
        }
        match license.as_deref().map(|license| is_satisfied(license, &rules.licenses.allow)) {
            Some(Some(true)) => {}
            Some(Some(false)) => faults.push(format!(
                "`{name}` {version} has the licence `{spelled}`: allow what it lacks in `licenses.allow` of deny.toml, \
                 or do without the crate"
            )),
            Some(None) => faults.push(format!(
                "`{name}` {version} has the licence `{spelled}`, which is no SPDX expression: do without the crate, or \
                 ask its authors"
            )),
            None => faults.push(format!(
                "`{name}` {version} names no licence: do without the crate, or ask its authors for an SPDX expression"
            )),
        }
    }
    faults
}

/// The packages that are neither from crates.io nor at a path.
fn strangers(packages: &[Locked]) -> Vec<String> {
    packages
        .iter()
        .filter_map(|package| Some((package, package.source.as_ref().filter(|source| *source != CRATES_IO)?)))
        .map(|(Locked { name, version, .. }, source)| {
            format!("`{name}` {version} comes from `{source}`: take a version that crates.io has")
        })
        .collect()
}

/// Whether the licences of `allow` are enough for an SPDX expression; `None` if it is none.
///
/// `/` is `OR`, as in crates from before there were expressions.
///
/// Source: SPDX specification 2.3, annex D.
fn is_satisfied(expression: &str, allow: &[String]) -> Option<bool> {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let mut words = spaced.split_whitespace().peekable();
    let satisfied = any(&mut words, allow)?;
    words.next().is_none().then_some(satisfied)
}

fn any<'a>(words: &mut Peekable<impl Iterator<Item = &'a str>>, allow: &[String]) -> Option<bool> {
    let mut satisfied = all(words, allow)?;
    while words.next_if_eq(&"OR").is_some() {
        satisfied |= all(words, allow)?;
    }
    Some(satisfied)
}

fn all<'a>(words: &mut Peekable<impl Iterator<Item = &'a str>>, allow: &[String]) -> Option<bool> {
    let mut satisfied = one(words, allow)?;
    while words.next_if_eq(&"AND").is_some() {
        satisfied &= one(words, allow)?;
    }
    Some(satisfied)
}

fn one<'a>(words: &mut Peekable<impl Iterator<Item = &'a str>>, allow: &[String]) -> Option<bool> {
    if words.next_if_eq(&"(").is_some() {
        let satisfied = any(words, allow)?;
        return (words.next()? == ")").then_some(satisfied);
    }
    let mut license = name(words)?.to_owned();
    if words.next_if_eq(&"WITH").is_some() {
        license = format!("{license} WITH {}", name(words)?);
    }
    Some(allow.contains(&license))
}

/// A word that is no operator.
fn name<'a>(words: &mut impl Iterator<Item = &'a str>) -> Option<&'a str> {
    words.next().filter(|word| !["(", ")", "AND", "OR", "WITH"].contains(word))
}
