//! A person at a terminal: a pseudo terminal that the program believes in, made by `script` of util-linux.

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// Until the program says what is awaited.
const LIMIT: Duration = Duration::from_mins(1);

/// A running program and what it has said.
pub(crate) struct Terminal {
    child: Child,
    keys: ChildStdin,
    said: Receiver<Vec<u8>>,
    /// What was said and not looked at yet.
    pub(crate) text: String,
    /// What was passed over.
    pub(crate) passed: String,
}

impl Terminal {
    /// Runs the program with these arguments; `environment` is set for it.
    pub(crate) fn run(program: &str, args: &[&str], environment: &[(&str, &str)]) -> Self {
        let words = std::iter::once(program).chain(args.iter().copied());
        let line = words.map(quoted).collect::<Vec<_>>().join(" ");
        let mut child = Command::new("script")
            .args(["-q", "-e", "-c", &line, "/dev/null"])
            .env_remove("VISUAL")
            .env("TERM", "dumb")
            .envs(environment.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("`script` of util-linux starts");
        let keys = child.stdin.take().expect("its input is piped");
        let mut screen = child.stdout.take().expect("its output is piped");
        let (tell, said) = channel();
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(length @ 1..) = screen.read(&mut bytes) {
                if tell.send(bytes[..length].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { child, keys, said, text: String::new(), passed: String::new() }
    }

    /// Waits until the program has said `part`, and passes over all up to its end.
    pub(crate) fn expect(&mut self, part: &str) {
        loop {
            if let Some(place) = self.text.find(part) {
                self.passed.extend(self.text.drain(..place + part.len()));
                return;
            }
            match self.said.recv_timeout(LIMIT) {
                Ok(bytes) => self.text.push_str(&String::from_utf8_lossy(&bytes)),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    panic!("`{part}` was not said, but\n{}", self.text)
                }
            }
        }
    }

    pub(crate) fn enter(&mut self, line: &str) {
        self.keys.write_all(format!("{line}\n").as_bytes()).expect("it can be typed");
    }

    /// Waits for the end, and gives the exit code.
    pub(crate) fn end(&mut self) -> i32 {
        while let Ok(bytes) = self.said.recv_timeout(LIMIT) {
            self.text.push_str(&String::from_utf8_lossy(&bytes));
        }
        self.child.wait().expect("it can be waited for").code().expect("the program ended by itself")
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// A word as the shell takes it.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}
