//! Removes the directories of plans that have ended.
//!
//! A worker does not see plans. A directory is removed when nothing in it has changed for the sum of the longest life
//! of a plan and its retention time: by then the plan has ended and its retention time has passed.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cap_std::ambient_authority;
use cap_std::fs::{Dir, MetadataExt};
use goalmill_common::clock::Clock;
use goalmill_common::id::is_id;
use tokio::task::AbortHandle;

/// Time between two scans of the directories.
const PAUSE: Duration = Duration::from_hours(1);
/// Number of entries of one directory that are checked.
const ENTRIES_MAX: usize = 10_000;

/// The background task that removes directories; it ends when this value is dropped.
pub(crate) struct WorkspaceCleaner(AbortHandle);

impl WorkspaceCleaner {
    /// Starts the task; `None` outside of a runtime, where settings are only checked.
    pub fn start(root: PathBuf, keep_ms: u64, clock: Clock) -> Option<Self> {
        let runtime = tokio::runtime::Handle::try_current().ok()?;
        let task = runtime.spawn(async move {
            loop {
                let (root, now_ms) = (root.clone(), clock.now_ms());
                let done = tokio::task::spawn_blocking(move || clean(&root, keep_ms, now_ms)).await;
                match done {
                    Ok(Ok(removed)) if removed > 0 => tracing::info!("the files of {removed} old plans are removed"),
                    Ok(Err(error)) => tracing::warn!("old files of plans cannot be removed: {error}"),
                    Ok(Ok(_)) | Err(_) => {}
                }
                tokio::time::sleep(PAUSE).await;
            }
        });
        Some(Self(task.abort_handle()))
    }
}

impl Drop for WorkspaceCleaner {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Removes the directories whose last change is `keep_ms` ago; returns how many were removed. Other entries stay.
fn clean(root: &Path, keep_ms: u64, now_ms: u64) -> io::Result<usize> {
    let root = match Dir::open_ambient_dir(root, ambient_authority()) {
        Ok(root) => root,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(error),
    };
    let before_s = i64::try_from(now_ms.saturating_sub(keep_ms) / 1_000).unwrap_or(i64::MAX);
    let mut removed = 0;
    for entry in root.entries()? {
        let entry = entry?;
        let name = entry.file_name();
        if !name.to_str().is_some_and(is_id) || !entry.file_type()?.is_dir() {
            continue;
        }
        let mut entries_left = ENTRIES_MAX;
        match is_unchanged(&root.open_dir(&name)?, before_s, &mut entries_left) {
            Ok(true) => match root.remove_dir_all(&name) {
                Ok(()) => removed += 1,
                // Another worker removed it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            },
            Ok(false) => {}
            Err(error) => tracing::warn!("a directory of a plan cannot be read: {error}"),
        }
    }
    Ok(removed)
}

/// Whether nothing in a directory has changed since `before_s`. Programs cannot set the change time (`ctime`).
fn is_unchanged(dir: &Dir, before_s: i64, entries_left: &mut usize) -> io::Result<bool> {
    if dir.dir_metadata()?.ctime() >= before_s {
        return Ok(false);
    }
    for entry in dir.entries()? {
        let entry = entry?;
        *entries_left = entries_left.saturating_sub(1);
        if *entries_left == 0 {
            return Ok(true);
        }
        let is_old = if entry.file_type()?.is_dir() {
            is_unchanged(&entry.open_dir()?, before_s, entries_left)?
        } else {
            entry.metadata()?.ctime() < before_s
        };
        if !is_old {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_old_directories_of_plans_are_removed() {
        let dir = tempfile::tempdir().expect("a temporary directory can be made");
        let files = dir.path().join("files");
        std::fs::create_dir_all(files.join("p0-1/data")).expect("a directory can be made");
        std::fs::write(files.join("p0-1/data/a.csv"), "x").expect("a file can be written");
        std::fs::create_dir_all(files.join(".mount")).expect("a directory can be made");
        std::fs::write(files.join("notes"), "x").expect("a file can be written");
        std::os::unix::fs::symlink(dir.path(), files.join("p0-2")).expect("a link can be made");
        let now_ms = Clock::system().now_ms();
        assert_eq!(clean(&files, 60_000, now_ms).expect("it can be read"), 0);
        assert_eq!(clean(&files, 60_000, now_ms + 50_000).expect("it can be read"), 0);
        assert!(files.join("p0-1/data/a.csv").exists(), "it is kept for a minute");
        assert_eq!(clean(&files, 60_000, now_ms + 70_000).expect("it can be read"), 1);
        assert!(!files.join("p0-1").exists());
        let left = std::fs::read_dir(&files).expect("it is there").count();
        assert_eq!(left, 3, "what is no plan's directory stays");
        assert_eq!(clean(&dir.path().join("none"), 1, now_ms).expect("that is no error"), 0);
    }
}
