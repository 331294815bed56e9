//! Sources of the key of a model: an environment variable, a file that is renewed, or a program that prints it.

use std::process::Stdio;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use goalmill_common::config::ModelSettings;
use goalmill_common::error_body::clean_text;
use tokio::process::Command;
use tokio::time::{Instant, timeout};

use crate::api_key::ApiKey;

/// A program that prints a key must end within this time.
const COMMAND_TIME: Duration = Duration::from_secs(30);
/// Bytes of a key; tokens of identity providers have a few thousand.
const KEY_BYTES_MAX: usize = 64 << 10;
/// Characters of a program's error output that a message contains.
const SHOWN_CHARS_MAX: usize = 300;

/// The source of one model's key.
#[derive(Debug)]
pub struct KeySource {
    from: KeyOrigin,
    /// The newest key, and when it was read. Also what is redacted from texts.
    newest: Mutex<Option<(ApiKey, Instant)>>,
    /// One program at a time.
    running: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
enum KeyOrigin {
    /// No key is sent.
    Nowhere,
    /// Read once; the name of the variable.
    Variable(String),
    /// The path.
    File(String),
    Command {
        words: Vec<String>,
        /// How long a key is used.
        refresh: Duration,
    },
}

impl KeySource {
    pub fn new(model: &ModelSettings) -> Self {
        let from = if let [_, ..] = model.api_key_command.as_slice() {
            let refresh = Duration::from_millis(model.api_key_refresh_ms);
            KeyOrigin::Command { words: model.api_key_command.clone(), refresh }
        } else if !model.api_key_file.is_empty() {
            KeyOrigin::File(model.api_key_file.clone())
        } else if !model.api_key_env.is_empty() {
            KeyOrigin::Variable(model.api_key_env.clone())
        } else {
            KeyOrigin::Nowhere
        };
        let read = match &from {
            KeyOrigin::Variable(name) => ApiKey::from_variable(name),
            KeyOrigin::Nowhere | KeyOrigin::File(_) | KeyOrigin::Command { .. } => None,
        };
        Self { from, newest: Mutex::new(read.map(|key| (key, Instant::now()))), running: tokio::sync::Mutex::default() }
    }

    /// Why no key can be had, as far as this is known before a call.
    pub fn obstacle(&self) -> Option<String> {
        match &self.from {
            KeyOrigin::Variable(name) if self.newest().is_none() => {
                Some(format!("the API key is missing; set the environment variable `{name}`"))
            }
            KeyOrigin::Nowhere | KeyOrigin::Variable(_) | KeyOrigin::File(_) | KeyOrigin::Command { .. } => None,
        }
    }

    /// The newest key that was read.
    pub fn newest(&self) -> Option<ApiKey> {
        self.slot().as_ref().map(|(key, _)| key.clone())
    }

    /// The key of the next call; `None` if none is sent. The error is a message for users.
    pub async fn key(&self) -> Result<Option<ApiKey>, String> {
        match &self.from {
            KeyOrigin::Nowhere => Ok(None),
            KeyOrigin::Variable(_) => Ok(self.newest()),
            KeyOrigin::File(path) => self.keep(read_file(path).await?).map(Some),
            KeyOrigin::Command { words, refresh } => {
                let _alone = self.running.lock().await;
                let fresh = self.slot().as_ref().filter(|(_, at)| at.elapsed() < *refresh).map(|(key, _)| key.clone());
                match fresh {
                    Some(key) => Ok(Some(key)),
                    None => self.keep(run_command(words).await?).map(Some),
                }
            }
        }
    }

    /// The server refused this key. Returns whether another one may be had at the next call.
    pub fn refused(&self, key: Option<&ApiKey>) -> bool {
        let mut slot = self.slot();
        let is_newest = slot.as_ref().map(|(newest, _)| newest) == key;
        match &self.from {
            KeyOrigin::Nowhere | KeyOrigin::Variable(_) => false,
            KeyOrigin::File(_) => true,
            KeyOrigin::Command { .. } => {
                if is_newest {
                    *slot = None;
                }
                true
            }
        }
    }

    fn keep(&self, text: String) -> Result<ApiKey, String> {
        let key = text.trim();
        if key.is_empty() || key.len() > KEY_BYTES_MAX {
            return Err(format!("the key from {} is empty or over {KEY_BYTES_MAX} bytes", self.name()));
        }
        let key = ApiKey::new(key);
        *self.slot() = Some((key.clone(), Instant::now()));
        Ok(key)
    }

    /// The setting, for messages.
    pub fn name(&self) -> String {
        match &self.from {
            KeyOrigin::Nowhere => "no setting".into(),
            KeyOrigin::Variable(name) => format!("`{name}`"),
            KeyOrigin::File(path) => format!("`api_key_file` `{path}`"),
            KeyOrigin::Command { words, .. } => format!("`api_key_command` `{}`", words[0]),
        }
    }

    fn slot(&self) -> std::sync::MutexGuard<'_, Option<(ApiKey, Instant)>> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn read_file(path: &str) -> Result<String, String> {
    tokio::fs::read_to_string(path).await.map_err(|error| format!("`api_key_file` `{path}` cannot be read: {error}"))
}

async fn run_command(words: &[String]) -> Result<String, String> {
    let (program, arguments) = words.split_first().expect("an empty list is no command");
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).kill_on_drop(true);
    let output = timeout(COMMAND_TIME, command.output())
        .await
        .map_err(|_| format!("`api_key_command` `{program}` did not end within {} s", COMMAND_TIME.as_secs()))?
        .map_err(|error| format!("`api_key_command` `{program}` cannot be run: {error}"))?;
    if !output.status.success() {
        let said: String = String::from_utf8_lossy(&output.stderr).chars().take(SHOWN_CHARS_MAX).collect();
        return Err(format!("`api_key_command` `{program}` failed ({}): {}", output.status, clean_text(&said, [])));
    }
    String::from_utf8(output.stdout).map_err(|_| format!("`api_key_command` `{program}` printed no text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(change: impl FnOnce(&mut ModelSettings)) -> KeySource {
        let mut model = ModelSettings::default();
        change(&mut model);
        KeySource::new(&model)
    }

    fn shell(script: String) -> Vec<String> {
        vec!["sh".into(), "-c".into(), script]
    }

    #[tokio::test]
    async fn a_program_is_asked_once_and_again_after_a_refusal() {
        let dir = std::env::temp_dir().join(format!("goalmill-key-{}", std::process::id()));
        let script = format!("echo x >>{0}; echo key-$(wc -l <{0})", dir.display());
        let keys = source(|model| model.api_key_command = shell(script));
        for _ in 0..2 {
            assert_eq!(keys.key().await, Ok(Some(ApiKey::new("key-1"))));
        }
        assert!(keys.refused(Some(&ApiKey::new("key-0"))), "an older key was refused");
        assert_eq!(keys.key().await, Ok(Some(ApiKey::new("key-1"))));
        assert!(keys.refused(Some(&ApiKey::new("key-1"))));
        assert_eq!(keys.key().await, Ok(Some(ApiKey::new("key-2"))));
        std::fs::remove_file(dir).expect("it was written");
    }

    #[tokio::test]
    async fn what_a_program_says_when_it_fails_is_told() {
        let keys = source(|model| model.api_key_command = shell("echo not signed in >&2; exit 3".into()));
        let error = keys.key().await.expect_err("it fails");
        assert!(error.contains("exit status: 3") && error.contains("not signed in"), "{error}");
        let keys = source(|model| model.api_key_command = vec!["/does/not/exist".into()]);
        assert!(keys.key().await.expect_err("it fails").contains("cannot be run"));
        let keys = source(|model| model.api_key_command = shell("true".into()));
        assert!(keys.key().await.expect_err("it prints nothing").contains("is empty"));
    }

    #[tokio::test]
    async fn a_file_is_read_for_every_call() {
        let file = std::env::temp_dir().join(format!("goalmill-key-file-{}", std::process::id()));
        let keys = source(|model| model.api_key_file = file.display().to_string());
        assert!(keys.key().await.expect_err("it is not there").contains("`api_key_file`"));
        for key in ["first-key", "second-key"] {
            std::fs::write(&file, format!("{key}\n")).expect("the folder can be written");
            assert_eq!(keys.key().await, Ok(Some(ApiKey::new(key))));
            assert_eq!(keys.newest(), Some(ApiKey::new(key)), "it is redacted");
        }
        std::fs::remove_file(file).expect("it was written");
    }
}
