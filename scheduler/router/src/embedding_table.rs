//! Static embedding model: one vector per subword, loaded from a file.
//!
//! The file is a `safetensors` file with one matrix (`F32`, `F16`, `BF16` or `I8`; one row per subword), and optionally
//! `weights` (a factor per subword) and `mapping` (the row of each subword), as model2vec writes them. The vocabulary is
//! a `tokenizer.json` beside it. One model is built in.

use std::borrow::Cow;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use goalmill_common::number::{to_usize, whole_u64};
use serde_json::Value;

use crate::subword_tokenizer::SubwordTokenizer;
use crate::vectors::UNIT;

/// The built-in model: general English.
const GENERAL: (&[u8], &[u8]) = (
    include_bytes!("../../../config/embeddings/general/model.safetensors"),
    include_bytes!("../../../config/embeddings/general/tokenizer.json"),
);
/// Limit of a file, in bytes.
const BYTES_MAX: u64 = 1 << 30;
/// Limit of the columns of a matrix.
const COLUMNS_MAX: usize = 4_096;

/// Why a static model cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum EmbeddingTableError {
    #[error("`{}` cannot be read: {source}", path.display())]
    Unreadable { path: PathBuf, source: std::io::Error },
    #[error("`{}` is not a static model: {why}", path.display())]
    Malformed { path: PathBuf, why: String },
    #[error("there is no `tokenizer.json` beside `{}`; put it there, or set `router.local_tokenizer`", path.display())]
    NoVocabulary { path: PathBuf },
}

/// Vectors by subword, as 8-bit integers with one scale per row: a quarter of the memory without a measurable loss.
#[derive(Debug)]
pub struct EmbeddingTable {
    tokens: SubwordTokenizer,
    columns: usize,
    /// Signed 8-bit integers; borrowed from the binary for the built-in model.
    cells: Cow<'static, [u8]>,
    scales: Vec<f32>,
    /// Whether the rows include a weight per subword.
    weighted: bool,
}

impl EmbeddingTable {
    /// The built-in model, loaded once per process.
    pub fn general() -> Arc<Self> {
        static TABLE: LazyLock<Arc<EmbeddingTable>> = LazyLock::new(|| {
            let tokens = SubwordTokenizer::parse(GENERAL.1).expect("a test parses the built-in vocabulary");
            Arc::new(EmbeddingTable::parse(Cow::Borrowed(GENERAL.0), tokens).expect("a test parses the built-in table"))
        });
        TABLE.clone()
    }

    /// Loads a model from a `safetensors` file, or from a directory that contains `model.safetensors`.
    pub fn open(path: &Path, tokenizer: Option<&Path>) -> Result<Self, EmbeddingTableError> {
        let path = if path.is_dir() { path.join("model.safetensors") } else { path.to_owned() };
        let vocabulary = match tokenizer {
            Some(named) => named.to_owned(),
            None => find_tokenizer(&path).ok_or_else(|| EmbeddingTableError::NoVocabulary { path: path.clone() })?,
        };
        let tokens = SubwordTokenizer::parse(&read_file(&vocabulary)?)
            .map_err(|why| EmbeddingTableError::Malformed { path: vocabulary.clone(), why })?;
        Self::parse(Cow::Owned(read_file(&path)?), tokens).map_err(|why| EmbeddingTableError::Malformed { path, why })
    }

    /// Dimensions of a vector.
    pub(super) fn columns(&self) -> usize {
        self.columns
    }

    pub(super) fn parse(file: Cow<'static, [u8]>, tokens: SubwordTokenizer) -> Result<Self, String> {
        let (header, body) = split_header(&file)?;
        let matrix = find_matrix(&header)?;
        let (kind, shape) = tensor_type_and_shape(&header[matrix.as_str()])?;
        let [rows, columns] = shape[..] else { return Err(format!("`{matrix}` is not a matrix")) };
        if rows == 0 || columns == 0 || columns > COLUMNS_MAX {
            return Err(format!("`{matrix}` is {rows} × {columns}; it needs 1 to {COLUMNS_MAX} columns"));
        }
        let weights = header.get("weights").map(|_| read_tensor(&header, body, "weights")).transpose()?;
        let mapping = header.get("mapping").map(|_| read_tensor(&header, body, "mapping")).transpose()?;
        let subwords = mapping.as_ref().map_or(rows, Vec::len);
        if tokens.rows() > subwords {
            return Err(format!("the vocabulary has {} subwords, but the table {subwords}", tokens.rows()));
        }
        let weighted = header.get("__metadata__").is_some_and(|metadata| metadata["weighted"] == "true");
        let weight = |subword: usize| weights.as_ref().and_then(|w| w.get(subword)).copied().unwrap_or(1.0);
        if let ("I8", None) = (kind, &mapping) {
            let scales = (0..subwords).map(weight).collect();
            let place = tensor_range(&header, body.len(), &matrix, 1)?;
            let cells = match &file {
                Cow::Borrowed(file) => Cow::Borrowed(&file[file.len() - body.len()..][place]),
                Cow::Owned(_) => Cow::Owned(body[place].to_vec()),
            };
            return Ok(Self { tokens, columns, cells, scales, weighted });
        }
        let numbers = read_tensor(&header, body, &matrix)?;
        let (mut cells, mut scales) = (Vec::with_capacity(subwords * columns), Vec::with_capacity(subwords));
        for subword in 0..subwords {
            let row =
                mapping.as_ref().map_or(subword, |mapping| to_usize(whole_u64(mapping[subword].into()))).min(rows - 1);
            let row = &numbers[row * columns..(row + 1) * columns];
            let largest = row.iter().fold(0.0_f32, |largest, cell| largest.max(cell.abs()));
            let scale = if largest > 0.0 && largest.is_finite() { largest / 127.0 } else { 1.0 };
            cells.extend(row.iter().map(|cell| to_cell(cell / scale)));
            scales.push(scale * weight(subword));
        }
        Ok(Self { tokens, columns, cells: Cow::Owned(cells), scales, weighted })
    }

    /// The subwords of a text.
    pub(super) fn tokenize(&self, text: &str) -> Vec<u32> {
        self.tokens.tokenize(text)
    }

    pub(super) fn subword_count(&self) -> usize {
        self.scales.len()
    }

    /// Whether the rows include a weight per subword (`weighted: "true"` in `__metadata__`). Frequency in the registry
    /// is then not used.
    pub(super) fn is_weighted(&self) -> bool {
        self.weighted
    }

    /// The cosine of a subword's vector and a quantized unit vector.
    pub(super) fn cosine(&self, vector: &[i16], subword: u32) -> f32 {
        let at = subword as usize * self.columns;
        let Some(row) = self.cells.get(at..at + self.columns) else { return 0.0 };
        let (mut product, mut square) = (0_i32, 0_i32);
        for (cell, vector) in row.iter().zip(vector) {
            let cell = i32::from(cell.cast_signed());
            product += cell * i32::from(*vector);
            square += cell * cell;
        }
        if square > 0 { product as f32 / UNIT / (square as f32).sqrt() } else { 0.0 }
    }

    /// Adds the vector of a subword, times `weight`.
    pub(super) fn add_vector(&self, sum: &mut [f32], subword: u32, weight: f32) {
        let at = subword as usize;
        let Some(scale) = self.scales.get(at) else { return };
        let row = &self.cells[at * self.columns..(at + 1) * self.columns];
        for (sum, cell) in sum.iter_mut().zip(row) {
            *sum += f32::from(cell.cast_signed()) * scale * weight;
        }
    }
}

fn read_file(path: &Path) -> Result<Vec<u8>, EmbeddingTableError> {
    let unreadable = |source| EmbeddingTableError::Unreadable { path: path.to_owned(), source };
    let length = std::fs::metadata(path).map_err(unreadable)?.len();
    if length > BYTES_MAX {
        let why = format!("it has {length} bytes, more than {BYTES_MAX}");
        return Err(EmbeddingTableError::Malformed { path: path.to_owned(), why });
    }
    std::fs::read(path).map_err(unreadable)
}

/// Finds the vocabulary of a model: `tokenizer.json` in its directory, or the first JSON file with `tokenizer` in its
/// name there or in the sibling directory `tokenizers`.
fn find_tokenizer(path: &Path) -> Option<PathBuf> {
    let folder = path.parent()?;
    let plain = folder.join("tokenizer.json");
    if plain.is_file() {
        return Some(plain);
    }
    let named = |folder: &Path| {
        let mut found: Vec<PathBuf> = std::fs::read_dir(folder)
            .ok()?
            .filter_map(|entry| entry.ok().map(|entry| entry.path()))
            .filter(|path| {
                let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
                name.contains("tokenizer") && path.extension().is_some_and(|ending| ending == "json")
            })
            .collect();
        found.sort();
        found.into_iter().next()
    };
    named(folder).or_else(|| named(&folder.parent()?.join("tokenizers")))
}

/// Splits a `safetensors` file into header and body.
fn split_header(file: &[u8]) -> Result<(serde_json::Map<String, Value>, &[u8]), String> {
    let (length, rest) = file.split_first_chunk::<8>().ok_or("it is shorter than a header")?;
    let length = usize::try_from(u64::from_le_bytes(*length)).unwrap_or(usize::MAX);
    let header = rest.get(..length).ok_or("its header is longer than the file")?;
    let header = serde_json::from_slice(header).map_err(|error| format!("its header is not a JSON object: {error}"))?;
    Ok((header, &rest[length..]))
}

/// The name of the largest tensor with two dimensions.
fn find_matrix(header: &serde_json::Map<String, Value>) -> Result<String, String> {
    let cells = |entry: &Value| {
        tensor_type_and_shape(entry).ok().filter(|(_, shape)| shape.len() == 2).map(|(_, s)| s[0].saturating_mul(s[1]))
    };
    let found = header.iter().filter_map(|(name, entry)| cells(entry).map(|cells| (cells, name))).max();
    found.map(|(_, name)| name.clone()).ok_or_else(|| "it contains no matrix".to_owned())
}

fn tensor_type_and_shape(entry: &Value) -> Result<(&str, Vec<usize>), String> {
    let kind = entry["dtype"].as_str().ok_or("a tensor has no `dtype`")?;
    let side = |side: &Value| side.as_u64().and_then(|side| usize::try_from(side).ok());
    let shape = entry["shape"].as_array().and_then(|sides| sides.iter().map(side).collect::<Option<Vec<_>>>());
    Ok((kind, shape.ok_or("a tensor has no `shape`")?))
}

/// The byte range of a tensor in the body. `width` is the size of one number in bytes.
fn tensor_range(
    header: &serde_json::Map<String, Value>,
    body: usize,
    name: &str,
    width: usize,
) -> Result<Range<usize>, String> {
    let (_, shape) = tensor_type_and_shape(&header[name])?;
    let ends = &header[name]["data_offsets"];
    let end = |at: usize| ends[at].as_u64().and_then(|end| usize::try_from(end).ok());
    let cells =
        end(0).zip(end(1)).map(|(from, to)| from..to).filter(|cells| cells.start <= cells.end && cells.end <= body);
    let cells = cells.ok_or_else(|| format!("`{name}` lies outside of the file"))?;
    let expected = shape.iter().try_fold(width, |product, side| product.checked_mul(*side));
    if expected != Some(cells.len()) {
        return Err(format!("`{name}` has {} bytes, which does not match its shape", cells.len()));
    }
    Ok(cells)
}

/// The byte of a cell whose largest neighbour is 127.
#[expect(clippy::cast_possible_truncation, reason = "the scale keeps it between -127 and 127")]
fn to_cell(scaled: f32) -> u8 {
    (scaled.round() as i8).cast_unsigned()
}

/// The numbers of a tensor.
#[expect(clippy::cast_possible_truncation, reason = "cells are made coarser than this anyway")]
fn read_tensor(header: &serde_json::Map<String, Value>, body: &[u8], name: &str) -> Result<Vec<f32>, String> {
    let (kind, _) = tensor_type_and_shape(&header[name])?;
    let (width, read): (usize, fn(&[u8]) -> f32) = match kind {
        "F64" => (8, |b| f64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]]) as f32),
        "I64" => (8, |b| i64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]]) as f32),
        "F32" => (4, |b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])),
        "I32" => (4, |b| i32::from_le_bytes([b[0], b[1], b[2], b[3]]) as f32),
        "F16" => (2, |b| f16_to_f32(u16::from_le_bytes([b[0], b[1]]))),
        "BF16" => (2, |b| f32::from_bits(u32::from(u16::from_le_bytes([b[0], b[1]])) << 16)),
        "I8" => (1, |b| f32::from(b[0].cast_signed())),
        other => return Err(format!("`{name}` has the type `{other}`; use `F32`, `F16`, `BF16` or `I8`")),
    };
    Ok(body[tensor_range(header, body.len(), name, width)?].chunks_exact(width).map(read).collect())
}

/// Converts an IEEE 754 binary16 number.
fn f16_to_f32(bits: u16) -> f32 {
    let sign = if bits & 0x8000 == 0 { 1.0 } else { -1.0 };
    let exponent = i32::from((bits >> 10) & 0x1f);
    let fraction = f32::from(bits & 0x3ff) / 1024.0;
    sign * match exponent {
        0 => fraction * 2.0_f32.powi(-14),
        31 if fraction == 0.0 => f32::INFINITY,
        31 => f32::NAN,
        _ => (1.0 + fraction) * 2.0_f32.powi(exponent - 15),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::*;

    /// Four words in three columns: `hotel` and `inn` are similar.
    pub(in super::super) fn tiny() -> EmbeddingTable {
        let rows: [[f32; 3]; 5] = [[0.0; 3], [1.0, 0.1, 0.0], [0.9, 0.2, 0.1], [0.1, 1.0, 0.0], [0.0, 0.1, 1.0]];
        EmbeddingTable::parse(file(&rows, &json!({})).into(), vocabulary()).expect("the model is well formed")
    }

    fn vocabulary() -> SubwordTokenizer {
        let vocab = json!({"[UNK]": 0, "hotel": 1, "inn": 2, "flight": 3, "car": 4});
        let file = json!({"normalizer": {"type": "BertNormalizer", "lowercase": true},
            "model": {"type": "WordPiece", "vocab": vocab, "continuing_subword_prefix": "##"}});
        SubwordTokenizer::parse(file.to_string().as_bytes()).expect("the vocabulary is well formed")
    }

    fn file(rows: &[[f32; 3]], more: &Value) -> Vec<u8> {
        let body: Vec<u8> = rows.iter().flatten().flat_map(|cell| cell.to_le_bytes()).collect();
        let mut header =
            json!({"embeddings": {"dtype": "F32", "shape": [rows.len(), 3], "data_offsets": [0, body.len()]}});
        for (key, value) in more.as_object().into_iter().flatten() {
            header[key] = value.clone();
        }
        let header = header.to_string();
        let mut file = (header.len() as u64).to_le_bytes().to_vec();
        file.extend(header.as_bytes());
        file.extend(body);
        file
    }

    #[test]
    fn vectors_keep_the_precision_of_a_byte() {
        let table = tiny();
        let mut sum = vec![0.0; table.columns()];
        table.add_vector(&mut sum, table.tokenize("Inn")[0], 2.0);
        for (cell, expected) in sum.iter().zip([1.8, 0.4, 0.2]) {
            assert!((cell - expected).abs() < 0.02, "{sum:?}");
        }
    }

    #[test]
    fn the_built_in_model_knows_synonyms() {
        let table = EmbeddingTable::general();
        assert!(table.is_weighted() && !tiny().is_weighted());
        let cosine = |a: &str, b: &str| {
            let [a, b] = [a, b].map(|word| super::super::static_embedder::mean_vector(&table, table.tokenize(word)));
            a.iter().zip(&b).map(|(a, b)| a * b).sum::<f32>()
        };
        assert!(cosine("hotel", "lodging") > cosine("hotel", "invoice") + 0.2);
        assert!(cosine("tickets", "flight") > cosine("tickets", "soup"));
        assert!(table.tokenize("酒店").is_empty(), "it has no Chinese subwords");
    }

    #[test]
    fn integer_matrices_are_not_converted() {
        let header = json!({
            "__metadata__": {"weighted": "true"},
            "embeddings": {"dtype": "I8", "shape": [5, 1], "data_offsets": [0, 5]},
            "weights": {"dtype": "F32", "shape": [5], "data_offsets": [5, 25]},
        })
        .to_string();
        let mut file = (header.len() as u64).to_le_bytes().to_vec();
        file.extend(header.as_bytes());
        file.extend([0, 100, 156, 3, 4]);
        file.extend([1.0_f32, 0.5, 2.0, 1.0, 1.0].iter().flat_map(|weight| weight.to_le_bytes()));
        let table = EmbeddingTable::parse(file.into(), vocabulary()).expect("the model is well formed");
        let mut sum = [0.0];
        table.add_vector(&mut sum, 1, 1.0);
        table.add_vector(&mut sum, 2, 0.25);
        assert_eq!((sum, table.is_weighted()), ([0.0], true), "100 × 0.5 − 100 × 2 × 0.25");
    }

    #[test]
    fn a_damaged_file_is_refused_with_the_reason() {
        let rows = [[1.0; 3]; 5];
        let good = file(&rows, &json!({}));
        for (bytes, reason) in [
            (vec![1, 2], "shorter than a header"),
            (good[..40].to_vec(), "longer than the file"),
            (good[..good.len() - 4].to_vec(), "outside of the file"),
            (file(&rows[..2], &json!({})), "but the table"),
            (file(&rows, &json!({"embeddings": {"dtype": "F32", "shape": [5, 7], "data_offsets": [0, 60]}})), "shape"),
            (file(&rows, &json!({"embeddings": {"dtype": "Q4", "shape": [5, 3], "data_offsets": [0, 60]}})), "`Q4`"),
            (file(&rows, &json!({"embeddings": 1})), "no matrix"),
        ] {
            let refused = EmbeddingTable::parse(bytes.into(), vocabulary()).expect_err("the file is damaged");
            assert!(refused.contains(reason), "`{refused}` does not say `{reason}`");
        }
    }

    #[test]
    fn half_precision_is_converted() {
        for (bits, value) in [(0x3c00, 1.0), (0xc000, -2.0), (0x3555, 0.333_251_95), (0x0001, 5.960_464_5e-8), (0, 0.0)]
        {
            assert!((f16_to_f32(bits) - value).abs() < 1e-9, "{bits:#x} is {}", f16_to_f32(bits));
        }
        assert!(f16_to_f32(0x7c00).is_infinite() && f16_to_f32(0x7e00).is_nan());
    }

    #[test]
    fn a_missing_file_is_named() {
        let refused =
            EmbeddingTable::open(Path::new("no-such-folder/model.safetensors"), None).expect_err("nothing is there");
        assert!(refused.to_string().contains("no-such-folder"), "{refused}");
    }
}
