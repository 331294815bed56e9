//! Reads the rows of a data set, and writes what was predicted for each.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, ErrorKind, Write};
use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Every row of a JSON Lines file; none, and a word on standard error, when the file is not there: who scores other rows
/// may have some of the sets only.
pub fn read<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>> {
    let file = match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            writeln!(std::io::stderr(), "`{}` is not there: left out", path.display())?;
            return Ok(Vec::new());
        }
        opened => opened.with_context(|| format!("`{}` cannot be opened", path.display()))?,
    };
    let mut rows = Vec::new();
    for (n, line) in BufReader::new(file).lines().enumerate() {
        let line = line.with_context(|| format!("{}:{} cannot be read", path.display(), n + 1))?;
        if !line.trim().is_empty() {
            rows.push(
                serde_json::from_str(&line).with_context(|| format!("{}:{} is not a row", path.display(), n + 1))?,
            );
        }
    }
    Ok(rows)
}

/// A whole JSON file.
pub fn whole<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let text = std::fs::read(path).with_context(|| format!("`{}` cannot be opened", path.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("`{}` is not what it should be", path.display()))
}

/// The file of predictions; none when none was asked for.
pub struct Out {
    file: Option<BufWriter<File>>,
    /// Predictions so far, written or not.
    pub rows: usize,
}

impl Out {
    pub fn create(path: Option<&Path>) -> Result<Self> {
        let file = path
            .map(|p| File::create(p).with_context(|| format!("`{}` cannot be written", p.display())))
            .transpose()?;
        Ok(Self { file: file.map(BufWriter::new), rows: 0 })
    }

    pub fn row(&mut self, row: &impl Serialize) -> Result<()> {
        self.rows += 1;
        if let Some(file) = &mut self.file {
            serde_json::to_writer(&mut *file, row)?;
            file.write_all(b"\n")?;
        }
        Ok(())
    }

    pub fn finish(&mut self) -> Result<()> {
        if let Some(file) = &mut self.file {
            file.flush()?;
        }
        Ok(())
    }
}

/// Prints the figures as one line.
pub fn say(figures: &Value) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{figures}")?;
    Ok(())
}
