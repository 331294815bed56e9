//! The figures of an evaluation: for each model, and for each goal.

use std::collections::BTreeMap;

use serde::Serialize;

use super::answer::{AnswerOutcome, EvaluatedAnswer};
use crate::exit::{Exit, Failed};
use crate::output::{Palette, Screen, Table, Tone};
use crate::watch::{cut, short};

/// All answers, and the figures of each model.
#[derive(Debug, Serialize)]
pub struct EvaluationReport {
    /// Goals of the file.
    goals: usize,
    repeat: u32,
    /// Ended by Ctrl-C: not everything was asked.
    interrupted: bool,
    models: Vec<EvaluatedModel>,
    pub answers: Vec<EvaluatedAnswer>,
}

/// The figures of one model.
#[derive(Debug, Serialize)]
struct EvaluatedModel {
    model: String,
    /// Plans that were asked for.
    asked: usize,
    valid_at_first: usize,
    valid_after_repair: usize,
    /// Plans of goals with expectations that are valid and meet them, and how many goals have some.
    met: usize,
    expecting: usize,
    input_tokens: u64,
    output_tokens: u64,
    /// US dollars.
    cost: f64,
    seconds_median: f64,
    seconds_max: f64,
    /// The code that most of the answers have that were not valid.
    #[serde(skip_serializing_if = "Option::is_none")]
    issue: Option<FrequentIssue>,
}

/// A code of an issue, and how many plans had it.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct FrequentIssue {
    code: String,
    plans: usize,
}

impl EvaluationReport {
    pub fn new(models: &[String], goals: usize, repeat: u32, interrupted: bool, answers: Vec<EvaluatedAnswer>) -> Self {
        let models = models.iter().map(|model| EvaluatedModel::from_answers(model, &answers)).collect();
        Self { goals, repeat, interrupted, models, answers }
    }

    /// - `details`: each goal, in place of a row for each model.
    pub fn show(&self, screen: &Screen, details: bool) -> Result<(), Failed> {
        let name = |answer: &EvaluatedAnswer| format!("{} {} {}", answer.model, answer.goal, answer.outcome.as_str());
        if details {
            let text = |palette| format!("{}\n{}", self.details(screen, palette), self.table(palette));
            screen.list(self, &self.answers, name, text)
        } else {
            screen.list(self, &self.models, |figures| figures.model.clone(), |palette| self.table(palette))
        }
    }

    /// The exit code; a note says which model is below a share.
    ///
    /// - `min_valid`, `min_first`: least shares of valid plans, and of plans that are valid at the first answer.
    pub fn exit(&self, screen: &Screen, min_valid: Option<f64>, min_first: Option<f64>) -> Exit {
        let mut exit = Exit::Done;
        for figures in &self.models {
            let valid = figures.valid_at_first + figures.valid_after_repair;
            for (least, count, what) in
                [(min_valid, valid, "valid"), (min_first, figures.valid_at_first, "valid at the first answer")]
            {
                let share = count as f64 / figures.asked.max(1) as f64;
                if let Some(least) = least.filter(|least| share < *least) {
                    screen.note(format!(
                        "model `{}`: {:.1} % of the plans are {what}, and {:.1} % are required",
                        figures.model,
                        share * 100.0,
                        least * 100.0
                    ));
                    exit = Exit::NotCompleted;
                }
            }
        }
        exit
    }

    fn table(&self, palette: Palette) -> String {
        let head = ["MODEL", "PLANS", "FIRST", "REPAIRED", "MET", "TOKENS", "USD", "MEDIAN", "MAX", "ISSUE"];
        let mut table = Table::new(&head).right(&[1, 2, 3, 4, 5, 6, 7, 8]);
        for figures in &self.models {
            let met =
                if figures.expecting == 0 { "-".into() } else { format!("{}/{}", figures.met, figures.expecting) };
            let issue = figures.issue.as_ref().map(|issue| format!("{} ({})", issue.code, issue.plans));
            table.row([
                figures.model.clone(),
                figures.asked.to_string(),
                figures.valid_at_first.to_string(),
                figures.valid_after_repair.to_string(),
                met,
                format!("{}+{}", figures.input_tokens, figures.output_tokens),
                format!("{:.4}", figures.cost),
                format!("{:.1} s", figures.seconds_median),
                format!("{:.1} s", figures.seconds_max),
                issue.unwrap_or_default(),
            ]);
        }
        let text = table.render(palette, "no models");
        if self.interrupted {
            text + &palette.tone(Tone::Wait, "interrupted: not every goal was asked\n")
        } else {
            text
        }
    }

    fn details(&self, screen: &Screen, palette: Palette) -> String {
        let mut table =
            Table::new(&["MODEL", "GOAL", "", "ANSWERS", "STEPS", "TOKENS", "SECONDS", "ISSUE"]).right(&[3, 4, 5, 6]);
        for answer in &self.answers {
            let tone = match (answer.outcome, answer.is_met()) {
                (AnswerOutcome::Invalid, _) => Tone::Bad,
                (_, false) | (AnswerOutcome::Repaired, _) => Tone::Wait,
                (AnswerOutcome::First, true) => Tone::Good,
            };
            let shown = |text: &str| if screen.is_wide() { cut(text, usize::MAX) } else { short(text) };
            let issue = answer.first_issue().unwrap_or_default();
            table.row([
                answer.model.clone(),
                format!("{} {}", answer.goal, shown(&answer.text)),
                palette.tone(tone, answer.outcome.as_str()),
                answer.answers.to_string(),
                answer.steps.to_string(),
                format!("{}+{}", answer.input_tokens, answer.output_tokens),
                format!("{:.1}", answer.seconds),
                shown(&issue),
            ]);
        }
        table.render(palette, "no answers")
    }
}

impl EvaluatedModel {
    fn from_answers(model: &str, answers: &[EvaluatedAnswer]) -> Self {
        let own = || answers.iter().filter(|answer| answer.model == model);
        let with = |outcome| own().filter(|answer| answer.outcome == outcome).count();
        let mut seconds: Vec<f64> = own().map(|answer| answer.seconds).collect();
        seconds.sort_by(f64::total_cmp);
        Self {
            model: model.to_owned(),
            asked: own().count(),
            valid_at_first: with(AnswerOutcome::First),
            valid_after_repair: with(AnswerOutcome::Repaired),
            met: own().filter(|answer| answer.has_expectations && answer.is_met()).count(),
            expecting: own().filter(|answer| answer.has_expectations).count(),
            input_tokens: own().map(|answer| answer.input_tokens).sum(),
            output_tokens: own().map(|answer| answer.output_tokens).sum(),
            cost: own().fold(0.0, |sum, answer| sum + answer.cost),
            seconds_median: median(&seconds),
            seconds_max: seconds.last().copied().unwrap_or_default(),
            issue: most_frequent(own()),
        }
    }
}

/// The median of sorted numbers; 0 without any.
fn median(sorted: &[f64]) -> f64 {
    match sorted.len() {
        0 => 0.0,
        count => f64::midpoint(sorted[(count - 1) / 2], sorted[count / 2]),
    }
}

/// Each code counts once for a plan; of codes that are equally frequent the first by name.
fn most_frequent<'a>(answers: impl Iterator<Item = &'a EvaluatedAnswer>) -> Option<FrequentIssue> {
    let mut plans: BTreeMap<&str, usize> = BTreeMap::new();
    for answer in answers {
        let mut codes: Vec<&str> = answer.issues.iter().map(|issue| issue.code.as_str()).collect();
        codes.sort_unstable();
        codes.dedup();
        for code in codes {
            *plans.entry(code).or_default() += 1;
        }
    }
    let most = plans.into_iter().rev().max_by_key(|(_, plans)| *plans)?;
    Some(FrequentIssue { code: most.0.to_owned(), plans: most.1 })
}

#[cfg(test)]
mod tests {
    use goalmill_common::problem::Issue;

    use super::*;

    fn answer(outcome: AnswerOutcome, seconds: f64, codes: &[&str], unmet: &[&str]) -> EvaluatedAnswer {
        let issue = |code: &&str| Issue {
            code: (*code).to_owned(),
            pointer: String::new(),
            detail: "d".into(),
            hint: String::new(),
        };
        EvaluatedAnswer {
            model: "m".into(),
            goal: 1,
            text: "Knit".into(),
            repeat: 1,
            outcome,
            input_tokens: 100,
            output_tokens: 10,
            cost: 0.5,
            seconds,
            issues: codes.iter().map(issue).collect(),
            unmet: unmet.iter().map(|text| (*text).to_owned()).collect(),
            has_expectations: true,
            ..EvaluatedAnswer::default()
        }
    }

    fn report() -> EvaluationReport {
        let answers = vec![
            answer(AnswerOutcome::First, 1.0, &[], &[]),
            answer(AnswerOutcome::First, 2.0, &[], &["no action `a`"]),
            answer(AnswerOutcome::Repaired, 4.0, &["B", "B", "A"], &[]),
            answer(AnswerOutcome::Invalid, 9.0, &["B"], &[]),
        ];
        EvaluationReport::new(&["m".into(), "n".into()], 4, 1, false, answers)
    }

    #[test]
    fn figures_are_counted_by_model() {
        let report = report();
        let [figures, none] = report.models.as_slice() else { panic!("there are two models") };
        assert_eq!((figures.asked, figures.valid_at_first, figures.valid_after_repair), (4, 2, 1));
        assert_eq!((figures.met, figures.expecting), (2, 4), "an invalid plan meets nothing");
        assert_eq!((figures.input_tokens, figures.output_tokens), (400, 40));
        assert!((figures.cost - 2.0).abs() < 1e-9 && (figures.seconds_median - 3.0).abs() < 1e-9);
        assert!((figures.seconds_max - 9.0).abs() < 1e-9);
        assert_eq!(figures.issue, Some(FrequentIssue { code: "B".into(), plans: 2 }), "a code counts once for a plan");
        assert_eq!((none.asked, none.issue.is_none()), (0, true));
        let text = report.table(Palette::plain());
        assert!(text.lines().nth(1).is_some_and(|row| row.contains("2/4") && row.ends_with("B (2)")), "{text}");
    }

    #[test]
    fn the_median_of_an_even_count_is_the_mean_of_two() {
        assert!((median(&[1.0, 2.0, 4.0]) - 2.0).abs() < 1e-9 && (median(&[1.0, 2.0]) - 1.5).abs() < 1e-9);
        assert!(median(&[]).abs() < 1e-9);
    }
}
