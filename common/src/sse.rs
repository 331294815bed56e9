//! Parses server-sent events (WHATWG HTML, "Server-sent events"): bytes in, events out.

/// An event with data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerEvent {
    /// The event's name; empty when it has none.
    pub event: String,
    /// Its `data` lines, joined by line ends.
    pub data: String,
}

/// Collects bytes until they make whole events. Bytes may be cut anywhere, also within a character.
#[derive(Debug, Default)]
pub struct SseParser {
    /// The beginning of a line.
    buffer: Vec<u8>,
    /// The last byte was `\r`: a `\n` that follows belongs to it.
    after_return: bool,
    /// A line was seen; a byte order mark may only stand before the first one.
    has_begun: bool,
    event: String,
    data: Option<Vec<u8>>,
}

impl SseParser {
    /// Appends the events that `bytes` complete to `events`. Comments and blank data make none.
    pub fn push(&mut self, bytes: &[u8], events: &mut Vec<ServerEvent>) {
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            let is_second_half = rest[end] == b'\n' && self.after_return && end == 0;
            self.after_return = rest[end] == b'\r';
            self.buffer.extend_from_slice(&rest[..end]);
            if !is_second_half {
                self.end_line(events);
            }
            rest = &rest[end + 1..];
        }
        self.buffer.extend_from_slice(rest);
        self.after_return &= rest.is_empty();
    }

    /// Bytes that are held until their event is complete.
    pub fn pending_bytes(&self) -> usize {
        self.buffer.len() + self.data.as_ref().map_or(0, Vec::len)
    }

    /// Returns the event that the end of the stream has cut, if it has data.
    pub fn finish(mut self) -> Option<ServerEvent> {
        let mut events = Vec::new();
        self.end_line(&mut events);
        self.end_event(&mut events);
        events.pop()
    }

    fn end_line(&mut self, events: &mut Vec<ServerEvent>) {
        let line = std::mem::take(&mut self.buffer);
        let line = line.strip_prefix(b"\xef\xbb\xbf").filter(|_| !self.has_begun).unwrap_or(&line);
        self.has_begun = true;
        if line.is_empty() {
            return self.end_event(events);
        }
        let colon = line.iter().position(|byte| *byte == b':');
        let (field, value) = colon.map_or((line, &[][..]), |at| (&line[..at], &line[at + 1..]));
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match (field, &mut self.data) {
            (b"event", _) => self.event = String::from_utf8_lossy(value).into_owned(),
            (b"data", None) => self.data = Some(value.to_vec()),
            (b"data", Some(data)) => {
                data.push(b'\n');
                data.extend_from_slice(value);
            }
            _ => {}
        }
    }

    fn end_event(&mut self, events: &mut Vec<ServerEvent>) {
        let event = std::mem::take(&mut self.event);
        let data = self.data.take().unwrap_or_default();
        if !data.trim_ascii().is_empty() {
            events.push(ServerEvent { event, data: String::from_utf8_lossy(&data).into_owned() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_the_same_however_the_bytes_are_cut() {
        let text = "\u{feff}: hello\n\ndata: {\"ü\":1}\n\nevent: ping\ndata:\n\nevent: a\r\ndata: x\r\ndata: 日本\r\n\r\n\
                    data: 1\rdata: 2\r\rid: 7\nretry: 5\n\n:\n\ndata: end";
        let want = [("", "{\"ü\":1}"), ("a", "x\n日本"), ("", "1\n2"), ("", "end")]
            .map(|(event, data)| ServerEvent { event: event.into(), data: data.into() });
        for size in 1..=text.len() {
            let (mut parser, mut events) = (SseParser::default(), Vec::new());
            for piece in text.as_bytes().chunks(size) {
                parser.push(piece, &mut events);
            }
            events.extend(parser.finish());
            assert_eq!(events, want, "pieces of {size} bytes");
        }
    }

    #[test]
    fn pending_bytes_grow_until_the_event_is_complete() {
        let (mut parser, mut events) = (SseParser::default(), Vec::new());
        parser.push(b"data: 12\ndata", &mut events);
        assert_eq!(parser.pending_bytes(), 6);
        parser.push(b": 3\n\n", &mut events);
        assert_eq!((parser.pending_bytes(), events[0].data.as_str()), (0, "12\n3"));
    }
}
