//! Tables: read from CSV (RFC 4180), compared cell by cell.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

/// Rows of text under named columns; an empty cell is an empty text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    pub columns: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new(columns: &[&str]) -> Self {
        Self { columns: columns.iter().map(|c| (*c).to_owned()).collect(), rows: Vec::new() }
    }

    /// Reads a table whose first line names the columns.
    pub fn read(text: &str) -> Result<Self> {
        let mut records = records(text)?.into_iter();
        let columns = records.next().context("the table has no line of column names")?;
        let rows: Vec<Vec<String>> = records.collect();
        for (n, row) in rows.iter().enumerate() {
            ensure!(row.len() == columns.len(), "row {} has {} cells for {} columns", n + 1, row.len(), columns.len());
        }
        Ok(Self { columns, rows })
    }

    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column == name)
    }

    /// The place of the row whose first column named `column` holds `value`.
    pub fn find(&self, column: &str, value: &str) -> Option<usize> {
        let at = self.column(column)?;
        self.rows.iter().position(|row| row[at] == value)
    }

    /// Appends a row from cells by column; those that are missing stay empty.
    pub fn append(&mut self, cells: &[(&str, &str)]) {
        let cell = |column: &String| cells.iter().find(|(name, _)| name == column).map_or("", |(_, value)| value);
        self.rows.push(self.columns.iter().map(|column| cell(column).to_owned()).collect());
    }

    /// What became of `before`: rows taken away, rows added, cells changed, by the first column that is an id.
    pub fn changes_since(&self, before: &Self) -> Value {
        let id = self.columns.iter().position(|column| column.ends_with("_id"));
        let Some(id) = id else {
            return json!({"added": self.rows[before.rows.len().min(self.rows.len())..].to_vec()});
        };
        let by_id = |table: &Self| -> BTreeMap<String, Vec<String>> {
            table.rows.iter().map(|r| (r[id].clone(), r.clone())).collect()
        };
        let (old, new) = (by_id(before), by_id(self));
        let removed: Vec<&String> = old.keys().filter(|key| !new.contains_key(*key)).collect();
        let added: Vec<&Vec<String>> =
            new.iter().filter(|(key, _)| !old.contains_key(*key)).map(|(_, row)| row).collect();
        let changed: Vec<&Vec<String>> =
            new.iter().filter(|(key, row)| old.get(*key).is_some_and(|was| was != *row)).map(|(_, row)| row).collect();
        json!({"removed": removed, "added": added, "changed": changed})
    }
}

/// Splits text into records; quotes may hold commas, line ends and doubled quotes.
fn records(text: &str) -> Result<Vec<Vec<String>>> {
    let (mut records, mut record, mut cell) = (Vec::new(), Vec::new(), String::new());
    let (mut quoted, mut line) = (false, 1);
    let mut chars = text.strip_prefix('\u{feff}').unwrap_or(text).chars().peekable();
    while let Some(c) = chars.next() {
        line += usize::from(c == '\n');
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                cell.push('"');
            }
            '"' if quoted => quoted = false,
            '"' if cell.is_empty() => quoted = true,
            ',' if !quoted => record.push(std::mem::take(&mut cell)),
            '\r' if !quoted && chars.peek() == Some(&'\n') => {}
            '\n' if !quoted => {
                if !(record.is_empty() && cell.is_empty()) {
                    record.push(std::mem::take(&mut cell));
                    records.push(std::mem::take(&mut record));
                }
            }
            c => cell.push(c),
        }
    }
    if quoted {
        bail!("a quote is never closed, seen at line {line}");
    }
    if !(record.is_empty() && cell.is_empty()) {
        record.push(cell);
        records.push(record);
    }
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_cells_may_hold_commas_quotes_and_line_ends() {
        let table = Table::read("note_id,text\r\n1,\"a, \"\"b\"\"\nc\"\n2,\n").unwrap();
        assert_eq!(table.rows, [["1", "a, \"b\"\nc"], ["2", ""]]);
    }

    #[test]
    fn ragged_rows_and_open_quotes_are_refused() {
        assert!(Table::read("a,b\n1\n").unwrap_err().to_string().contains("row 1"));
        assert!(Table::read("a\n\"1\n").is_err());
    }

    #[test]
    fn changes_name_what_was_added_removed_and_changed() {
        let before = Table::read("note_id,text\n1,a\n2,b\n3,c\n").unwrap();
        let mut after = before.clone();
        after.rows.remove(0);
        after.rows[0][1] = "z".into();
        after.append(&[("note_id", "4")]);
        let expected = json!({"removed": ["1"], "added": [["4", ""]], "changed": [["2", "z"]]});
        assert_eq!(after.changes_since(&before), expected);
    }
}
