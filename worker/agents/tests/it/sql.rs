//! Tool `sql` with SQLite files of the plan.

use rusqlite::Connection;
use serde_json::{Value, json};

use crate::world::{World, answers, calls, results, task};

/// The result of a query over a small shop in the file `shop.db`.
async fn query(fields: Value, path: &str, query: &str) -> Value {
    let mut entry = json!({"name": "sql"});
    entry.as_object_mut().expect("it is an object").extend(fields.as_object().cloned().unwrap_or_default());
    let replies = [calls([("sql", json!({"path": path, "query": query}))]), answers(json!({"result": "done"}))];
    let world = World::new(json!({"tools": [entry]}), replies).await;
    let file = world.file("shop.db");
    std::fs::create_dir_all(file.parent().expect("it has a parent")).expect("a directory can be made");
    make_shop(&file);
    make_shop(&world.dir.path().join("outside.db"));
    std::os::unix::fs::symlink(world.dir.path().join("outside.db"), world.file("link.db")).expect("a link can be made");
    std::fs::write(world.file("text.db"), "no database".repeat(20)).expect("a file can be written");
    let before = std::fs::read(&file).expect("it is there");
    world.run(&task(json!({}))).await.outputs();
    assert_eq!(std::fs::read(&file).expect("it is there"), before, "the file is the same");
    results(&world.seen()).remove(0)
}

fn make_shop(path: &std::path::Path) {
    let connection = Connection::open(path).expect("it can be made");
    let made = connection.execute_batch(
        "PRAGMA journal_mode = wal; CREATE TABLE sales (item TEXT, amount REAL, n INTEGER, picture BLOB); \
         INSERT INTO sales VALUES ('tea', 2.5, 1, x'0102'), ('tin', NULL, 2, NULL), ('tea', 1.5, 3, NULL); \
         PRAGMA wal_checkpoint(truncate)",
    );
    made.expect("the statements are right");
}

#[tokio::test]
async fn rows_are_objects() {
    let all = query(json!({}), "shop.db", "SELECT * FROM sales ORDER BY n LIMIT 2;").await;
    let rows = json!([
        {"item": "tea", "amount": 2.5, "n": 1, "picture": {"blob_bytes": 2}},
        {"item": "tin", "amount": null, "n": 2, "picture": null},
    ]);
    assert_eq!(all["data"], json!({"rows": rows}));
    let sums = "WITH s AS (SELECT item, sum(amount) AS total FROM sales GROUP BY item) SELECT * FROM s ORDER BY item";
    let sums = query(json!({}), "shop.db", sums).await;
    assert_eq!(sums["data"]["rows"], json!([{"item": "tea", "total": 4.0}, {"item": "tin", "total": null}]));
    let schema = query(json!({}), "shop.db", "SELECT name FROM pragma_table_info('sales')").await;
    assert_eq!(schema["data"]["rows"].as_array().map(Vec::len), Some(4), "{schema}");
}

#[tokio::test]
async fn nothing_but_reading_the_file_is_allowed() {
    for text in [
        "DELETE FROM sales",
        "INSERT INTO sales (item) VALUES ('x') RETURNING item",
        "CREATE TABLE t (n)",
        "ATTACH DATABASE '/tmp/other.db' AS other",
        "VACUUM INTO '/tmp/copy.db'",
        "PRAGMA journal_mode = delete",
        "PRAGMA query_only = 0",
        "SELECT load_extension('x')",
        "SELECT 1; DELETE FROM sales",
        "BEGIN",
        "",
    ] {
        let result = query(json!({}), "shop.db", text).await;
        assert_eq!(result["ok"], false, "{text}: {result}");
    }
    for path in ["link.db", "../outside.db", "/etc/passwd", "none.db", "text.db", "."] {
        let result = query(json!({}), path, "SELECT * FROM sales").await;
        assert_eq!(result["ok"], false, "{path}: {result}");
    }
}

#[tokio::test]
async fn rows_bytes_and_time_are_bounded() {
    let endless = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT";
    let many = query(json!({"rows_max": 5}), "shop.db", &format!("{endless} n FROM c")).await;
    assert_eq!((many["data"]["rows"].as_array().map(Vec::len), &many["data"]["has_more"]), (Some(5), &json!(true)));
    let wide = query(json!({"bytes_max": 400}), "shop.db", &format!("{endless} printf('%099d', n) AS x FROM c")).await;
    assert_eq!(wide["data"]["rows"].as_array().map(Vec::len), Some(3), "{wide}");
    let slow = query(json!({"timeout_ms": 200}), "shop.db", &format!("{endless} count(*) FROM c")).await;
    assert!(slow["error"].as_str().is_some_and(|error| error.contains("200 ms")), "{slow}");
    let huge = query(json!({}), "shop.db", "SELECT zeroblob(900000000)").await;
    assert_eq!(huge["ok"], false, "{huge}");
    let large = query(json!({"file_bytes_max": 1_000}), "shop.db", "SELECT 1").await;
    assert!(large["error"].as_str().is_some_and(|error| error.contains("1000 bytes")), "{large}");
}
