//! Subword tokenizer, configured by a `tokenizer.json`.
//!
//! Supports these models of Hugging Face's `tokenizers`: `BPE` (by characters with byte fallback, or by bytes),
//! `WordPiece` and `Unigram`. Text is split at white space first, which is equivalent as long as no subword contains a
//! space. Of the normalizers, lower case and the word-start mark are applied.
//! Sources: R. Sennrich, B. Haddow, A. Birch, "Neural Machine Translation of Rare Words with Subword Units", ACL 2016;
//! M. Schuster, K. Nakajima, "Japanese and Korean Voice Search", ICASSP 2012; T. Kudo, "Subword Regularization",
//! ACL 2018.

use goalmill_common::hash::HashMap;
use serde_json::Value;

use crate::text_analysis::is_unspaced_script;

/// Characters of a word that are tokenized.
const WORD_CHARS_MAX: usize = 100;
/// The character that `tokenizers` uses for a space.
const SPACE: char = '\u{2581}';

/// For each pair of subwords that may be merged: its rank and the merged subword.
type Merges = HashMap<(u32, u32), (u32, u32)>;

/// A tokenizer with its vocabulary.
#[derive(Debug)]
pub(super) struct SubwordTokenizer {
    model: Model,
    subwords: HashMap<String, u32>,
    lowercase: bool,
}

#[derive(Debug)]
enum Model {
    Bpe {
        ranks: Merges,
        bytes: bool,
    },
    /// Subwords that continue a word, without their prefix.
    WordPiece {
        inner: HashMap<String, u32>,
    },
    /// Log probability of each subword.
    Unigram {
        scores: Vec<f32>,
    },
}

impl SubwordTokenizer {
    /// Parses a `tokenizer.json`; the error is a message.
    pub(super) fn parse(text: &[u8]) -> Result<Self, String> {
        let file: Value = serde_json::from_slice(text).map_err(|error| format!("it is not JSON: {error}"))?;
        let model = &file["model"];
        let lowercase = contains_entry(&file["normalizer"], "lowercase", &Value::Bool(true))
            || contains_entry(&file["normalizer"], "type", &Value::from("Lowercase"));
        let kind = match model["type"].as_str() {
            Some(kind) => kind,
            None if model.get("merges").is_some() => "BPE",
            None => "WordPiece",
        };
        let subwords = match kind {
            "BPE" | "WordPiece" => vocabulary_from_map(&model["vocab"])?,
            "Unigram" => vocabulary_from_list(&model["vocab"])?,
            other => return Err(format!("`model.type` is `{other}`; use `BPE`, `WordPiece` or `Unigram`")),
        };
        let model = match kind {
            "BPE" => {
                let bytes = contains_entry(&file["pre_tokenizer"], "type", &Value::from("ByteLevel"));
                Model::Bpe { ranks: parse_merges(&model["merges"], &subwords)?, bytes }
            }
            "Unigram" => Model::Unigram { scores: parse_scores(&model["vocab"])? },
            _ => {
                let mark = model["continuing_subword_prefix"].as_str().unwrap_or("##");
                let inside = |(name, id): (&String, &u32)| Some((name.strip_prefix(mark)?.to_owned(), *id));
                Model::WordPiece { inner: subwords.iter().filter_map(inside).collect() }
            }
        };
        Ok(Self { model, subwords, lowercase })
    }

    /// Rows that the embedding table must have.
    pub(super) fn rows(&self) -> usize {
        self.subwords.values().max().map_or(0, |last| *last as usize + 1)
    }

    /// The subwords of a text, in order; unknown parts are skipped.
    pub(super) fn tokenize(&self, text: &str) -> Vec<u32> {
        let lower;
        let text = if self.lowercase {
            lower = text.to_lowercase();
            &lower
        } else {
            text
        };
        let mut found = Vec::new();
        for part in text.split_whitespace() {
            match &self.model {
                Model::Bpe { ranks, bytes } => self.merge_pairs(part, ranks, *bytes, &mut found),
                Model::WordPiece { inner } => {
                    for word in split_punctuation(part) {
                        self.match_longest(word, inner, &mut found);
                    }
                }
                Model::Unigram { scores } => self.most_likely(part, scores, &mut found),
            }
        }
        found
    }

    /// Merges adjacent pairs by rank (BPE).
    fn merge_pairs(&self, word: &str, ranks: &Merges, bytes: bool, found: &mut Vec<u32>) {
        let marked: String = if bytes {
            std::iter::once(b' ').chain(word.bytes()).map(byte_character).collect()
        } else {
            std::iter::once(SPACE).chain(word.chars()).collect()
        };
        let mut ids: Vec<u32> = Vec::new();
        for c in marked.chars().take(WORD_CHARS_MAX) {
            let mut buffer = [0; 4];
            let name: &str = c.encode_utf8(&mut buffer);
            match self.subwords.get(name) {
                Some(id) => ids.push(*id),
                None => ids.extend(name.bytes().filter_map(|byte| self.subwords.get(&format!("<0x{byte:02X}>")))),
            }
        }
        loop {
            let best = ids
                .windows(2)
                .enumerate()
                .filter_map(|(at, pair)| ranks.get(&(pair[0], pair[1])).map(|(rank, id)| (*rank, at, *id)))
                .min();
            let Some((_, at, id)) = best else { break };
            ids[at] = id;
            ids.remove(at + 1);
        }
        found.extend(ids);
    }

    /// Matches the longest subword from left to right (WordPiece).
    fn match_longest(&self, word: &str, inner: &HashMap<String, u32>, found: &mut Vec<u32>) {
        let before = found.len();
        let mut rest = word;
        while !rest.is_empty() {
            let subwords = if rest.len() == word.len() { &self.subwords } else { inner };
            let most = rest.char_indices().nth(WORD_CHARS_MAX).map_or(rest.len(), |(at, _)| at);
            let mut ends = rest[..most].char_indices().rev().map(|(at, c)| at + c.len_utf8());
            let Some((id, end)) = ends.find_map(|end| Some((*subwords.get(&rest[..end])?, end))) else {
                found.truncate(before);
                return;
            };
            found.push(id);
            rest = &rest[end..];
        }
    }

    /// The most likely segmentation (Unigram, Viterbi).
    fn most_likely(&self, word: &str, scores: &[f32], found: &mut Vec<u32>) {
        const UNKNOWN: f32 = -20.0;
        let marked: Vec<char> = std::iter::once(SPACE).chain(word.chars()).take(WORD_CHARS_MAX).collect();
        // For each position: the best score, and the start and id of the last subword.
        let mut best: Vec<(f32, usize, Option<u32>)> = vec![(f32::NEG_INFINITY, 0, None); marked.len() + 1];
        best[0].0 = 0.0;
        for from in 0..marked.len() {
            let mut name = String::new();
            for to in from + 1..=marked.len().min(from + 24) {
                name.push(marked[to - 1]);
                let subword = self.subwords.get(&name).copied();
                let score = match subword {
                    Some(id) => scores.get(id as usize).copied().unwrap_or(UNKNOWN),
                    None if to == from + 1 => UNKNOWN,
                    None => continue,
                };
                if best[from].0 + score > best[to].0 {
                    best[to] = (best[from].0 + score, from, subword);
                }
            }
        }
        let mut ids = Vec::new();
        let mut at = marked.len();
        while at > 0 {
            let (_, from, subword) = best[at];
            ids.extend(subword);
            at = from;
        }
        found.extend(ids.into_iter().rev());
    }
}

/// Runs of letters, and every other character by itself, as BERT splits them.
fn split_punctuation(part: &str) -> impl Iterator<Item = &str> {
    let joins = |c: char| c.is_alphanumeric() && !is_unspaced_script(c);
    let mut rest = part;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let run = rest.find(|c| !joins(c)).unwrap_or(rest.len());
        let (atom, behind) = rest.split_at(run.max(first.len_utf8()));
        rest = behind;
        Some(atom)
    })
}

/// Whether `value` contains `key: expected` at any depth.
fn contains_entry(value: &Value, key: &str, expected: &Value) -> bool {
    match value {
        Value::Object(map) => {
            map.get(key) == Some(expected) || map.values().any(|inner| contains_entry(inner, key, expected))
        }
        Value::Array(items) => items.iter().any(|inner| contains_entry(inner, key, expected)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

fn vocabulary_from_map(vocab: &Value) -> Result<HashMap<String, u32>, String> {
    let map = vocab.as_object().ok_or("`model.vocab` must map subwords to numbers")?;
    let subword = |(name, id): (&String, &Value)| {
        let id = id.as_u64().and_then(|id| u32::try_from(id).ok());
        id.map(|id| (name.clone(), id)).ok_or_else(|| format!("`model.vocab` has no number for `{name}`"))
    };
    map.iter().map(subword).collect()
}

fn vocabulary_from_list(vocab: &Value) -> Result<HashMap<String, u32>, String> {
    let list = vocab.as_array().ok_or("`model.vocab` must list subwords with their scores")?;
    let name = |(at, entry): (u32, &Value)| {
        entry[0].as_str().map(|name| (name.to_owned(), at)).ok_or_else(|| format!("`model.vocab[{at}]` has no subword"))
    };
    (0..).zip(list).map(name).collect()
}

fn parse_scores(vocab: &Value) -> Result<Vec<f32>, String> {
    let list = vocab.as_array().ok_or("`model.vocab` must list subwords with their scores")?;
    #[expect(clippy::cast_possible_truncation, reason = "scores are compared, and far apart")]
    let score = |(at, entry): (usize, &Value)| {
        entry[1].as_f64().map(|score| score as f32).ok_or_else(|| format!("`model.vocab[{at}]` has no score"))
    };
    list.iter().enumerate().map(score).collect()
}

fn parse_merges(merges: &Value, subwords: &HashMap<String, u32>) -> Result<Merges, String> {
    let list = merges.as_array().ok_or("`model.merges` must list pairs of subwords")?;
    let mut ranks = HashMap::with_capacity_and_hasher(list.len(), Default::default());
    for (rank, merge) in (0..).zip(list) {
        let pair = match merge.as_str() {
            Some(both) => both.split_once(' '),
            None => merge[0].as_str().zip(merge[1].as_str()),
        };
        let (left, right) = pair.ok_or_else(|| format!("`model.merges[{rank}]` is not a pair of subwords"))?;
        let ids = (subwords.get(left), subwords.get(right), subwords.get(&format!("{left}{right}")));
        if let (Some(left), Some(right), Some(joined)) = ids {
            ranks.entry((*left, *right)).or_insert((rank, *joined));
        }
    }
    Ok(ranks)
}

/// The character of a byte in byte-level vocabularies: itself if printable, otherwise one from U+0100 on.
fn byte_character(byte: u8) -> char {
    let printable = |byte: u8| matches!(byte, 33..=126 | 161..=172 | 174..=255);
    if printable(byte) {
        return char::from(byte);
    }
    let before = (0..byte).filter(|other| !printable(*other)).count();
    u32::try_from(before).ok().and_then(|before| char::from_u32(256 + before)).unwrap_or(SPACE)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tokenizer(file: &Value) -> SubwordTokenizer {
        SubwordTokenizer::parse(file.to_string().as_bytes()).expect("the vocabulary is well formed")
    }

    #[test]
    fn pairs_are_merged_by_rank() {
        let vocab =
            json!({"▁": 0, "l": 1, "o": 2, "w": 3, "lo": 4, "▁lo": 5, "ow": 6, "▁low": 7, "<0xC3>": 8, "<0xA9>": 9});
        let tokens = tokenizer(
            &json!({"model": {"type": "BPE", "vocab": vocab, "merges": ["l o", "▁ lo", ["▁lo", "w"], "o w"]}}),
        );
        assert_eq!(tokens.tokenize("low lo"), [7, 5]);
        assert_eq!(tokens.tokenize("wé"), [0, 3, 8, 9], "an unknown character becomes bytes");
        assert_eq!(tokens.rows(), 10);
    }

    #[test]
    fn word_piece_prefers_the_longest_subword() {
        let vocab = json!({"play": 0, "##ing": 1, "##in": 2, "p": 3, "!": 4});
        let tokens =
            tokenizer(&json!({"normalizer": {"lowercase": true}, "model": {"type": "WordPiece", "vocab": vocab}}));
        assert_eq!(tokens.tokenize("Playing! zzz"), [0, 1, 4]);
    }

    #[test]
    fn unigram_prefers_the_most_likely_segmentation() {
        let vocab = json!([["<unk>", 0.0], ["▁book", -1.0], ["ing", -2.0], ["▁b", -3.0], ["ooking", -3.5]]);
        let tokens = tokenizer(&json!({"model": {"type": "Unigram", "vocab": vocab}}));
        assert_eq!(tokens.tokenize("booking"), [1, 2]);
    }

    #[test]
    fn an_invalid_vocabulary_is_refused_with_its_location() {
        for (file, reason) in [
            (json!({"model": {"type": "Magic", "vocab": {}}}), "`Magic`"),
            (json!({"model": {"type": "BPE", "vocab": {"a": 1}}}), "model.merges"),
            (json!({"model": {"type": "WordPiece", "vocab": {"a": -1}}}), "`a`"),
            (json!({"model": {"type": "Unigram", "vocab": [["a"]]}}), "model.vocab[0]"),
            (json!([]), "model.vocab"),
        ] {
            let refused = SubwordTokenizer::parse(file.to_string().as_bytes()).expect_err("it is no vocabulary");
            assert!(refused.contains(reason), "`{refused}` does not say `{reason}`");
        }
        assert!(SubwordTokenizer::parse(b"{").is_err());
    }

    #[test]
    fn bytes_map_to_the_characters_of_byte_level_vocabularies() {
        assert_eq!(
            (byte_character(b'a'), byte_character(b' '), byte_character(0), byte_character(173)),
            ('a', 'Ġ', 'Ā', 'Ń')
        );
    }
}
