//! The files of a plan. Each plan has its own directory.
//!
//! All access goes through a handle of that directory, so that neither `..` nor a symbolic link leads out of it.

use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Component, Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, File, OpenOptions, OpenOptionsExt};
use goalmill_common::id::{PlanId, is_id};
use rustix::fs::OFlags;
use serde::Deserialize;

/// Maximum depth of directories.
const DEPTH_MAX: usize = 16;
/// Bytes of a path.
const PATH_BYTES_MAX: usize = 512;
/// Files, directories, links and others of one plan.
const ENTRIES_MAX: usize = 1_000;

/// A directory that belongs to no plan: ids of plans begin with a letter or a digit.
const MOUNT_POINT: &str = ".mount";

/// Limits of the files of one plan.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct WorkspaceLimits {
    /// Bytes of one file.
    pub file_bytes_max: u64,
    /// Bytes of all files of a plan.
    pub bytes_max: u64,
}

impl Default for WorkspaceLimits {
    fn default() -> Self {
        Self { file_bytes_max: 4 << 20, bytes_max: 64 << 20 }
    }
}

/// The directories of all plans.
pub(super) struct Workspaces {
    root: PathBuf,
    limits: WorkspaceLimits,
}

/// A part of a file.
pub(super) struct FilePart {
    pub text: String,
    /// Size of the whole file.
    pub bytes: u64,
    /// Where the rest of the file begins.
    pub next_offset: Option<u64>,
}

impl Workspaces {
    /// - `root`: created with the first file.
    pub fn new(root: &Path, limits: WorkspaceLimits) -> Self {
        Self { root: root.to_owned(), limits }
    }

    /// Reads at most `bytes_max` bytes of a file from `offset` on.
    pub fn read_part(&self, plan: &PlanId, path: &str, offset: u64, bytes_max: u64) -> Result<FilePart, String> {
        let path = checked(path)?;
        let failed = |error: io::Error| describe(path, &error);
        let mut file = open_file(&self.open(plan)?, path, OpenOptions::new().read(true)).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        if !metadata.is_file() {
            return Err(format!("`{}` is not a file", path.display()));
        }
        file.seek(SeekFrom::Start(offset)).map_err(failed)?;
        let mut part = Vec::new();
        file.take(bytes_max).read_to_end(&mut part).map_err(failed)?;
        if part.contains(&0) {
            return Err(format!("`{}` is not a text", path.display()));
        }
        let end = offset.saturating_add(part.len() as u64);
        let next_offset = (end < metadata.len()).then_some(end);
        Ok(FilePart { text: String::from_utf8_lossy(&part).into_owned(), bytes: metadata.len(), next_offset })
    }

    /// Reads a whole file that has at most `bytes_max` bytes.
    pub fn read_bytes(&self, plan: &PlanId, path: &str, bytes_max: u64) -> Result<Vec<u8>, String> {
        let path = checked(path)?;
        let failed = |error: io::Error| describe(path, &error);
        let file = open_file(&self.open(plan)?, path, OpenOptions::new().read(true)).map_err(failed)?;
        if !file.metadata().map_err(failed)?.is_file() {
            return Err(format!("`{}` is not a file", path.display()));
        }
        let mut bytes = Vec::new();
        file.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes).map_err(failed)?;
        if bytes.len() as u64 > bytes_max {
            return Err(format!("`{}` has more than {bytes_max} bytes", path.display()));
        }
        Ok(bytes)
    }

    /// Writes a file, and creates the directories above it.
    pub fn write(&self, plan: &PlanId, path: &str, text: &str) -> Result<(), String> {
        let path = checked(path)?;
        let bytes = text.len() as u64;
        if bytes > self.limits.file_bytes_max {
            return Err(format!("the text has {bytes} bytes, and a file has at most {}", self.limits.file_bytes_max));
        }
        let dir = self.open(plan)?;
        let content = Content::from_dir(&dir)?;
        if content.is_cut() {
            return Err(too_many());
        }
        let others = content.files.iter().filter(|(known, _)| Path::new(known) != path);
        let used: u64 = others.map(|(_, bytes)| bytes).sum();
        if used + bytes > self.limits.bytes_max {
            return Err(format!("the files of the plan would have more than {} bytes", self.limits.bytes_max));
        }
        let failed = |error: io::Error| describe(path, &error);
        if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            dir.create_dir_all(parent).map_err(failed)?;
        }
        let mut file = open_file(&dir, path, OpenOptions::new().write(true).create(true)).map_err(failed)?;
        if !file.metadata().map_err(failed)?.is_file() {
            return Err(format!("`{}` is not a file", path.display()));
        }
        file.set_len(0).and_then(|()| file.write_all(text.as_bytes())).map_err(failed)
    }

    /// The files with their sizes, sorted by path.
    pub fn list(&self, plan: &PlanId) -> Result<Vec<(String, u64)>, String> {
        Ok(Content::from_dir(&self.open(plan)?)?.files)
    }

    /// Whether the files of a plan are within their limits.
    pub fn check_size(&self, plan: &PlanId) -> Result<(), String> {
        let content = Content::from_dir(&self.open(plan)?)?;
        if content.is_cut() {
            return Err(too_many());
        }
        let bytes: u64 = content.files.iter().map(|(_, bytes)| bytes).sum();
        if bytes > self.limits.bytes_max {
            return Err(format!("the files of the plan have more than {} bytes", self.limits.bytes_max));
        }
        Ok(())
    }

    /// The directory of a plan, and an empty directory to mount on.
    pub fn sandbox_places(&self, plan: &PlanId) -> Result<(PathBuf, PathBuf), String> {
        drop(self.open(plan)?);
        let mount_point = self.root.join(MOUNT_POINT);
        let places = || {
            std::fs::create_dir_all(&mount_point)?;
            Ok((self.root.join(plan.as_str()).canonicalize()?, mount_point.canonicalize()?))
        };
        places().map_err(|error: io::Error| describe(&mount_point, &error))
    }

    /// The directory of a plan.
    fn open(&self, plan: &PlanId) -> Result<Dir, String> {
        if !is_id(plan.as_str()) {
            return Err("the plan has no valid id".into());
        }
        let opened = || {
            std::fs::create_dir_all(&self.root)?;
            let root = Dir::open_ambient_dir(&self.root, ambient_authority())?;
            root.create_dir_all(plan.as_str())?;
            root.open_dir(plan.as_str())
        };
        opened().map_err(|error: io::Error| {
            tracing::warn!("the workspace `{}` cannot be used: {error}", self.root.display());
            "the files of the plan cannot be reached".into()
        })
    }
}

/// Opens a file without waiting: a program may have replaced the file with a pipe.
fn open_file(dir: &Dir, path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    dir.open_with(path, options.custom_flags(flags))
}

/// What the directory of a plan holds.
struct Content {
    /// Paths and sizes, sorted.
    files: Vec<(String, u64)>,
    /// Entries of every kind that may still be counted.
    entries_left: usize,
    has_deeper: bool,
}

impl Content {
    fn from_dir(dir: &Dir) -> Result<Self, String> {
        let mut content = Self { files: Vec::new(), entries_left: ENTRIES_MAX, has_deeper: false };
        content.walk(dir, "", DEPTH_MAX).map_err(|error| format!("the files cannot be listed: {error}"))?;
        content.files.sort();
        Ok(content)
    }

    /// Whether the directory may hold more than was counted.
    fn is_cut(&self) -> bool {
        self.entries_left == 0 || self.has_deeper
    }

    /// Does not follow or list symbolic links. Skips entries that disappear during the walk.
    fn walk(&mut self, dir: &Dir, prefix: &str, levels: usize) -> io::Result<()> {
        for entry in dir.entries()? {
            let entry = entry?;
            self.entries_left = self.entries_left.saturating_sub(1);
            if self.entries_left == 0 {
                return Ok(());
            }
            let Some(kind) = unless_gone(entry.file_type())? else { continue };
            let path = format!("{prefix}{}", entry.file_name().to_string_lossy());
            if kind.is_file() {
                self.files.extend(unless_gone(entry.metadata())?.map(|metadata| (path, metadata.len())));
            } else if kind.is_dir() && levels == 0 {
                self.has_deeper = true;
            } else if kind.is_dir()
                && let Some(dir) = unless_gone(entry.open_dir())?
            {
                self.walk(&dir, &format!("{path}/"), levels - 1)?;
            }
        }
        Ok(())
    }
}

fn too_many() -> String {
    format!("the plan has {ENTRIES_MAX} files and directories or more, or more than {DEPTH_MAX} levels of directories")
}

fn unless_gone<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        result => result.map(Some),
    }
}

/// A relative path without `..`.
fn checked(path: &str) -> Result<&Path, String> {
    let parts: Vec<Component<'_>> = Path::new(path).components().collect();
    let is_plain = parts.iter().all(|part| matches!(part, Component::Normal(_)));
    if parts.is_empty() || !is_plain || parts.len() > DEPTH_MAX || path.len() > PATH_BYTES_MAX || path.contains('\0') {
        return Err("the path must be relative, such as `report.md` or `data/clean.csv`, without `..`".into());
    }
    Ok(Path::new(path))
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the enum of the library is not exhaustive")]
fn describe(path: &Path, error: &io::Error) -> String {
    let path = path.display();
    match error.kind() {
        io::ErrorKind::NotFound => format!("there is no file `{path}`"),
        io::ErrorKind::IsADirectory => format!("`{path}` is a directory"),
        io::ErrorKind::PermissionDenied => format!("`{path}` may not be used"),
        _ => format!("`{path}` cannot be used: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workspaces(dir: &Path, limits: WorkspaceLimits) -> (Workspaces, PlanId) {
        (Workspaces::new(&dir.join("all"), limits), "p0-1".into())
    }

    #[test]
    fn files_are_written_read_in_parts_and_listed() {
        let dir = tempfile::tempdir().expect("a temporary directory can be made");
        let (files, plan) = workspaces(dir.path(), WorkspaceLimits::default());
        files.write(&plan, "data/a.csv", "x,y\n1,2\n").expect("it can be written");
        files.write(&plan, "report.md", "# Report").expect("it can be written");
        let part = files.read_part(&plan, "data/a.csv", 0, 4).expect("it is there");
        assert_eq!((part.text.as_str(), part.bytes, part.next_offset), ("x,y\n", 8, Some(4)));
        let rest = files.read_part(&plan, "data/a.csv", 4, 100).expect("it is there");
        assert_eq!((rest.text.as_str(), rest.next_offset), ("1,2\n", None));
        assert_eq!(files.list(&plan), Ok(vec![("data/a.csv".into(), 8), ("report.md".into(), 8)]));
        assert_eq!(files.list(&"p0-2".into()), Ok(Vec::new()), "another plan has its own files");
    }

    #[test]
    fn no_path_leads_out_of_the_directory() {
        let dir = tempfile::tempdir().expect("a temporary directory can be made");
        let (files, plan) = workspaces(dir.path(), WorkspaceLimits::default());
        let secret = dir.path().join("secret");
        std::fs::write(&secret, "key").expect("it can be written");
        files.write(&plan, "a", "a").expect("it can be written");
        let own = dir.path().join("all/p0-1");
        for (link, target) in [("file", secret.as_path()), ("dir", dir.path()), ("up", Path::new("../.."))] {
            std::os::unix::fs::symlink(target, own.join(link)).expect("a link can be made");
        }
        let absolute = secret.display().to_string();
        let deep = "x/".repeat(20);
        let paths =
            ["../../secret", "/etc/passwd", "a/../../../secret", "", ".", "..", "file", "dir/secret", "up/secret"];
        for path in paths.into_iter().chain([absolute.as_str(), deep.as_str(), "a\0b", "/proc/self/environ"]) {
            assert!(files.read_part(&plan, path, 0, 100).is_err(), "{path}");
            assert!(files.write(&plan, path, "x").is_err(), "{path}");
        }
        assert_eq!(std::fs::read_to_string(&secret).expect("it is there"), "key");
        assert_eq!(files.list(&plan), Ok(vec![("a".into(), 1)]), "links are not listed");
        assert!(files.list(&"../x".into()).is_err());
    }

    #[test]
    fn sizes_are_limited() {
        let dir = tempfile::tempdir().expect("a temporary directory can be made");
        let (files, plan) = workspaces(dir.path(), WorkspaceLimits { file_bytes_max: 4, bytes_max: 6 });
        files.write(&plan, "a", "1234").expect("it is small");
        assert!(files.write(&plan, "b", "12345").is_err_and(|reason| reason.contains("at most 4")));
        assert!(files.write(&plan, "b", "123").is_err_and(|reason| reason.contains("more than 6")));
        files.write(&plan, "a", "4321").expect("its old text does not count");
        std::fs::write(dir.path().join("all/p0-1/b"), [0, 1]).expect("it can be written");
        assert!(files.read_part(&plan, "b", 0, 9).err().is_some_and(|reason| reason.contains("not a text")));
    }

    #[test]
    fn directories_and_links_count_and_none_is_too_deep_to_be_counted() {
        let dir = tempfile::tempdir().expect("a temporary directory can be made");
        let (files, plan) = workspaces(dir.path(), WorkspaceLimits::default());
        files.write(&plan, "a", "1").expect("it is small");
        assert_eq!(files.check_size(&plan), Ok(()));
        let own = dir.path().join("all/p0-1");
        for number in 0..ENTRIES_MAX / 2 {
            std::fs::create_dir(own.join(format!("d{number}"))).expect("a directory can be made");
            std::os::unix::fs::symlink("a", own.join(format!("l{number}"))).expect("a link can be made");
        }
        assert!(files.check_size(&plan).is_err());
        assert!(files.write(&plan, "b", "1").is_err());
        let deep = "p0-2".into();
        files.write(&deep, "a", "1").expect("it is small");
        let below = dir.path().join("all/p0-2").join("x/".repeat(DEPTH_MAX + 1));
        std::fs::create_dir_all(&below).expect("directories can be made");
        std::fs::write(below.join("hidden"), "1").expect("it can be written");
        assert!(files.check_size(&deep).is_err());
    }
}
