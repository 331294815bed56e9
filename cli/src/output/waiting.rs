//! What a terminal shows while an answer takes its time.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::Screen;

/// Answers that come sooner show nothing.
const QUICK: Duration = Duration::from_millis(700);
const TICK: Duration = Duration::from_millis(100);

/// Waits for an answer, and shows how long on the terminal's standard error.
pub async fn while_waiting<T>(screen: &Screen, what: &str, answer: impl Future<Output = T>) -> T {
    tokio::pin!(answer);
    if !(screen.live && screen.is_for_people()) {
        return answer.await;
    }
    if let Ok(answer) = tokio::time::timeout(QUICK, &mut answer).await {
        return answer;
    }
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template("  {spinner} {msg} · {elapsed}").expect("the template is constant");
    bar.set_style(style);
    bar.set_message(what.to_owned());
    bar.enable_steady_tick(TICK);
    let answer = answer.await;
    bar.finish_and_clear();
    answer
}
