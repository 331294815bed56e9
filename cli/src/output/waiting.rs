//! The line of a terminal while an answer is awaited.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::Screen;

/// Answers that come sooner show nothing.
const QUICK: Duration = Duration::from_millis(700);
const TICK: Duration = Duration::from_millis(100);

/// Waits for an answer, and shows how long on the terminal's standard error.
pub async fn while_waiting<T>(screen: &Screen, what: &str, answer: impl Future<Output = T>) -> T {
    let answer = Box::pin(answer);
    while_reporting(screen, what, |_| answer).await
}

/// As [`while_waiting`]; what waits may change the text.
pub async fn while_reporting<T, F: Future<Output = T>>(
    screen: &Screen,
    what: &str,
    start: impl FnOnce(ProgressBar) -> F,
) -> T {
    let bar = ProgressBar::hidden();
    let style = ProgressStyle::with_template("  {spinner} {msg} · {elapsed}").expect("the template is constant");
    bar.set_style(style);
    bar.set_message(what.to_owned());
    let answer = start(bar.clone());
    tokio::pin!(answer);
    if !screen.shows_progress() {
        return answer.await;
    }
    if let Ok(answer) = tokio::time::timeout(QUICK, &mut answer).await {
        return answer;
    }
    bar.set_draw_target(ProgressDrawTarget::stderr());
    bar.enable_steady_tick(TICK);
    let answer = answer.await;
    bar.finish_and_clear();
    answer
}
