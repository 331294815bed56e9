//! `config`: settings with the sources of their values; finds the settings file.

use std::path::{Path, PathBuf};

use goalmill_common::config::{Loaded, Origin, Override, environment, load};
use serde::Serialize;

use crate::args::ConfigArgs;
use crate::exit::{CommandResult, Exit, Failed};
use crate::output::{Palette, Screen, Table, Tone};

#[derive(Serialize)]
struct Setting {
    setting: String,
    value: String,
    origin: Origin,
}

pub fn run(screen: &Screen, args: &ConfigArgs) -> CommandResult {
    let loaded = settings(args.config.as_deref(), &[])?;
    let begins = |path: &str| args.prefix.as_deref().is_none_or(|prefix| path.starts_with(prefix));
    let rows: Vec<Setting> = loaded
        .table()
        .into_iter()
        .filter(|(path, _, origin)| begins(path) && (!args.changed || *origin != Origin::Default))
        .map(|(setting, value, origin)| Setting { setting, value, origin })
        .collect();
    let empty = if args.changed { "all defaults" } else { "no such settings" };
    screen.list(&rows, &rows, |row| row.setting.clone(), |palette| people(&rows, empty, palette))?;
    Ok(Exit::Done)
}

fn people(rows: &[Setting], empty: &str, palette: Palette) -> String {
    let mut table = Table::new(&["SETTING", "VALUE", "FROM"]);
    for row in rows {
        let from = row.origin.to_string();
        let from =
            if row.origin == Origin::Default { palette.tone(Tone::Dim, from) } else { palette.tone(Tone::Busy, from) };
        table.row([row.setting.clone(), row.value.clone(), from]);
    }
    table.render(palette, empty)
}

/// Loads the settings from `file`, or from the first default file that exists.
pub fn settings(file: Option<&Path>, flags: &[Override]) -> Result<Loaded, Failed> {
    let found = file.map(Path::to_owned).or_else(default_file);
    load(found.as_deref(), flags)
        .map_err(|error| Failed::invalid(error.to_string()).help("every setting with its default: goalmill config"))
}

/// `./goalmill.toml`, then `config.toml` in the user's configuration directory.
fn default_file() -> Option<PathBuf> {
    let home = environment("XDG_CONFIG_HOME")
        .map(PathBuf::from)
        .or_else(|| environment("HOME").map(|home| PathBuf::from(home).join(".config")));
    let candidates = [Some(PathBuf::from("goalmill.toml")), home.map(|home| home.join("goalmill/config.toml"))];
    candidates.into_iter().flatten().find(|path| path.is_file())
}
