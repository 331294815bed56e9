//! A hash of everything that happened, in order: the same seed must give the same hash.

use std::fmt::{self, Write};

/// FNV-1a over every line; with `GOALMILL_SIM_TRACE` set the lines are printed too.
pub struct Trace {
    hash: u64,
    verbose: bool,
}

impl Trace {
    pub fn new(verbose: bool) -> Self {
        Self { hash: 0xcbf2_9ce4_8422_2325, verbose }
    }

    pub fn note(&mut self, line: fmt::Arguments<'_>) {
        self.write_fmt(line).expect("hashing does not fail");
        self.write_str("\n").expect("hashing does not fail");
        if self.verbose {
            eprintln!("{line}");
        }
    }

    pub fn hash(&self) -> u64 {
        self.hash
    }
}

impl Write for Trace {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        Ok(())
    }
}
