//! Reads server-sent events out of a byte stream (WHATWG HTML, "Server-sent events").

/// One event of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerEvent {
    pub id: String,
    pub event: String,
    pub data: String,
}

/// Collects bytes until they make whole events.
#[derive(Debug, Default)]
pub struct Parser {
    buffer: Vec<u8>,
    current: ServerEvent,
}

impl Parser {
    /// Takes the next bytes and gives the events that they complete; comments give nothing.
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<ServerEvent> {
        self.buffer.extend_from_slice(bytes);
        let mut events = Vec::new();
        let mut start = 0;
        while let Some(length) = self.buffer[start..].iter().position(|byte| *byte == b'\n') {
            let line = self.buffer[start..start + length].to_vec();
            start += length + 1;
            let text = String::from_utf8_lossy(&line);
            self.line(text.trim_end_matches('\r'), &mut events);
        }
        self.buffer.drain(..start);
        events
    }

    fn line(&mut self, line: &str, events: &mut Vec<ServerEvent>) {
        if line.is_empty() {
            let event = std::mem::take(&mut self.current);
            if !event.data.is_empty() {
                events.push(event);
            }
            return;
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "id" => self.current.id = value.into(),
            "event" => self.current.event = value.into(),
            "data" => {
                if !self.current.data.is_empty() {
                    self.current.data.push('\n');
                }
                self.current.data.push_str(value);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_whole_however_the_bytes_are_cut() {
        let text = ": hello\n\nid: 1\nevent: a\ndata: {\"x\":1}\n\nid: 2\r\ndata: ü\r\n\r\n";
        let want = [
            ServerEvent { id: "1".into(), event: "a".into(), data: "{\"x\":1}".into() },
            ServerEvent { id: "2".into(), event: String::new(), data: "ü".into() },
        ];
        for cut in 0..text.len() {
            let mut parser = Parser::default();
            let mut got = parser.feed(&text.as_bytes()[..cut]);
            got.extend(parser.feed(&text.as_bytes()[cut..]));
            assert_eq!(got, want, "cut at {cut}");
        }
    }
}
