//! Aligned columns without borders, as wide as their text.

use console::{Alignment, measure_text_width, pad_str};

use super::{Palette, Tone, sanitize};

/// Rows of cells under a head.
#[derive(Debug, Default)]
pub struct Table {
    head: Vec<&'static str>,
    rows: Vec<Vec<String>>,
    /// Columns of numbers.
    right: Vec<usize>,
}

impl Table {
    pub fn new(head: &[&'static str]) -> Self {
        Self { head: head.to_vec(), ..Self::default() }
    }

    /// Aligns these columns, counted from 0, to the right.
    #[must_use]
    pub fn right(mut self, columns: &[usize]) -> Self {
        self.right = columns.to_vec();
        self
    }

    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        // Before its width is measured.
        self.rows.push(cells.into_iter().map(|cell| sanitize(&cell).into_owned()).collect());
    }

    /// The table as text, or `empty` when it has no rows.
    pub fn render(&self, palette: Palette, empty: &str) -> String {
        if self.rows.is_empty() {
            return format!("{empty}\n");
        }
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            let head = self.head.get(column).map_or(0, |text| measure_text_width(text));
            cells.map(|cell| measure_text_width(cell)).max().unwrap_or(0).max(head)
        };
        let widths: Vec<usize> = (0..self.head.len()).map(width).collect();
        let mut out = String::new();
        if self.head.iter().any(|text| !text.is_empty()) {
            let head: Vec<String> = self.head.iter().map(|text| (*text).to_owned()).collect();
            out.push_str(&palette.tone(Tone::Dim, self.line(&head, &widths)));
            out.push('\n');
        }
        for row in &self.rows {
            out.push_str(&self.line(row, &widths));
            out.push('\n');
        }
        out
    }

    fn line(&self, cells: &[String], widths: &[usize]) -> String {
        let padded = cells.iter().enumerate().map(|(column, cell)| {
            let side = if self.right.contains(&column) { Alignment::Right } else { Alignment::Left };
            pad_str(cell, widths.get(column).copied().unwrap_or(0), side, None).into_owned()
        });
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_colours_take_no_room() {
        let mut table = Table::new(&["NAME", "N"]).right(&[1]);
        table.row(["a".into(), "1".into()]);
        table.row([Palette::new(true).tone(Tone::Good, "long name"), "200".into()]);
        let text = console::strip_ansi_codes(&table.render(Palette::plain(), "none")).into_owned();
        assert_eq!(text, "NAME         N\na            1\nlong name  200\n");
    }

    #[test]
    fn hidden_characters_of_a_cell_are_shown_and_take_their_room() {
        let mut table = Table::new(&["NAME", "N"]);
        table.row(["pay\u{202e}load".into(), "1".into()]);
        table.row(["plain".into(), "2".into()]);
        let text = table.render(Palette::plain(), "none");
        assert_eq!(text, "NAME           N\npay\\u202eload  1\nplain          2\n");
    }

    #[test]
    fn an_empty_table_says_what_to_do() {
        assert_eq!(Table::new(&["NAME"]).render(Palette::plain(), "no plans yet"), "no plans yet\n");
    }
}
