//! Queries in PostgreSQL: a cursor in a read-only transaction, one connection per query.

use std::time::Duration;

use goalmill_common::config::environment;
use serde_json::Value;
use tokio_postgres::{Client, Config, Error};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::{QueryLimits, Rows};

/// A database of the settings.
pub(super) struct PostgresDatabase {
    config: Config,
    tls: MakeRustlsConnect,
}

impl PostgresDatabase {
    /// - `name`: variable of the environment with the address; neither it nor its parts appear in an error.
    pub fn from_environment(name: &str) -> Result<Self, String> {
        let url = environment(name).ok_or_else(|| format!("`postgres_url_env`: the variable `{name}` is not set"))?;
        let expected = "an address such as postgres://user:password@host/database";
        Self::new(&url).ok_or_else(|| format!("`postgres_url_env`: the variable `{name}` must hold {expected}"))
    }

    fn new(url: &str) -> Option<Self> {
        let mut config: Config = url.parse().ok()?;
        config.application_name("goalmill");
        Some(Self { config, tls: goalmill_postgres::tls_connector() })
    }

    pub async fn query(&self, query: &str, limits: QueryLimits) -> Result<Value, String> {
        let limit = Duration::from_millis(limits.timeout_ms);
        let done = tokio::time::timeout(limit, self.connect_and_query(query, limits)).await;
        done.unwrap_or_else(|_| Err(format!("the query took more than {} ms", limits.timeout_ms)))
    }

    async fn connect_and_query(&self, query: &str, limits: QueryLimits) -> Result<Value, String> {
        let (client, connection) = self.config.connect(self.tls.clone()).await.map_err(|error| {
            tracing::warn!("the database of the tool `sql` cannot be reached: {error}");
            "the database cannot be reached".to_owned()
        })?;
        tokio::select! {
            result = run_query(&client, query, limits) => result.map_err(|error| describe(&error)),
            _ = connection => Err("the connection to the database broke".into()),
        }
    }
}

/// The server limits rows, their lengths and the time.
async fn run_query(client: &Client, query: &str, limits: QueryLimits) -> Result<Value, Error> {
    let QueryLimits { timeout_ms, rows_max, bytes_max } = limits;
    client.batch_execute(&format!("BEGIN READ ONLY; SET LOCAL statement_timeout = {timeout_ms}")).await?;
    // Prepared, so that the text is one statement; a cursor accepts only a query.
    let cursor = format!(
        "DECLARE goalmill_rows NO SCROLL CURSOR FOR \
         SELECT left(row_to_json(goalmill_row)::text, {bytes_max}) FROM (\n{query}\n) AS goalmill_row"
    );
    client.execute(&cursor, &[]).await?;
    let mut rows = Rows::new(limits);
    for row in client.query(&format!("FETCH {} FROM goalmill_rows", rows_max + 1), &[]).await? {
        let text: Option<&str> = row.try_get(0)?;
        let text = text.unwrap_or_default();
        if !rows.push(serde_json::from_str(text).unwrap_or_else(|_| text.into())) {
            break;
        }
    }
    Ok(rows.into_result())
}

fn describe(error: &Error) -> String {
    match error.as_db_error() {
        Some(error) => format!("the query failed: {}", error.message()),
        None => "the connection to the database broke".into(),
    }
}

#[cfg(test)]
mod tests {
    use goalmill_postgres::test_server::PostgresServer;
    use serde_json::json;

    use super::*;

    const LIMITS: QueryLimits = QueryLimits { timeout_ms: 60_000, rows_max: 3, bytes_max: 1_000 };

    #[tokio::test]
    async fn only_queries_that_read_are_run() {
        let Some(server) = PostgresServer::start().await else { return };
        server
            .execute("CREATE TABLE t (n int, s text); INSERT INTO t VALUES (1, 'a'), (2, NULL), (3, 'c'), (4, 'd')")
            .await;
        let database = PostgresDatabase::new(&server.url()).expect("it is an address");
        let rows = database.query("SELECT n, s FROM t WHERE n < 3 ORDER BY n -- all", LIMITS).await;
        assert_eq!(rows, Ok(json!({"rows": [{"n": 1, "s": "a"}, {"n": 2, "s": null}]})));
        let more = database.query("SELECT n FROM t ORDER BY n", LIMITS).await.expect("it reads");
        assert_eq!((more["rows"].as_array().map(Vec::len), &more["has_more"]), (Some(3), &json!(true)));
        let long = database.query("SELECT repeat('x', 100000000) AS x", LIMITS).await.expect("it reads");
        assert!(long.to_string().len() < 2_000, "the server cuts long rows");
        for query in [
            "DELETE FROM t",
            "WITH gone AS (DELETE FROM t RETURNING n) SELECT * FROM gone",
            "SELECT 1) AS x; DELETE FROM t; SELECT (1",
            "SELECT 1 FROM t FOR UPDATE",
            "SELECT nextval('q'), set_config('transaction_read_only', 'off', true)",
            "COMMIT",
            "COPY t TO PROGRAM 'touch /tmp/x'",
            "SELECT * INTO u FROM t",
        ] {
            let refused = database.query(query, LIMITS).await;
            assert!(refused.as_ref().is_err_and(|reason| reason.contains("the query failed")), "{query}: {refused:?}");
        }
        let slow = QueryLimits { timeout_ms: 300, ..LIMITS };
        assert!(database.query("SELECT pg_sleep(60)", slow).await.is_err());
        // Old versions allow this statement in a read-only transaction; it is rolled back.
        drop(database.query("SELECT lo_from_bytea(0, 'x')", LIMITS).await);
        let objects = database.query("SELECT count(*) AS n FROM pg_largeobject_metadata", LIMITS).await;
        assert_eq!(objects, Ok(json!({"rows": [{"n": 0}]})));
        let left = database.query("SELECT count(*) AS n FROM t", LIMITS).await;
        assert_eq!(left, Ok(json!({"rows": [{"n": 4}]})));
    }

    #[tokio::test]
    async fn an_address_is_not_shown() {
        assert!(PostgresDatabase::new("secret").is_none());
        let database = PostgresDatabase::new("postgres://u:secret@127.0.0.1:1/d").expect("it is an address");
        assert_eq!(database.query("SELECT 1", LIMITS).await, Err("the database cannot be reached".into()));
    }
}
