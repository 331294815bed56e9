//! The suite on files, and what only files have.

use goalmill_archive::{ArchiveError, ArchiveStore, SqliteArchive};
use rusqlite::Connection;

use super::conformance::{self, S0, append, plan};

macro_rules! on_sqlite {
    ($($scenario:ident,)+) => {
        $(#[tokio::test]
        async fn $scenario() {
            let dir = tempfile::tempdir().expect("a directory can be made");
            let store = SqliteArchive::open(&dir.path().join("archive.sqlite")).await.expect("the file is made");
            conformance::$scenario(&store).await;
        })+
    };
}

conformance::with_all_scenarios!(on_sqlite);

#[tokio::test]
async fn a_file_is_opened_again_and_shared() {
    let dir = tempfile::tempdir().expect("a directory can be made");
    let path = dir.path().join("archive.sqlite");
    let one = SqliteArchive::open(&path).await.expect("the file is made");
    append(&one, S0, 0, vec![plan("p0-a", 5_000, "{}")]).await;
    let other = SqliteArchive::open(&path).await.expect("the file is opened again");
    append(&other, S0, 0, vec![plan("p0-b", 6_000, "{}")]).await;
    for store in [&one, &other] {
        assert_eq!(store.list(S0, u64::MAX, 9).await.unwrap().len(), 2);
    }
}

#[tokio::test]
async fn the_columns_of_the_design_are_there() {
    let dir = tempfile::tempdir().expect("a directory can be made");
    let path = dir.path().join("archive.sqlite");
    let store = SqliteArchive::open(&path).await.expect("the file is made");
    append(&store, S0, 0, vec![plan("p0-a", 5_000, r#"{"price":120}"#)]).await;
    let connection = Connection::open(&path).expect("another program opens it");
    let columns = "SELECT id || ' ' || log_id || ' ' || event_type || ' ' || plan_id || ' ' || phase_id || ' ' || step_id \
                   || ' ' || (data ->> '$.price') FROM log_entries WHERE seq = 3";
    let row: String = connection.query_row(columns, [], |row| row.get(0)).expect("the row is there");
    assert_eq!(row, "p0-a-3 p0-a step_completed p0-a one a 120");
    for table in ["steps", "revisions"] {
        let count = format!("SELECT count(*) FROM {table} WHERE plan_id = 'p0-a'");
        assert_eq!(connection.query_row(&count, [], |row| row.get::<_, u32>(0)), Ok(1), "{table}");
    }
}

#[tokio::test]
async fn the_log_cannot_be_updated() {
    let dir = tempfile::tempdir().expect("a directory can be made");
    let path = dir.path().join("archive.sqlite");
    let store = SqliteArchive::open(&path).await.expect("the file is made");
    append(&store, S0, 0, vec![plan("p0-a", 5_000, "{}")]).await;
    let connection = Connection::open(&path).expect("another program opens it");
    assert!(connection.execute("UPDATE log_entries SET line = ''", []).is_err());
    assert_eq!(connection.execute("DELETE FROM log_entries WHERE plan_id = 'p0-a'", []), Ok(4), "plans are pruned");
}

#[tokio::test]
async fn equal_payloads_are_one_row_and_none_is_left_over() {
    let dir = tempfile::tempdir().expect("a directory can be made");
    let path = dir.path().join("archive.sqlite");
    let store = SqliteArchive::open(&path).await.expect("the file is made");
    let connection = Connection::open(&path).expect("another program opens it");
    let rows = || connection.query_row("SELECT count(*) FROM blobs", [], |row| row.get::<_, u32>(0));
    conformance::large_payloads_are_stored_once_and_go_with_their_last_plan(&store).await;
    assert_eq!(rows(), Ok(1));
}

#[tokio::test]
async fn a_file_of_the_first_version_is_migrated() {
    let dir = tempfile::tempdir().expect("a directory can be made");
    let path = dir.path().join("archive.sqlite");
    let connection = Connection::open(&path).expect("the file is made");
    connection.execute_batch(include_str!("../../migrations/sqlite/0001.sql")).expect("its tables are made");
    connection.pragma_update(None, "user_version", 1).expect("the version is set");
    let store = SqliteArchive::open(&path).await.expect("the file is opened");
    append(&store, S0, 0, vec![plan("p0-a", 5_000, "{}")]).await;
    assert_eq!(store.blob_keys(&"p0-a".into(), "", 9).await.expect("its tables are there"), [""; 0]);
}

#[tokio::test]
async fn a_file_of_a_later_version_is_refused() {
    let dir = tempfile::tempdir().expect("a directory can be made");
    let path = dir.path().join("archive.sqlite");
    drop(SqliteArchive::open(&path).await.expect("the file is made"));
    let connection = Connection::open(&path).expect("another program opens it");
    connection.pragma_update(None, "user_version", 99).expect("the version is changed");
    let refused = SqliteArchive::open(&path).await.err().expect("it is refused");
    assert!(matches!(refused, ArchiveError::Schema(_)), "{refused:?}");
    assert!(refused.to_string().contains("version 99"), "{refused}");
}

#[tokio::test]
async fn a_file_that_cannot_be_opened_is_named() {
    let dir = tempfile::tempdir().expect("a directory can be made");
    let path = dir.path().join("none").join("archive.sqlite");
    let refused = SqliteArchive::open(&path).await.err().expect("it is refused").to_string();
    assert!(refused.contains("none/archive.sqlite"), "{refused}");
}

#[tokio::test]
async fn a_locked_file_takes_nothing_until_it_is_free() {
    let dir = tempfile::tempdir().expect("a directory can be made");
    let path = dir.path().join("archive.sqlite");
    let store = SqliteArchive::open(&path).await.expect("the file is made");
    let connection = Connection::open(&path).expect("another program opens it");
    connection.execute_batch("BEGIN IMMEDIATE").expect("it is locked");
    let batch =
        goalmill_archive::ArchiveBatch { shard: S0, parts: vec![plan("p0-a", 5_000, "{}")], position_ms: 5_000 };
    let refused = store.append(&batch).await.expect_err("it is locked");
    assert!(matches!(refused, ArchiveError::Unavailable(_)), "{refused:?}");
    assert_eq!(store.position(S0).await.unwrap(), 0, "reading goes on");
    connection.execute_batch("COMMIT").expect("it is free");
    store.append(&batch).await.expect("it is free");
}

/// Prints how many events a second are written, and how long searches take: `GOALMILL_ARCHIVE_EVENTS=1000000`.
#[tokio::test]
async fn events_a_second() {
    let Some(events_max) = goalmill_common::config::environment("GOALMILL_ARCHIVE_EVENTS") else { return };
    let dir = tempfile::tempdir().expect("a directory can be made");
    let store = SqliteArchive::open(&dir.path().join("archive.sqlite")).await.expect("the file is made");
    conformance::measure(&store, events_max.parse().expect("a number"), async || ()).await;
}
