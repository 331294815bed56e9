//! Sets `GOALMILL_COMMIT`, the commit that the program is built from. Only this package has it, so a new commit
//! compiles no other package again.

use std::path::Path;
use std::process::Command;

/// Digits of the commit.
const DIGITS: usize = 12;

fn main() {
    println!("cargo:rerun-if-env-changed=GOALMILL_COMMIT");
    println!("cargo:rerun-if-changed=build.rs");
    let commit = environment_commit().or_else(checkout_commit);
    println!("cargo:rustc-env=GOALMILL_COMMIT={}", commit.as_deref().unwrap_or("unknown"));
}

/// The commit that the builder names, for sources without their repository.
fn environment_commit() -> Option<String> {
    #[expect(clippy::disallowed_methods, reason = "a build script has no settings")]
    let named = std::env::var("GOALMILL_COMMIT").ok()?;
    shorten(&named)
}

/// The commit of the checkout; `None` without git, or if the sources lie in a repository of another project.
fn checkout_commit() -> Option<String> {
    if git(&["rev-parse", "--show-prefix"])? != "cli/" {
        return None;
    }
    // A commit changes the file of the branch and the log of HEAD. A file that is missing would run this every time.
    let branch = git(&["symbolic-ref", "--quiet", "HEAD"]);
    for name in ["HEAD", "logs/HEAD"].into_iter().chain(branch.as_deref()) {
        if let Some(path) = git(&["rev-parse", "--git-path", name])
            && Path::new(&path).exists()
        {
            println!("cargo:rerun-if-changed={path}");
        }
    }
    shorten(&git(&["rev-parse", "HEAD"])?)
}

fn shorten(commit: &str) -> Option<String> {
    let short = commit.get(..DIGITS)?;
    short.bytes().all(|byte| byte.is_ascii_hexdigit()).then(|| short.to_owned())
}

fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}
