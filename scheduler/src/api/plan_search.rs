//! Searches plans by words of their names and of the descriptions of their goals.

use goalmill_broker::BrokerError;
use goalmill_common::event::{Event, PlanEvent};
use goalmill_common::id::PlanId;
use goalmill_common::view::PlanSummary;

use super::response::shown;
use crate::event_log;
use crate::plan_reader::PlanReader;

/// Characters of a search.
const CHARS_MAX: usize = 200;

/// Words that a plan must all have, in any order and case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PlanSearch(Vec<String>);

impl PlanSearch {
    /// Parses `q`; the error is a reason and a hint.
    pub(super) fn parse(text: &str) -> Result<Self, (String, String)> {
        let words: Vec<String> = text.split_whitespace().map(str::to_lowercase).collect();
        if words.is_empty() || text.chars().count() > CHARS_MAX {
            let hint = format!("give words, at most {CHARS_MAX} characters");
            return Err((format!("`q` is `{}`", shown(text)), hint));
        }
        Ok(Self(words))
    }

    /// Whether the plan has all words. The goal is read only if its name does not have them.
    pub(super) async fn finds(&self, plans: &dyn PlanReader, plan: &PlanSummary) -> Result<bool, BrokerError> {
        Ok(self.fits(plan, "") || self.fits(plan, &read_goal(plans, &plan.plan_id).await?))
    }

    /// The same with a goal that is known, in lower case.
    pub(super) fn fits(&self, plan: &PlanSummary, goal: &str) -> bool {
        self.is_in(&format!("{} {} {goal}", plan.plan_id, plan.name.to_lowercase()))
    }

    fn is_in(&self, text: &str) -> bool {
        self.0.iter().all(|word| text.contains(word))
    }
}

/// The description of the goal of a plan, in lower case; empty if there is none.
pub(super) async fn read_goal(plans: &dyn PlanReader, plan: &PlanId) -> Result<String, BrokerError> {
    let first = plans.log(plan, 0, 1).await?;
    let records = first.first().and_then(|entry| event_log::parse_records(entry).ok()).unwrap_or_default();
    let goal = records.iter().find_map(|record| match &record.event {
        Event::Plan(PlanEvent::GoalAccepted(accepted)) => Some(accepted.goal.description.to_lowercase()),
        Event::Plan(_) | Event::Step { .. } => None,
    });
    Ok(goal.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_words_must_be_there_in_any_order_and_case() {
        let search = PlanSearch::parse(" Paris  TRIP ").expect("there are words");
        assert!(search.is_in("a trip to paris"));
        assert!(!search.is_in("a trip to rome"));
        assert!(PlanSearch::parse(" ").is_err());
        assert!(PlanSearch::parse(&"x".repeat(CHARS_MAX + 1)).is_err());
    }
}
