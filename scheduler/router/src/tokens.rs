//! Cuts text into the pieces that a static model has vectors for, as its `tokenizer.json` says.
//!
//! Reads the format of Hugging Face's `tokenizers`: the models `BPE` (by characters with byte fallback, or by bytes),
//! `WordPiece` and `Unigram`. Text is cut at white space first, which gives the same pieces as long as none of them
//! reaches over a space; of the normalizers, lower case and the mark for a word's beginning are followed.
//! Sources: R. Sennrich, B. Haddow, A. Birch, "Neural Machine Translation of Rare Words with Subword Units", ACL 2016;
//! M. Schuster, K. Nakajima, "Japanese and Korean Voice Search", ICASSP 2012; T. Kudo, "Subword Regularization",
//! ACL 2018.

use goalmill_common::hash::HashMap;
use serde_json::Value;

use crate::words::stands_alone;

/// Characters of one word that are looked at; a longer one is no word.
const WORD_CHARS_MAX: usize = 100;
/// What `tokenizers` puts for a space.
const SPACE: char = '\u{2581}';

/// For each pair of pieces that may be joined: how early it was learned, and what it becomes.
type Joins = HashMap<(u32, u32), (u32, u32)>;

/// Knows the pieces by name.
#[derive(Debug)]
pub(super) struct Tokens {
    model: Model,
    pieces: HashMap<String, u32>,
    lowercase: bool,
}

#[derive(Debug)]
enum Model {
    Bpe {
        ranks: Joins,
        bytes: bool,
    },
    /// The pieces that go on inside a word, without what marks them.
    WordPiece {
        inner: HashMap<String, u32>,
    },
    /// The logarithm of each piece's probability.
    Unigram {
        scores: Vec<f32>,
    },
}

impl Tokens {
    /// Reads a `tokenizer.json`; what is wrong with it is told in words.
    pub(super) fn read(text: &[u8]) -> Result<Self, String> {
        let file: Value = serde_json::from_slice(text).map_err(|error| format!("it is no JSON: {error}"))?;
        let model = &file["model"];
        let lowercase = says(&file["normalizer"], "lowercase", &Value::Bool(true))
            || says(&file["normalizer"], "type", &Value::from("Lowercase"));
        let kind = match model["type"].as_str() {
            Some(kind) => kind,
            None if model.get("merges").is_some() => "BPE",
            None => "WordPiece",
        };
        let pieces = match kind {
            "BPE" | "WordPiece" => by_name(&model["vocab"])?,
            "Unigram" => by_place(&model["vocab"])?,
            other => return Err(format!("`model.type` is `{other}`; use `BPE`, `WordPiece` or `Unigram`")),
        };
        let model = match kind {
            "BPE" => {
                let bytes = says(&file["pre_tokenizer"], "type", &Value::from("ByteLevel"));
                Model::Bpe { ranks: ranks(&model["merges"], &pieces)?, bytes }
            }
            "Unigram" => Model::Unigram { scores: scores(&model["vocab"])? },
            _ => {
                let mark = model["continuing_subword_prefix"].as_str().unwrap_or("##");
                let inside = |(name, id): (&String, &u32)| Some((name.strip_prefix(mark)?.to_owned(), *id));
                Model::WordPiece { inner: pieces.iter().filter_map(inside).collect() }
            }
        };
        Ok(Self { model, pieces, lowercase })
    }

    /// How many rows the table must have.
    pub(super) fn rows(&self) -> usize {
        self.pieces.values().max().map_or(0, |last| *last as usize + 1)
    }

    /// The pieces of a text, in order; what the vocabulary does not know is left out.
    pub(super) fn cut(&self, text: &str) -> Vec<u32> {
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
                Model::Bpe { ranks, bytes } => self.join(part, ranks, *bytes, &mut found),
                Model::WordPiece { inner } => {
                    for word in atoms(part) {
                        self.longest(word, inner, &mut found);
                    }
                }
                Model::Unigram { scores } => self.likeliest(part, scores, &mut found),
            }
        }
        found
    }

    /// Joins the neighbours that may be joined, the earliest learned first.
    fn join(&self, word: &str, ranks: &Joins, bytes: bool, found: &mut Vec<u32>) {
        let marked: String = if bytes {
            std::iter::once(b' ').chain(word.bytes()).map(letter_of).collect()
        } else {
            std::iter::once(SPACE).chain(word.chars()).collect()
        };
        let mut ids: Vec<u32> = Vec::new();
        for c in marked.chars().take(WORD_CHARS_MAX) {
            let mut buffer = [0; 4];
            let name: &str = c.encode_utf8(&mut buffer);
            match self.pieces.get(name) {
                Some(id) => ids.push(*id),
                None => ids.extend(name.bytes().filter_map(|byte| self.pieces.get(&format!("<0x{byte:02X}>")))),
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

    /// Takes the longest piece that fits, from left to right.
    fn longest(&self, word: &str, inner: &HashMap<String, u32>, found: &mut Vec<u32>) {
        let before = found.len();
        let mut rest = word;
        while !rest.is_empty() {
            let pieces = if rest.len() == word.len() { &self.pieces } else { inner };
            let most = rest.char_indices().nth(WORD_CHARS_MAX).map_or(rest.len(), |(at, _)| at);
            let mut ends = rest[..most].char_indices().rev().map(|(at, c)| at + c.len_utf8());
            let Some((id, end)) = ends.find_map(|end| Some((*pieces.get(&rest[..end])?, end))) else {
                found.truncate(before);
                return;
            };
            found.push(id);
            rest = &rest[end..];
        }
    }

    /// The likeliest way to cut a word (Viterbi).
    fn likeliest(&self, word: &str, scores: &[f32], found: &mut Vec<u32>) {
        const UNKNOWN: f32 = -20.0;
        let marked: Vec<char> = std::iter::once(SPACE).chain(word.chars()).take(WORD_CHARS_MAX).collect();
        // Best score up to each place, where its last piece begins, and which piece that is.
        let mut best: Vec<(f32, usize, Option<u32>)> = vec![(f32::NEG_INFINITY, 0, None); marked.len() + 1];
        best[0].0 = 0.0;
        for from in 0..marked.len() {
            let mut name = String::new();
            for to in from + 1..=marked.len().min(from + 24) {
                name.push(marked[to - 1]);
                let piece = self.pieces.get(&name).copied();
                let score = match piece {
                    Some(id) => scores.get(id as usize).copied().unwrap_or(UNKNOWN),
                    None if to == from + 1 => UNKNOWN,
                    None => continue,
                };
                if best[from].0 + score > best[to].0 {
                    best[to] = (best[from].0 + score, from, piece);
                }
            }
        }
        let mut ids = Vec::new();
        let mut at = marked.len();
        while at > 0 {
            let (_, from, piece) = best[at];
            ids.extend(piece);
            at = from;
        }
        found.extend(ids.into_iter().rev());
    }
}

/// The runs of letters, and each other sign by itself, as BERT cuts them.
fn atoms(part: &str) -> impl Iterator<Item = &str> {
    let joins = |c: char| c.is_alphanumeric() && !stands_alone(c);
    let mut rest = part;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let run = rest.find(|c| !joins(c)).unwrap_or(rest.len());
        let (atom, behind) = rest.split_at(run.max(first.len_utf8()));
        rest = behind;
        Some(atom)
    })
}

/// Whether `value`, or anything inside it, says `key: expected`.
fn says(value: &Value, key: &str, expected: &Value) -> bool {
    match value {
        Value::Object(map) => map.get(key) == Some(expected) || map.values().any(|inner| says(inner, key, expected)),
        Value::Array(items) => items.iter().any(|inner| says(inner, key, expected)),
        _ => false,
    }
}

fn by_name(vocab: &Value) -> Result<HashMap<String, u32>, String> {
    let map = vocab.as_object().ok_or("`model.vocab` must map pieces to numbers")?;
    let piece = |(name, id): (&String, &Value)| {
        let id = id.as_u64().and_then(|id| u32::try_from(id).ok());
        id.map(|id| (name.clone(), id)).ok_or_else(|| format!("`model.vocab` has no number for `{name}`"))
    };
    map.iter().map(piece).collect()
}

fn by_place(vocab: &Value) -> Result<HashMap<String, u32>, String> {
    let list = vocab.as_array().ok_or("`model.vocab` must list pieces with their scores")?;
    let name = |(at, entry): (u32, &Value)| {
        entry[0].as_str().map(|name| (name.to_owned(), at)).ok_or_else(|| format!("`model.vocab[{at}]` has no piece"))
    };
    (0..).zip(list).map(name).collect()
}

fn scores(vocab: &Value) -> Result<Vec<f32>, String> {
    let list = vocab.as_array().ok_or("`model.vocab` must list pieces with their scores")?;
    let score = |(at, entry): (usize, &Value)| {
        entry[1].as_f64().map(|score| score as f32).ok_or_else(|| format!("`model.vocab[{at}]` has no score"))
    };
    list.iter().enumerate().map(score).collect()
}

fn ranks(merges: &Value, pieces: &HashMap<String, u32>) -> Result<Joins, String> {
    let list = merges.as_array().ok_or("`model.merges` must list pairs of pieces")?;
    let mut ranks = HashMap::with_capacity_and_hasher(list.len(), Default::default());
    for (rank, merge) in (0..).zip(list) {
        let pair = match merge {
            Value::String(both) => both.split_once(' '),
            other => other[0].as_str().zip(other[1].as_str()),
        };
        let (left, right) = pair.ok_or_else(|| format!("`model.merges[{rank}]` is no pair of pieces"))?;
        let ids = (pieces.get(left), pieces.get(right), pieces.get(&format!("{left}{right}")));
        if let (Some(left), Some(right), Some(joined)) = ids {
            ranks.entry((*left, *right)).or_insert((rank, *joined));
        }
    }
    Ok(ranks)
}

/// The letter that stands for a byte in vocabularies of bytes: itself where it can be printed, else one from 256 on.
fn letter_of(byte: u8) -> char {
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

    fn read(file: &Value) -> Tokens {
        Tokens::read(file.to_string().as_bytes()).expect("the vocabulary is well formed")
    }

    #[test]
    fn pairs_are_joined_in_the_order_they_were_learned() {
        let vocab =
            json!({"▁": 0, "l": 1, "o": 2, "w": 3, "lo": 4, "▁lo": 5, "ow": 6, "▁low": 7, "<0xC3>": 8, "<0xA9>": 9});
        let tokens =
            read(&json!({"model": {"type": "BPE", "vocab": vocab, "merges": ["l o", "▁ lo", ["▁lo", "w"], "o w"]}}));
        assert_eq!(tokens.cut("low lo"), [7, 5]);
        assert_eq!(tokens.cut("wé"), [0, 3, 8, 9], "a letter without a piece is cut into its bytes");
        assert_eq!(tokens.rows(), 10);
    }

    #[test]
    fn the_longest_piece_comes_first_in_word_pieces() {
        let vocab = json!({"play": 0, "##ing": 1, "##in": 2, "p": 3, "!": 4});
        let tokens = read(&json!({"normalizer": {"lowercase": true}, "model": {"type": "WordPiece", "vocab": vocab}}));
        assert_eq!(tokens.cut("Playing! zzz"), [0, 1, 4]);
    }

    #[test]
    fn the_likeliest_pieces_win_in_unigram_models() {
        let vocab = json!([["<unk>", 0.0], ["▁book", -1.0], ["ing", -2.0], ["▁b", -3.0], ["ooking", -3.5]]);
        let tokens = read(&json!({"model": {"type": "Unigram", "vocab": vocab}}));
        assert_eq!(tokens.cut("booking"), [1, 2]);
    }

    #[test]
    fn what_is_no_vocabulary_is_refused_with_the_place() {
        for (file, reason) in [
            (json!({"model": {"type": "Magic", "vocab": {}}}), "`Magic`"),
            (json!({"model": {"type": "BPE", "vocab": {"a": 1}}}), "model.merges"),
            (json!({"model": {"type": "WordPiece", "vocab": {"a": -1}}}), "`a`"),
            (json!({"model": {"type": "Unigram", "vocab": [["a"]]}}), "model.vocab[0]"),
            (json!([]), "model.vocab"),
        ] {
            let refused = Tokens::read(file.to_string().as_bytes()).expect_err("it is no vocabulary");
            assert!(refused.contains(reason), "`{refused}` does not say `{reason}`");
        }
        assert!(Tokens::read(b"{").is_err());
    }

    #[test]
    fn bytes_have_the_letters_that_vocabularies_of_bytes_give_them() {
        assert_eq!((letter_of(b'a'), letter_of(b' '), letter_of(0), letter_of(173)), ('a', 'Ġ', 'Ā', 'Ń'));
    }
}
