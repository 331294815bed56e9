//! Cuts the bytes of an answer into messages, whatever the server chose to send: server-sent events, lines of JSON, or
//! one JSON body. Bytes may be cut anywhere, also within a character.

use goalmill_common::sse::{ServerEvent, SseParser};

/// Bytes of one message that are held until it is complete.
const MESSAGE_BYTES_MAX: usize = 4 << 20;

/// A message is longer than [`MESSAGE_BYTES_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a message of the answer has more than {MESSAGE_BYTES_MAX} bytes")]
pub struct MessageTooLong;

/// How an answer is cut into messages.
#[derive(Debug)]
enum Framing {
    /// Nothing but white space so far.
    Unknown,
    Events(SseParser),
    Lines,
    Whole,
}

/// Collects bytes until they make whole messages. A message that is no server-sent event has no name.
#[derive(Debug)]
pub struct Frames {
    framing: Framing,
    /// JSON at the beginning means lines of it, not one body.
    json_lines: bool,
    /// Bytes of a message that is not complete, except for server-sent events.
    buffer: Vec<u8>,
}

impl Frames {
    /// - `json_lines`: an answer that begins with JSON is a message a line.
    pub fn new(json_lines: bool) -> Self {
        Self { framing: Framing::Unknown, json_lines, buffer: Vec::new() }
    }

    /// Takes the next bytes and adds the messages that they complete, also when it then fails.
    pub fn feed(&mut self, bytes: &[u8], frames: &mut Vec<ServerEvent>) -> Result<(), MessageTooLong> {
        self.buffer.extend_from_slice(bytes);
        if matches!(self.framing, Framing::Unknown) {
            self.recognise();
        }
        match &mut self.framing {
            Framing::Unknown | Framing::Whole => {}
            Framing::Events(parser) => {
                parser.push(&self.buffer, frames);
                self.buffer.clear();
            }
            Framing::Lines => {
                if let Some(end) = bytes.iter().rposition(|byte| *byte == b'\n') {
                    let rest = bytes.len() - end - 1;
                    let lines: Vec<u8> = self.buffer.drain(..self.buffer.len() - rest).collect();
                    frames.extend(lines.split(|byte| matches!(byte, b'\n' | b'\r')).filter_map(message));
                }
            }
        }
        let pending =
            if let Framing::Events(parser) = &self.framing { parser.pending_bytes() } else { self.buffer.len() };
        if pending <= MESSAGE_BYTES_MAX { Ok(()) } else { Err(MessageTooLong) }
    }

    /// Whether the answer is one JSON body, which is complete when it can be read.
    pub fn is_one_body(&self) -> bool {
        matches!(self.framing, Framing::Whole)
    }

    /// Returns what stands at the end without a line end behind it.
    pub fn end(self) -> Option<ServerEvent> {
        match self.framing {
            Framing::Unknown => None,
            Framing::Whole | Framing::Lines => message(&self.buffer),
            Framing::Events(parser) => parser.finish(),
        }
    }

    fn recognise(&mut self) {
        let text = self.buffer.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&self.buffer);
        if b"\xef\xbb\xbf".starts_with(text) {
            return;
        }
        let Some(first) = text.iter().find(|byte| !byte.is_ascii_whitespace()) else { return };
        self.framing = match first {
            b'{' | b'[' if self.json_lines => Framing::Lines,
            b'{' | b'[' => Framing::Whole,
            _ => Framing::Events(SseParser::default()),
        };
        if !matches!(self.framing, Framing::Events(_)) {
            self.buffer = text.to_vec();
        }
    }
}

fn message(data: &[u8]) -> Option<ServerEvent> {
    let is_blank = data.trim_ascii().is_empty();
    (!is_blank).then(|| ServerEvent { event: String::new(), data: String::from_utf8_lossy(data).into_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(bytes: &[u8], cut: usize, json_lines: bool) -> Vec<(String, String)> {
        let mut frames = Frames::new(json_lines);
        let mut got = Vec::new();
        for piece in bytes.chunks(cut.max(1)) {
            frames.feed(piece, &mut got).expect("the lines are short");
        }
        got.extend(frames.end());
        got.into_iter().map(|f| (f.event, f.data)).collect()
    }

    #[test]
    fn a_body_of_json_is_one_message_and_lines_are_many() {
        let text = "\n {\"a\":\n1}\n";
        for cut in 1..=text.len() {
            assert_eq!(all(text.as_bytes(), cut, false), [(String::new(), "\n {\"a\":\n1}\n".to_owned())]);
        }
        let lines = "{\"a\":\"日\"}\r\n\n{\"b\":2}";
        for cut in 1..=lines.len() {
            let got = all(lines.as_bytes(), cut, true);
            assert_eq!(got.iter().map(|(_, d)| d.as_str()).collect::<Vec<_>>(), ["{\"a\":\"日\"}", "{\"b\":2}"]);
        }
    }

    #[test]
    fn a_message_without_end_is_refused() {
        let mut frames = Frames::new(false);
        let piece = vec![b'x'; 1 << 20];
        let refused = (0..8).find_map(|_| frames.feed(&piece, &mut Vec::new()).err());
        assert_eq!(refused, Some(MessageTooLong));
    }

    #[test]
    fn nothing_gives_nothing() {
        assert_eq!(all(b" \r\n\t ", 1, false), []);
        assert_eq!(all(b"", 1, true), []);
        assert_eq!(all(b"<html><body>502</body></html>", 3, false), []);
    }
}
