//! Cuts the bytes of an answer into messages, whatever the server chose to send: server-sent events (WHATWG HTML,
//! "Server-sent events"), lines of JSON, or one JSON body. Bytes may be cut anywhere, also within a character.

/// Bytes of one line, or of a body that is one message.
const LINE_BYTES_MAX: usize = 4 << 20;

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The name of a server-sent event; empty for all others.
    pub event: String,
    pub data: Vec<u8>,
}

/// How the bytes are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cut {
    /// Nothing but white space so far.
    Unknown,
    Events,
    Lines,
    Whole,
}

/// What cannot be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a line of the answer has more than {LINE_BYTES_MAX} bytes")]
pub struct LineTooLong;

/// Collects bytes until they make whole messages.
#[derive(Debug)]
pub struct Frames {
    cut: Cut,
    /// JSON at the beginning means lines of it, not one body.
    json_lines: bool,
    buffer: Vec<u8>,
    /// Bytes of the buffer that hold no line end.
    searched: usize,
    /// The last byte was `\r`: a `\n` that follows belongs to it.
    after_return: bool,
    event: String,
    data: Vec<u8>,
    has_data: bool,
}

impl Frames {
    /// - `json_lines`: an answer that begins with JSON is a message a line.
    pub fn new(json_lines: bool) -> Self {
        Self {
            cut: Cut::Unknown,
            json_lines,
            buffer: Vec::new(),
            searched: 0,
            after_return: false,
            event: String::new(),
            data: Vec::new(),
            has_data: false,
        }
    }

    /// Takes the next bytes and adds the messages that they complete, also when it then fails.
    pub fn feed(&mut self, bytes: &[u8], frames: &mut Vec<Frame>) -> Result<(), LineTooLong> {
        self.buffer.extend_from_slice(bytes);
        if self.cut == Cut::Unknown {
            self.recognise();
        }
        match self.cut {
            Cut::Unknown | Cut::Whole => {}
            Cut::Events | Cut::Lines => self.lines(frames),
        }
        let is_short = |bytes: &[u8]| bytes.len() <= LINE_BYTES_MAX;
        if is_short(&self.buffer) && is_short(&self.data) { Ok(()) } else { Err(LineTooLong) }
    }

    /// Whether the answer is one JSON body, which is complete when it can be read.
    pub fn is_one_body(&self) -> bool {
        self.cut == Cut::Whole
    }

    /// Gives what stands at the end without a line end behind it.
    pub fn end(mut self) -> Vec<Frame> {
        let mut frames = Vec::new();
        let rest = std::mem::take(&mut self.buffer);
        match self.cut {
            Cut::Unknown => {}
            Cut::Whole | Cut::Lines => frames.extend(frame(String::new(), rest)),
            Cut::Events => {
                self.line(&rest, &mut frames);
                self.dispatch(&mut frames);
            }
        }
        frames
    }

    fn recognise(&mut self) {
        if self.buffer.starts_with(b"\xef\xbb\xbf") {
            self.buffer.drain(..3);
        } else if b"\xef\xbb\xbf".starts_with(&self.buffer) {
            return;
        }
        let Some(first) = self.buffer.iter().find(|byte| !byte.is_ascii_whitespace()) else { return };
        self.cut = match first {
            b'{' | b'[' if self.json_lines => Cut::Lines,
            b'{' | b'[' => Cut::Whole,
            _ => Cut::Events,
        };
    }

    fn lines(&mut self, frames: &mut Vec<Frame>) {
        let buffer = std::mem::take(&mut self.buffer);
        let mut start = 0;
        let mut at = self.searched;
        while let Some(length) = buffer[at..].iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            let end = at + length;
            let is_second_half = buffer[end] == b'\n' && self.after_return && end == start;
            self.after_return = buffer[end] == b'\r';
            if !is_second_half {
                self.line(&buffer[start..end], frames);
            }
            start = end + 1;
            at = start;
        }
        if start < buffer.len() {
            self.after_return = false;
        }
        self.buffer = buffer[start..].to_vec();
        self.searched = self.buffer.len();
    }

    fn line(&mut self, line: &[u8], frames: &mut Vec<Frame>) {
        if self.cut == Cut::Lines {
            frames.extend(frame(String::new(), line.to_vec()));
            return;
        }
        if line.is_empty() {
            return self.dispatch(frames);
        }
        let colon = line.iter().position(|byte| *byte == b':');
        let (field, value) = colon.map_or((line, &[][..]), |at| (&line[..at], &line[at + 1..]));
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"event" => self.event = String::from_utf8_lossy(value).into_owned(),
            b"data" => {
                if self.has_data {
                    self.data.push(b'\n');
                }
                self.has_data = true;
                self.data.extend_from_slice(value);
            }
            _ => {}
        }
    }

    fn dispatch(&mut self, frames: &mut Vec<Frame>) {
        let event = std::mem::take(&mut self.event);
        let data = std::mem::take(&mut self.data);
        self.has_data = false;
        frames.extend(frame(event, data));
    }
}

fn frame(event: String, data: Vec<u8>) -> Option<Frame> {
    let is_blank = data.iter().all(u8::is_ascii_whitespace);
    (!is_blank).then_some(Frame { event, data })
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
        got.into_iter().map(|f| (f.event, String::from_utf8(f.data).expect("it is whole"))).collect()
    }

    #[test]
    fn events_come_whole_however_the_bytes_are_cut() {
        let text = "\u{feff}: hello\n\ndata: {\"ü\":1}\n\nevent: ping\ndata:\n\nevent: a\r\ndata: x\r\ndata: 日本\r\n\r\n\
                    data: 1\rdata: 2\r\rid: 7\nretry: 5\n\n:\n\ndata: end";
        let want: Vec<(String, String)> =
            [("", "{\"ü\":1}"), ("a", "x\n日本"), ("", "1\n2"), ("", "end")].map(|(e, d)| (e.into(), d.into())).into();
        for cut in 1..=text.len() {
            assert_eq!(all(text.as_bytes(), cut, false), want, "pieces of {cut} bytes");
        }
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
    fn a_line_without_end_is_refused() {
        let mut frames = Frames::new(false);
        let piece = vec![b'x'; 1 << 20];
        let refused = (0..8).find_map(|_| frames.feed(&piece, &mut Vec::new()).err());
        assert_eq!(refused, Some(LineTooLong));
    }

    #[test]
    fn nothing_gives_nothing() {
        assert_eq!(all(b" \r\n\t ", 1, false), []);
        assert_eq!(all(b"", 1, true), []);
        assert_eq!(all(b"<html><body>502</body></html>", 3, false), []);
    }
}
