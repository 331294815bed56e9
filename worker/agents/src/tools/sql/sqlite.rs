//! A SQLite file, read into memory: no lock, no journal and no other file is touched.

use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Error, ErrorCode, Row};
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::{QueryLimits, Rows};

/// The first bytes of every SQLite file.
const MAGIC: &[u8] = b"SQLite format 3\0";
/// Steps of the virtual machine between two checks of the time limit.
const STEPS: i32 = 10_000;
/// Bytes of one value.
const VALUE_BYTES_MAX: i32 = 1 << 20;
/// Pragmas with which a query may read the schema.
const PRAGMAS: [&str; 5] = ["table_info", "table_xinfo", "table_list", "index_list", "foreign_key_list"];

/// Runs one query over the bytes of a file.
pub(super) fn query(mut file: Vec<u8>, query: &str, limits: QueryLimits) -> Result<Value, String> {
    if file.len() < 100 || !file.starts_with(MAGIC) {
        return Err("the file is not a SQLite database".into());
    }
    // A file in WAL mode cannot be opened from memory; the bytes are the versions of the format for writing and
    // reading.
    file[18..20].fill(1);
    let connection = open(&file, limits).map_err(|error| format!("the database cannot be read: {error}"))?;
    let mut statement = connection.prepare(query).map_err(|error| describe(&error, limits))?;
    if !statement.readonly() {
        return Err("only queries that read are allowed".into());
    }
    let names: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let mut found = statement.query([]).map_err(|error| describe(&error, limits))?;
    let mut rows = Rows::new(limits);
    while let Some(row) = found.next().map_err(|error| describe(&error, limits))? {
        if !rows.push(to_object(row, &names)) {
            break;
        }
    }
    Ok(rows.into_result())
}

fn open(file: &[u8], limits: QueryLimits) -> rusqlite::Result<Connection> {
    let mut connection = Connection::open_in_memory()?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.pragma_update(None, "temp_store", "memory")?;
    connection.deserialize_read_exact("main", file, file.len(), true)?;
    connection.pragma_update(None, "query_only", true)?;
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, VALUE_BYTES_MAX)?;
    connection.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)?;
    let deadline = Instant::now() + Duration::from_millis(limits.timeout_ms);
    connection.progress_handler(STEPS, Some(move || Instant::now() > deadline))?;
    connection.authorizer(Some(|context: AuthContext<'_>| authorize(&context.action)))?;
    Ok(connection)
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the enum of the library is not exhaustive")]
fn authorize(action: &AuthAction<'_>) -> Authorization {
    let is_allowed = match action {
        AuthAction::Select | AuthAction::Read { .. } | AuthAction::Recursive => true,
        AuthAction::Function { function_name } => !function_name.eq_ignore_ascii_case("load_extension"),
        AuthAction::Pragma { pragma_name, .. } => PRAGMAS.iter().any(|name| name.eq_ignore_ascii_case(pragma_name)),
        _ => false,
    };
    if is_allowed { Authorization::Allow } else { Authorization::Deny }
}

fn to_object(row: &Row<'_>, names: &[String]) -> Value {
    let value = |at: usize| match row.get_ref(at) {
        Ok(ValueRef::Integer(number)) => json!(number),
        Ok(ValueRef::Real(number)) => json!(number),
        Ok(ValueRef::Text(text)) => json!(String::from_utf8_lossy(text)),
        Ok(ValueRef::Blob(bytes)) => json!({"blob_bytes": bytes.len()}),
        Ok(ValueRef::Null) | Err(_) => Value::Null,
    };
    Value::Object(names.iter().enumerate().map(|(at, name)| (name.clone(), value(at))).collect::<Map<_, _>>())
}

fn describe(error: &Error, limits: QueryLimits) -> String {
    match error.sqlite_error_code() {
        Some(ErrorCode::OperationInterrupted) => format!("the query took more than {} ms", limits.timeout_ms),
        Some(ErrorCode::AuthorizationForStatementDenied | ErrorCode::ReadOnly) => {
            "only queries that read this file are allowed".into()
        }
        _ if matches!(error, Error::MultipleStatement) => "give one query at a time".into(),
        _ => format!("the query failed: {error}"),
    }
}
