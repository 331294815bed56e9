//! Output of results: format, colours, terminal.

mod palette;
mod sanitize;
mod step_words;
mod table;
mod time;
mod waiting;

use std::io::{self, IsTerminal, Write};

use goalmill_common::config::environment;
use serde::Serialize;

pub use palette::{Palette, Tone, plan_tone, step_tone};
pub use sanitize::sanitize;
pub use step_words::{cleanup_words, motion_words};
pub use table::Table;
pub use time::{seconds, span, time, time_left};
pub use waiting::{while_reporting, while_waiting};

use crate::args::{ColorWhen, Format, Globals, TimeFormat};
use crate::exit::Failed;

/// Standard output and standard error, in the caller's format.
#[derive(Clone, Debug)]
pub struct Screen {
    pub format: Format,
    pub palette: Palette,
    quiet: bool,
    times: Option<TimeFormat>,
    /// Whether standard output is a terminal.
    pub live: bool,
}

impl Screen {
    pub fn new(globals: &Globals) -> Self {
        let live = io::stdout().is_terminal();
        let colours = match globals.color {
            ColorWhen::Always => true,
            ColorWhen::Never => false,
            ColorWhen::Auto => {
                live && environment("NO_COLOR").is_none() && environment("TERM").is_none_or(|term| term != "dumb")
            }
        };
        Self {
            format: globals.output.unwrap_or(Format::Table),
            palette: Palette::new(colours),
            quiet: globals.quiet,
            times: globals.time_format,
            live,
        }
    }

    /// Whether the format is for people.
    pub fn is_for_people(&self) -> bool {
        matches!(self.format, Format::Table | Format::Wide)
    }

    /// Whether a line of progress is shown.
    pub fn shows_progress(&self) -> bool {
        self.live && self.is_for_people()
    }

    /// Whether the output is wide.
    pub fn is_wide(&self) -> bool {
        self.format == Format::Wide
    }

    /// The requested time format, or else `usual`.
    pub fn times(&self, usual: TimeFormat) -> TimeFormat {
        self.times.unwrap_or(usual)
    }

    /// The requested time format.
    pub fn times_asked(&self) -> Option<TimeFormat> {
        self.times
    }

    /// Prints a line to standard output unless output is off.
    pub fn line(&self, text: impl AsRef<str>) -> Result<(), Failed> {
        if self.format == Format::None { Ok(()) } else { write_all(&sanitize(text.as_ref()), true) }
    }

    /// Prints text to standard output unless output is off.
    pub fn text(&self, text: &str) -> Result<(), Failed> {
        if self.format == Format::None { Ok(()) } else { write_all(&sanitize(text), false) }
    }

    /// Clears the terminal.
    pub fn clear(&self) -> Result<(), Failed> {
        if self.format == Format::None { Ok(()) } else { write_all("\u{1b}[H\u{1b}[2J", false) }
    }

    /// Prints a note to standard error, unless `--quiet`.
    pub fn note(&self, text: impl AsRef<str>) {
        if !self.quiet {
            drop(writeln!(io::stderr(), "{}", sanitize(text.as_ref())));
        }
    }

    /// Warns on standard error.
    pub fn warn(&self, text: impl AsRef<str>) {
        self.note(format!("warning: {}", text.as_ref()));
    }

    /// Prints one value: `people` in tables, `name` for `-o name`.
    pub fn show<T: Serialize>(
        &self,
        value: &T,
        name: &str,
        people: impl FnOnce(Palette) -> String,
    ) -> Result<(), Failed> {
        match self.format {
            Format::Table | Format::Wide => self.text(&ended(people(self.palette))),
            Format::None => Ok(()),
            Format::Name => self.line(name),
            Format::Json => self.line(json(value, self.live)),
            Format::Jsonl => self.line(json(value, false)),
            Format::Yaml => self.text(&yaml(value)),
        }
    }

    /// Prints a list; `document` is the whole list.
    pub fn list<D: Serialize, T: Serialize>(
        &self,
        document: &D,
        items: &[T],
        name: impl Fn(&T) -> String,
        people: impl FnOnce(Palette) -> String,
    ) -> Result<(), Failed> {
        match self.format {
            Format::Name => items.iter().try_for_each(|item| self.line(name(item))),
            Format::Jsonl => items.iter().try_for_each(|item| self.line(json(item, false))),
            Format::Table | Format::Wide | Format::Json | Format::Yaml | Format::None => {
                self.show(document, "", people)
            }
        }
    }
}

fn ended(mut text: String) -> String {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

/// JSON text; `pretty` for a terminal.
pub fn json<T: Serialize>(value: &T, pretty: bool) -> String {
    let text = if pretty { serde_json::to_string_pretty(value) } else { serde_json::to_string(value) };
    text.expect("plain data always has a JSON text")
}

/// YAML text, converted from JSON so that both are equal.
pub fn yaml<T: Serialize>(value: &T) -> String {
    let value = serde_json::to_value(value).expect("plain data always has a JSON form");
    serde_yaml_ng::to_string(&value).expect("JSON always has a YAML text")
}

/// Writes to standard output; a closed pipe (`| head`) ends the program without an error.
fn write_all(text: &str, newline: bool) -> Result<(), Failed> {
    let mut out = io::stdout().lock();
    let written = out
        .write_all(text.as_bytes())
        .and_then(|()| if newline { out.write_all(b"\n") } else { Ok(()) })
        .and_then(|()| out.flush());
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
        other => other.map_err(|error| Failed::other(format!("standard output cannot be written: {error}"))),
    }
}
