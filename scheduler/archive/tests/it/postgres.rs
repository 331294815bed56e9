//! The suite on a server, and what only servers have.

use goalmill_archive::{ArchiveError, ArchiveStore, PostgresArchive, PostgresLimits};
use goalmill_common::config::environment;
use goalmill_postgres::test_server::PostgresServer;

use super::conformance::{self, S0, append, events, plan};

/// A store on a server of its own.
async fn open(server: &PostgresServer) -> PostgresArchive {
    PostgresArchive::open(&server.url(), "`URL`", PostgresLimits::default()).await.expect("the schema is made")
}

macro_rules! on_postgres {
    ($($scenario:ident,)+) => {
        $(#[tokio::test]
        async fn $scenario() {
            let Some(server) = PostgresServer::start().await else { return };
            conformance::$scenario(&open(&server).await).await;
        })+
    };
}

conformance::with_all_scenarios!(on_postgres);

#[tokio::test]
async fn the_columns_of_the_design_are_there_and_data_is_searched_by_its_index() {
    let Some(server) = PostgresServer::start().await else { return };
    let store = open(&server).await;
    append(&store, S0, 0, vec![plan("p0-a", 5_000, r#"{"outputs":{"price":120,"none":null}}"#)]).await;
    let row = server.query(
        "SELECT concat_ws(' ', id, log_id, event_type, plan_id, phase_id, step_id, data #>> '{outputs,price}', \
         \"timestamp\" AT TIME ZONE 'UTC') FROM log_entries WHERE seq = 3 AND data @> '{\"outputs\": {\"price\": 120}}'",
    );
    assert_eq!(row.await, "p0-a-3 p0-a step_completed p0-a one a 120 1970-01-01 00:00:01.02");
    let index = server.query(
        "SELECT string_agg(amname, ' ') FROM pg_class JOIN pg_am ON relam = pg_am.oid \
                              WHERE relname IN ('log_entries_by_data', 'log_entries_by_words')",
    );
    assert_eq!(index.await, "gin gin");
    assert_eq!(server.query("SELECT count(*)::text FROM steps WHERE agent_type = 'hotel_agent'").await, "1");
    assert_eq!(server.query("SELECT count(*)::text FROM revisions").await, "1");
}

#[tokio::test]
async fn each_month_has_a_partition() {
    let Some(server) = PostgresServer::start().await else { return };
    let store = open(&server).await;
    let mut part = plan("p0-a", 5_000, "{}");
    // 30 November and 1 December 2026.
    part.events[2].time_ms = 1_796_083_199_999;
    part.events[3].time_ms = 1_796_083_200_000;
    append(&store, S0, 0, vec![part.clone()]).await;
    append(&open(&server).await, S0, 0, vec![goalmill_archive::PlanPart { plan: "p0-b".into(), ..part }]).await;
    let parts = "SELECT string_agg(name, ' ') FROM (SELECT tableoid::regclass::text || '=' || count(*) AS name \
                 FROM log_entries GROUP BY tableoid::regclass::text ORDER BY 1) AS parts";
    assert_eq!(server.query(parts).await, "log_entries_1970_01=4 log_entries_2026_11=2 log_entries_2026_12=2");
}

/// The role of the application as `docs/archive.md` says, and a function that tries a statement as a role.
const APPLICATION_ROLE: &str = "
    CREATE ROLE application LOGIN PASSWORD 'secret';
    GRANT SELECT, INSERT, DELETE ON log_entries, plans, steps, revisions, blobs, plan_blobs TO application;
    GRANT SELECT, INSERT, UPDATE ON positions TO application;
    GRANT SELECT ON schema_versions TO application;
    GRANT EXECUTE ON FUNCTION create_log_partition(TEXT) TO application;
    CREATE FUNCTION attempt(who TEXT, statement TEXT) RETURNS TEXT LANGUAGE plpgsql AS $$
    BEGIN
        EXECUTE format('SET LOCAL ROLE %I', who);
        EXECUTE statement;
        RETURN 'done';
    EXCEPTION WHEN OTHERS THEN
        RETURN SQLSTATE;
    END $$";

#[tokio::test]
async fn the_log_cannot_be_updated_and_the_role_of_the_application_can_only_append_and_prune() {
    let Some(server) = PostgresServer::start().await else { return };
    append(&open(&server).await, S0, 0, vec![plan("p0-a", 5_000, "{}")]).await;
    server.execute(APPLICATION_ROLE).await;
    let url = server.url_with("secret").replace("//goalmill:", "//application:");
    let store = PostgresArchive::open(&url, "`URL`", PostgresLimits::default()).await.expect("the schema is there");
    // A month that has no partition yet.
    let mut part = plan("p0-b", 1_796_083_200_000, "{}");
    part.events.iter_mut().for_each(|event| event.time_ms = 1_796_083_200_000);
    append(&store, S0, 0, vec![part]).await;
    assert_eq!(store.log(&"p0-b".into(), 0, 9).await.expect("it reads").len(), 4);
    for (who, statement, expected) in [
        ("application", "UPDATE log_entries SET line = event_type", "42501"),
        ("application", "UPDATE log_entries_2026_12 SET line = event_type", "42501"),
        ("application", "TRUNCATE log_entries", "42501"),
        ("application", "DROP TABLE log_entries", "42501"),
        ("application", "UPDATE plans SET status = name", "42501"),
        ("application", "SELECT create_log_partition($m$2026-13$m$)", "22008"),
        ("goalmill", "UPDATE log_entries SET line = event_type", "42501"),
        ("goalmill", "UPDATE log_entries_2026_12 SET line = event_type", "42501"),
        ("application", "DELETE FROM log_entries WHERE plan_id = $p$p0-b$p$", "done"),
    ] {
        assert_eq!(server.query(&format!("SELECT attempt('{who}', '{statement}')")).await, expected, "{statement}");
    }
    let index = "SELECT count(*)::text FROM pg_indexes WHERE indexname = 'log_entries_by_type'";
    assert_eq!(server.query(index).await, "1");
}

#[tokio::test]
async fn equal_payloads_are_one_row_and_none_is_left_over() {
    let Some(server) = PostgresServer::start().await else { return };
    let store = open(&server).await;
    conformance::large_payloads_are_stored_once_and_go_with_their_last_plan(&store).await;
    assert_eq!(server.query("SELECT count(*)::text FROM blobs").await, "1");
}

/// Two connections that refer to one payload and delete it, in turns that meet at random.
#[tokio::test(flavor = "multi_thread")]
async fn a_payload_that_is_referred_to_is_never_deleted() {
    let Some(server) = PostgresServer::start().await else { return };
    let store = std::sync::Arc::new(open(&server).await);
    let blobs = || vec![goalmill_archive::BlobRow { key: "k:1".into(), content: "[1]".into() }];
    let write = async |shard: u16, n: u64| {
        let part = goalmill_archive::PlanPart { blobs: blobs(), ..plan(&format!("p{shard}-{n}"), 5_000 + n, "{}") };
        append(store.as_ref(), goalmill_common::id::ShardId(shard), 0, vec![part]).await;
    };
    let prune = async || {
        let selection = goalmill_archive::PlanSelection::default();
        store.prune(&selection, 1).await.expect("plans are pruned");
    };
    for n in 0..40 {
        tokio::join!(write(0, n), write(1, n), prune(), prune());
    }
    let dangling = "SELECT count(*)::text FROM plan_blobs AS p WHERE NOT EXISTS \
                    (SELECT 1 FROM blobs AS b WHERE b.digest = p.digest)";
    assert_eq!(server.query(dangling).await, "0");
    let unused = "SELECT count(*)::text FROM blobs AS b WHERE NOT EXISTS \
                  (SELECT 1 FROM plan_blobs AS p WHERE p.digest = b.digest)";
    assert_eq!(server.query(unused).await, "0");
}

#[tokio::test]
async fn a_schema_of_a_later_version_is_refused() {
    let Some(server) = PostgresServer::start().await else { return };
    drop(open(&server).await);
    server.execute("INSERT INTO schema_versions VALUES (99)").await;
    let refused =
        PostgresArchive::open(&server.url(), "of `URL`", PostgresLimits::default()).await.err().expect("it is refused");
    assert!(matches!(refused, ArchiveError::Schema(_)), "{refused:?}");
    assert!(refused.to_string().contains("version 99"), "{refused}");
}

#[tokio::test]
async fn a_server_that_is_away_takes_nothing_and_goes_on_where_it_was() {
    let Some(mut server) = PostgresServer::start().await else { return };
    server.kill9();
    let store = open(&server).await;
    let batch =
        goalmill_archive::ArchiveBatch { shard: S0, parts: vec![plan("p0-a", 5_000, "{}")], position_ms: 5_000 };
    let refused = store.append(&batch).await.expect_err("it is away");
    assert!(matches!(refused, ArchiveError::Unavailable(_)), "{refused:?}");
    server.restart().await;
    store.append(&batch).await.expect("it answers, and has its schema now");
    server.kill9();
    assert!(store.position(S0).await.is_err());
    server.restart().await;
    assert_eq!(store.log(&"p0-a".into(), 0, 9).await.unwrap().len(), events(1, 4, "{}").len());
}

#[tokio::test]
async fn no_error_holds_the_password() {
    let Some(server) = PostgresServer::start().await else { return };
    let store = PostgresArchive::open(&server.url_with("wrong-pass"), "`URL`", PostgresLimits::default())
        .await
        .expect("it may be right later");
    let refused = store.position(S0).await.expect_err("the password is wrong").to_string();
    assert!(refused.contains("password authentication failed") && !refused.contains("wrong-pass"), "{refused}");
    let refused = PostgresArchive::open("postgres://a:wrong-pass@[", "`URL`", PostgresLimits::default())
        .await
        .err()
        .expect("no address");
    assert!(refused.to_string().contains("`URL`") && !refused.to_string().contains("wrong-pass"), "{refused}");
}

/// Prints how many events a second are written, and how long searches take: `GOALMILL_ARCHIVE_EVENTS=1000000`.
#[tokio::test]
async fn events_a_second() {
    let Some(events_max) = environment("GOALMILL_ARCHIVE_EVENTS").and_then(|text| text.parse::<u64>().ok()) else {
        return;
    };
    let Some(server) = PostgresServer::start().await else { return };
    // Without it the searches run before the server's autovacuum, which looks once a minute.
    let settle = async || server.execute("VACUUM (ANALYZE) log_entries").await;
    conformance::measure(&open(&server).await, events_max, settle).await;
}
