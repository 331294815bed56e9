//! The journal file: every write, so that a process can continue where another ended.
//!
//! `goalmill journal 2 <format>\n`, then records: length of the body, CRC-32 of these four bytes, CRC-32 of the body
//! (u32 each, little endian), body. A body is the time of the write in Unix milliseconds and a [`Write`], in
//! postcard's format. A record cut off at the end of the file is the trace of a sudden end and is dropped;
//! anything else that does not read back is damage, and the file is refused.
//!
//! `<format>` is a hash of how the records of a sample are written, so that it changes with every change of their types; a
//! test computes it. A later version must read this one: see `docs/decisions/0012-journals-keep-their-readers.md`.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use super::memory_store::MemoryStore;
use super::record::Write;
use crate::BrokerError;

const NAME: &str = "journal.v1";
const HEADER: &[u8] = b"goalmill journal 2 14293c0c\n";
/// The first line of files of earlier builds, whose records are those of [`HEADER`].
const HEADER_WITHOUT_FORMAT: &[u8] = b"goalmill journal 2\n";
/// With this every journal begins.
const JOURNAL: &[u8] = b"goalmill journal ";
/// Bytes from which the file is rewritten as one snapshot when it is opened.
const COMPACT_BYTES: usize = 8 << 20;
/// Length and two checksums.
const PREFIX_BYTES: usize = 12;

pub(super) struct Journal {
    file: File,
    path: PathBuf,
    /// Why nothing can be written any more.
    broken: Option<String>,
    /// Reused from record to record.
    buffer: Vec<u8>,
}

impl Journal {
    /// Reads the file back, repairs its end, shortens it when it is long.
    pub(super) fn open(dir: &Path, now: u64) -> Result<(Self, MemoryStore), BrokerError> {
        let path = dir.join(NAME);
        let failed = |e: std::io::Error| BrokerError::Unavailable(format!("`{}`: {e}", path.display()));
        std::fs::create_dir_all(dir).map_err(failed)?;
        let mut file = open_locked(&path)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(failed)?;
        let (store, good) = replay(&bytes, &path)?;
        let is_current = bytes.starts_with(HEADER) || good == 0;
        if good < bytes.len() {
            let cut = bytes.len() - good;
            tracing::warn!("the last write in `{}` is incomplete; {cut} bytes were cut off", path.display());
        }
        let mut journal = Self { file, path: path.clone(), broken: None, buffer: Vec::new() };
        if good >= COMPACT_BYTES || !is_current {
            return journal.compact(now, store);
        }
        journal.file.set_len(good as u64).map_err(failed)?;
        journal.file.seek(SeekFrom::End(0)).map_err(failed)?;
        if good == 0 {
            journal.file.write_all(HEADER).map_err(failed)?;
        }
        Ok((journal, store))
    }

    pub(super) fn check_intact(&self) -> Result<(), BrokerError> {
        match &self.broken {
            Some(why) => Err(BrokerError::Unavailable(why.clone())),
            None => Ok(()),
        }
    }

    pub(super) fn append(&mut self, now: u64, write: &Write<'_>) -> Result<(), BrokerError> {
        let buffer = std::mem::take(&mut self.buffer);
        let kept = encode(buffer, now, write).and_then(|bytes| {
            let written = self.file.write_all(&bytes);
            self.buffer = bytes;
            written.map_err(|e| e.to_string())
        });
        if let Err(why) = kept {
            self.broken =
                Some(format!("`{}` cannot be written: {why}; repair it and start again", self.path.display()));
        }
        self.check_intact()
    }

    /// Puts one snapshot in the place of all records.
    fn compact(mut self, now: u64, store: MemoryStore) -> Result<(Self, MemoryStore), BrokerError> {
        let failed = |e: std::io::Error| BrokerError::Unavailable(format!("`{}`: {e}", self.path.display()));
        let new_path = self.path.with_extension("new");
        match std::fs::remove_file(&new_path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(failed(e)),
            Ok(()) | Err(_) => {}
        }
        let mut new = open_locked(&new_path)?;
        let snapshot = Write::Snapshot(Box::new(store));
        let bytes = encode(Vec::new(), now, &snapshot).map_err(BrokerError::Unavailable)?;
        new.write_all(HEADER).and_then(|()| new.write_all(&bytes)).and_then(|()| new.sync_all()).map_err(failed)?;
        std::fs::rename(&new_path, &self.path).map_err(failed)?;
        self.file = new;
        let Write::Snapshot(store) = snapshot else { unreachable!("it is the snapshot made above") };
        Ok((self, *store))
    }
}

/// Opens a file for this process alone.
fn open_locked(path: &Path) -> Result<File, BrokerError> {
    let failed = |e: std::io::Error| BrokerError::Unavailable(format!("`{}`: {e}", path.display()));
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(std::fs::TryLockError::WouldBlock) => {
            let why = "another process uses it; stop that one or give another `--data-dir`";
            Err(BrokerError::Unavailable(format!("`{}`: {why}", path.display())))
        }
        Err(std::fs::TryLockError::Error(e)) => Err(failed(e)),
    }
}

/// Writes one record over what `buffer` held.
pub(super) fn encode(mut buffer: Vec<u8>, now: u64, write: &Write<'_>) -> Result<Vec<u8>, String> {
    buffer.clear();
    buffer.resize(PREFIX_BYTES, 0);
    let mut buffer = postcard::to_extend(&(now, write), buffer).map_err(|e| e.to_string())?;
    let body = buffer.get(PREFIX_BYTES..).unwrap_or_default();
    let length = u32::try_from(body.len()).map_err(|_| "a record is longer than 4 GiB".to_string())?.to_le_bytes();
    let checksum = crc32fast::hash(body).to_le_bytes();
    let prefix = [length, crc32fast::hash(&length).to_le_bytes(), checksum];
    buffer[..PREFIX_BYTES].copy_from_slice(prefix.as_flattened());
    Ok(buffer)
}

/// Replays all writes. Returns the store and how many bytes are good.
fn replay(bytes: &[u8], path: &Path) -> Result<(MemoryStore, usize), BrokerError> {
    let mut store = MemoryStore::default();
    if bytes.len() < HEADER.len() && HEADER.starts_with(bytes) {
        return Ok((store, 0));
    }
    let body = bytes.strip_prefix(HEADER).or_else(|| bytes.strip_prefix(HEADER_WITHOUT_FORMAT));
    let mut rest = body.ok_or_else(|| BrokerError::Corrupt(format!("`{}` {}", path.display(), foreign(bytes))))?;
    loop {
        let at = bytes.len() - rest.len();
        let damaged = |why: &str| {
            let hint = "restore the file, or move it away to start over";
            BrokerError::Corrupt(format!("`{}` is damaged at byte {at}: {why}; {hint}", path.display()))
        };
        match split_record(rest).map_err(damaged)? {
            Split::Record(body, after) => {
                let (now, write): (u64, Write<'_>) = postcard::from_bytes(body).map_err(|e| damaged(&e.to_string()))?;
                write.replay(&mut store, now);
                rest = after;
            }
            Split::End => return Ok((store, at)),
        }
    }
}

/// Why a file cannot be read that does not begin with [`HEADER`].
fn foreign(bytes: &[u8]) -> String {
    let line = |bytes: &[u8]| {
        String::from_utf8_lossy(bytes.split(|byte| *byte == b'\n').next().unwrap_or_default()).into_owned()
    };
    if !bytes.starts_with(JOURNAL) {
        return "is no journal; move it away or give another `--data-dir`".into();
    }
    format!(
        "was written by another build: it says `{}`, this build writes `{}`; start that build, or give another `--data-dir`",
        line(bytes),
        line(HEADER)
    )
}

enum Split<'a> {
    /// A good record's body, and what follows it.
    Record(&'a [u8], &'a [u8]),
    /// Nothing, or what a sudden end left.
    End,
}

fn split_record(bytes: &[u8]) -> Result<Split<'_>, &'static str> {
    let Some((prefix, rest)) = bytes.split_first_chunk::<PREFIX_BYTES>() else {
        return Ok(Split::End);
    };
    let (length, length_checksum, checksum) = (&prefix[..4], &prefix[4..8], &prefix[8..]);
    if crc32fast::hash(length).to_le_bytes() != *length_checksum {
        // Some file systems extend a file with zeros before the bytes themselves arrive.
        let only_zeros = bytes.iter().all(|b| *b == 0);
        return if only_zeros { Ok(Split::End) } else { Err("the checksum of a length is wrong") };
    }
    let length = u32::from_le_bytes(length.try_into().expect("four of twelve bytes"));
    let length = usize::try_from(length).map_err(|_| "a record is longer than memory")?;
    let Some((body, after)) = rest.split_at_checked(length) else { return Ok(Split::End) };
    match crc32fast::hash(body).to_le_bytes() == *checksum {
        true => Ok(Split::Record(body, after)),
        false if after.iter().all(|b| *b == 0) => Ok(Split::End),
        false => Err("the checksum of a record is wrong"),
    }
}

#[cfg(test)]
mod tests {
    use goalmill_common::clock::Clock;
    use goalmill_common::id::{AgentType, ShardId, WorkerId};
    use goalmill_common::limits::TaskLimits;
    use std::sync::Arc;

    use super::super::journal_samples::sample_records;
    use super::*;
    use crate::embedded::open;
    use crate::{Activity, Broker, Claim, Commit, Committed, InboxCursor, Install, PlanWrite, TaskWrite};

    #[tokio::test]
    async fn everything_is_there_again_after_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let before = filled(dir.path()).await;
        let seen = dump(&before).await;
        drop(before);
        let after = open(Some(dir.path()), Clock::system()).unwrap();
        assert_eq!(dump(&after).await, seen);
    }

    #[tokio::test]
    async fn leases_of_the_process_before_have_ended() {
        let dir = tempfile::tempdir().unwrap();
        let before = filled(dir.path()).await;
        before.record_scheduler_heartbeat("h", 1, 60_000).await.unwrap();
        drop(before);
        let (build, year_ms) = ("build".into(), 365 * 86_400_000);
        let after = open(Some(dir.path()), Clock::system()).unwrap();
        let owner = after.owner(ShardId(0)).await.unwrap().unwrap();
        assert_eq!((owner.holder.as_str(), owner.token.as_str()), ("", "t"), "it has no holder");
        assert_eq!(after.record_scheduler_heartbeat("new", 1, year_ms).await.unwrap().sharing, ["new"]);
        assert_eq!(after.reclaim_submissions("new", year_ms, 9).await.unwrap().len(), 1);
        assert_eq!(after.reclaim(&build, year_ms, 9).await.unwrap().len(), 1);
        assert_eq!(after.reclaim(&build, year_ms, 9).await.unwrap().len(), 0, "who has it now keeps it");
        let claim = Claim { holder: "new".into(), token: "u".into(), seen: Some(owner) };
        assert!(after.acquire(ShardId(0), &claim).await.unwrap());
        drop(after);
        let again = open(Some(dir.path()), Clock::system()).unwrap();
        assert_eq!(again.owner(ShardId(0)).await.unwrap().unwrap().token, "u", "all of it reads back");
        assert_eq!(again.queues().await.unwrap()[0].pending, 1);
    }

    #[tokio::test]
    async fn a_torn_tail_is_cut_off_wherever_it_was_torn() {
        let dir = tempfile::tempdir().unwrap();
        drop(filled(dir.path()).await);
        let whole = std::fs::read(dir.path().join(NAME)).unwrap();
        for length in 0..whole.len() {
            std::fs::write(dir.path().join(NAME), &whole[..length]).unwrap();
            let broker = open(Some(dir.path()), Clock::system()).unwrap();
            broker.open(&install()).await.unwrap();
            drop(broker);
            let broker = open(Some(dir.path()), Clock::system()).unwrap();
            assert!(broker.meta().await.unwrap().is_some(), "torn at {length}");
        }
    }

    #[tokio::test]
    async fn a_flipped_bit_in_the_middle_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        drop(filled(dir.path()).await);
        let whole = std::fs::read(dir.path().join(NAME)).unwrap();
        let mut rest = &whole[HEADER.len()..];
        let mut last = 0;
        while let Ok(Split::Record(_, after)) = split_record(rest) {
            (last, rest) = (whole.len() - rest.len(), after);
        }
        for place in 0..last {
            let mut bytes = whole.clone();
            bytes[place] ^= 4;
            std::fs::write(dir.path().join(NAME), &bytes).unwrap();
            let refused = open(Some(dir.path()), Clock::system()).err();
            assert!(matches!(refused, Some(BrokerError::Corrupt(_))), "bit of byte {place}: {refused:?}");
        }
    }

    #[tokio::test]
    async fn a_long_file_is_shortened_and_still_holds_everything() {
        let dir = tempfile::tempdir().unwrap();
        let before = filled(dir.path()).await;
        for _ in 0..10 {
            before.put_blob("blob", &vec![7; 1 << 20], 3_600_000).await.unwrap();
        }
        let seen = dump(&before).await;
        drop(before);
        let length = |()| std::fs::metadata(dir.path().join(NAME)).unwrap().len();
        assert!(length(()) > COMPACT_BYTES as u64);
        let compacted = open(Some(dir.path()), Clock::system()).unwrap();
        assert!(length(()) < 2 << 20, "{}", length(()));
        assert_eq!(dump(&compacted).await, seen);
        compacted.cancel(&["late".into()]).await.unwrap();
        drop(compacted);
        let again = open(Some(dir.path()), Clock::system()).unwrap();
        assert_eq!(again.cancelled().await.unwrap(), vec!["late".into()]);
        assert_eq!(again.get_blob("blob").await.unwrap().unwrap().len(), 1 << 20);
    }

    #[tokio::test]
    async fn two_processes_cannot_use_one_directory() {
        let dir = tempfile::tempdir().unwrap();
        let first = filled(dir.path()).await;
        assert!(matches!(open(Some(dir.path()), Clock::system()), Err(BrokerError::Unavailable(_))));
        drop(first);
        assert!(open(Some(dir.path()), Clock::system()).is_ok());
    }

    #[tokio::test]
    async fn a_file_of_another_build_is_refused_and_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        for first in ["goalmill journal 3", "goalmill journal 2 ffffffff"] {
            let other = format!("{first}\nwho knows").into_bytes();
            std::fs::write(dir.path().join(NAME), &other).unwrap();
            let refused = open(Some(dir.path()), Clock::system()).err();
            let names_it = |why: &String| why.contains(&format!("`{first}`")) && why.contains("another build");
            assert!(matches!(&refused, Some(BrokerError::Corrupt(why)) if names_it(why)), "{refused:?}");
            assert_eq!(std::fs::read(dir.path().join(NAME)).unwrap(), other);
        }
    }

    /// `journal-2` was written by the build of 28 November 2026, whose files do not name a format: one plan of one step.
    #[tokio::test]
    async fn a_file_of_the_last_build_without_a_format_is_read_and_gets_one() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(NAME), include_bytes!("journal-2")).unwrap();
        let plan = "p3-j2v5qsydp9tnwscd".into();
        for _ in 0..2 {
            let broker = open(Some(dir.path()), Clock::system()).unwrap();
            assert_eq!(broker.summary(&plan).await.unwrap()["status"], "completed");
            assert!(!broker.log(&plan, 0, 99).await.unwrap().is_empty());
            drop(broker);
            assert!(std::fs::read(dir.path().join(NAME)).unwrap().starts_with(HEADER));
        }
    }

    #[test]
    fn the_first_line_names_the_format_of_the_records() {
        let expected = format!("goalmill journal 2 {:08x}\n", crc32fast::hash(&sample_records()));
        let header = String::from_utf8_lossy(HEADER);
        assert_eq!(
            header, expected,
            "the records have changed: HEADER is to be `expected`, and files with `header` \
            still need a reader (docs/decisions/0012)"
        );
    }

    fn install() -> Install {
        Install { instance: "i".into(), shards: 4, limits: TaskLimits::default() }
    }

    async fn filled(dir: &Path) -> Arc<dyn Broker> {
        let broker = open(Some(dir), Clock::system()).unwrap();
        broker.open(&install()).await.unwrap();
        let claim = Claim { holder: "h".into(), token: "t".into(), seen: None };
        assert!(broker.acquire(ShardId(0), &claim).await.unwrap());
        let build: AgentType = "build".into();
        broker.open_queue(&build).await.unwrap();
        broker.submit(&vec![("id".into(), b"r1".to_vec()), ("data".into(), vec![0, 255])]).await.unwrap();
        broker.send(ShardId(0), &vec![("v".into(), b"1".to_vec())]).await.unwrap();
        broker.send_request(ShardId(0), &vec![("v".into(), b"1".to_vec())]).await.unwrap();
        let plan = PlanWrite {
            plan: "p0-a".into(),
            base_seq: 0,
            follows: false,
            last_seq: 2,
            time: "2026-11-21T22:47:10.123Z".into(),
            events: b"[1,2]".to_vec(),
            summary: vec![("status", "running".into())],
            activity: Activity::Begins,
            index_ms: 5,
            result: None,
        };
        let commit = Commit {
            shard: ShardId(0),
            token: "t".into(),
            number: 1,
            cursor: Some("7-0".into()),
            requests_cursor: Some("8-0".into()),
            plans: vec![plan],
            tasks: vec![TaskWrite { agent_type: build.clone(), data: b"{}".to_vec() }; 2],
            acknowledged: vec![],
            full_check: false,
        };
        assert_eq!(broker.commit(&commit).await.unwrap(), Committed::Applied);
        let mut reader = broker.reader().await.unwrap();
        assert_eq!(reader.pull(&WorkerId::from("w"), &[build], 1, 0).await.unwrap().len(), 1);
        assert_eq!(reader.submissions("s", 9, 0).await.unwrap().len(), 1);
        broker.answer(&[("r1".into(), "{}".into())]).await.unwrap();
        broker.register(&goalmill_common::agent::Agent::named("build".into())).await.unwrap();
        broker
    }

    async fn dump(broker: &Arc<dyn Broker>) -> String {
        let plan = "p0-a".into();
        let mut reader = broker.reader().await.unwrap();
        format!(
            "{:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?}",
            broker.meta().await,
            broker.owner(ShardId(0)).await.map(|owner| owner.map(|owner| (owner.token, owner.beat))),
            broker.cursor(ShardId(0)).await,
            broker.active(ShardId(0)).await,
            broker.log(&plan, 0, 9).await,
            broker.summary(&plan).await,
            broker.plans(ShardId(0), u64::MAX, 9).await,
            broker.queues().await,
            broker.answers(&["r1".into()]).await,
            broker.agents().await,
            reader.submissions("s", 9, 0).await,
            reader.inbox(ShardId(0), &InboxCursor::start(), 9, 0).await,
        )
    }
}
