//! Checks real processes on Redis: `cargo run -p goalmill-spec --example redis -- FIRST COUNT`.

#[path = "../tests/chaos/agent.rs"]
mod agent;
#[path = "../tests/chaos/driver.rs"]
mod driver;
#[path = "../tests/chaos/installation.rs"]
mod installation;

use std::io::{Write, stdout};
use std::sync::Arc;

use anyhow::{Result, bail};

#[tokio::main]
async fn main() -> Result<()> {
    let numbers: Vec<u64> = std::env::args().filter_map(|word| word.parse().ok()).collect();
    let [first, count] = numbers[..] else { bail!("give FIRST COUNT") };
    let driver = Arc::new(driver::Driver::start().await?);
    let tally = driver::check_seeds(&driver, first..first + count, u32::MAX).await?;
    for finding in &tally.findings {
        writeln!(stdout(), "{finding}\n")?;
    }
    Ok(writeln!(stdout(), "{}", tally.summary(&driver.installation))?)
}
