//! Agents that work on numbers and rows.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{Worked, as_number, permanent, text};

/// Maximum number of rows.
const ROWS_MAX: usize = 100_000;

/// Describes a table: `csv` (text with a header) or `rows` (a list of objects); else the inputs, as a single row.
pub(super) fn summarise(inputs: &Value, _: u32) -> Worked {
    let rows = rows(inputs).unwrap_or_else(|| {
        let fields = inputs.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
        vec![Value::Object(fields.map(|(name, value)| (name.clone(), value.clone())).collect())]
    });
    let mut columns: BTreeMap<String, Vec<&Value>> = BTreeMap::new();
    for (name, value) in rows.iter().filter_map(Value::as_object).flatten() {
        columns.entry(name.clone()).or_default().push(value);
    }
    let described: Map<String, Value> = columns.iter().map(|(name, values)| (name.clone(), describe(values))).collect();
    let summary = format!("{} rows, {} columns", rows.len(), described.len());
    Ok(json!({"rows": rows.len(), "columns": described, "summary": summary}))
}

/// Statistics of every number in the inputs, or in their `csv`.
pub(super) fn analyse(inputs: &Value, _: u32) -> Worked {
    if inputs.is_null() {
        return Err(permanent("INPUT_INVALID", "there is nothing to analyse"));
    }
    let mut numbers = Vec::new();
    match text(inputs, &["csv"]) {
        Some(csv) => {
            let cells = read_csv(csv);
            numbers.extend(cells.iter().filter_map(Value::as_object).flat_map(Map::values).filter_map(as_number));
        }
        None => collect(inputs, &mut numbers),
    }
    let statistics = statistics(&numbers);
    let summary = match numbers.len() {
        0 => "no numbers in the inputs".to_owned(),
        n => format!("{n} numbers, mean {}", statistics["mean"]),
    };
    Ok(json!({"statistics": statistics, "summary": summary}))
}

fn rows(inputs: &Value) -> Option<Vec<Value>> {
    match text(inputs, &["csv"]) {
        Some(csv) => Some(read_csv(csv)),
        None => inputs["rows"].as_array().map(|rows| rows.iter().take(ROWS_MAX).cloned().collect()),
    }
}

fn collect(value: &Value, numbers: &mut Vec<f64>) {
    match value {
        Value::Number(n) => numbers.extend(n.as_f64().filter(|n| n.is_finite())),
        Value::Array(items) => items.iter().for_each(|item| collect(item, numbers)),
        Value::Object(fields) => fields.values().for_each(|item| collect(item, numbers)),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

fn describe(values: &[&Value]) -> Value {
    let numbers: Vec<f64> = values.iter().filter_map(|value| as_number(value)).filter(|n| n.is_finite()).collect();
    if !numbers.is_empty() && numbers.len() == values.len() {
        return statistics(&numbers);
    }
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for value in values {
        *counts.entry(value.as_str().map_or_else(|| value.to_string(), str::to_owned)).or_default() += 1;
    }
    let most = counts.iter().max_by(|a, b| a.1.cmp(b.1).then(b.0.cmp(a.0)));
    json!({"count": values.len(), "distinct": counts.len(), "most_frequent": most.map(|(value, _)| value)})
}

fn statistics(numbers: &[f64]) -> Value {
    if numbers.is_empty() {
        return json!({"count": 0});
    }
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    let sum: f64 = sorted.iter().sum();
    let mean = sum / n as f64;
    let variance = sorted.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n as f64;
    let median = f64::midpoint(sorted[(n - 1) / 2], sorted[n / 2]);
    json!({
        "count": n, "sum": round(sum), "mean": round(mean), "median": round(median), "min": sorted[0],
        "max": sorted[n - 1], "standard_deviation": round(variance.sqrt()),
    })
}

/// Rounds to four decimal places.
fn round(x: f64) -> f64 {
    (x * 10_000.0).round() / 10_000.0
}

/// Reads lines of fields separated by commas; a field in double quotes may hold commas, and quotes doubled.
fn read_csv(csv: &str) -> Vec<Value> {
    let mut lines = csv.lines().filter(|line| !line.trim().is_empty()).map(fields);
    let Some(header) = lines.next() else { return Vec::new() };
    let row = |fields: Vec<String>| -> Value {
        header
            .iter()
            .cloned()
            .zip(fields)
            .map(|(name, value)| (name, Value::String(value)))
            .collect::<Map<_, _>>()
            .into()
    };
    lines.take(ROWS_MAX).map(row).collect()
}

fn fields(line: &str) -> Vec<String> {
    let (mut fields, mut field, mut quoted) = (Vec::new(), String::new(), false);
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                field.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(std::mem::take(&mut field).trim().to_owned()),
            c => field.push(c),
        }
    }
    fields.push(field.trim().to_owned());
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_described_column_by_column() {
        let csv = "city,price\nParis,10\n\"Lyon, east\",20\nParis,30\n";
        let described = summarise(&json!({"csv": csv}), 1).expect("it is a table");
        assert_eq!(described["rows"], 3);
        assert_eq!(described["columns"]["price"]["mean"], 20.0);
        assert_eq!(described["columns"]["city"], json!({"count": 3, "distinct": 2, "most_frequent": "Paris"}));
        let rows = summarise(&json!({"rows": [{"x": 1}, {"x": 4}]}), 1).expect("it is a table");
        assert_eq!(rows["columns"]["x"]["median"], 2.5);
    }

    #[test]
    fn numbers_are_found_anywhere() {
        let found = analyse(&json!({"a": [1, {"b": 2}], "c": "3"}), 1).expect("there are numbers");
        assert_eq!(found["statistics"]["sum"], 3.0);
        let table = analyse(&json!({"csv": "name,n\na,4\nb,5", "rows": null}), 1).expect("there are numbers");
        assert_eq!((&table["statistics"]["count"], &table["statistics"]["max"]), (&json!(2), &json!(5.0)));
    }
}
