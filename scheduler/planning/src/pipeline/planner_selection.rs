//! Selects planners and models for a goal by its `planning` field.
//!
//! The planner comes first and the others of the settings after it, unless it is to be the only one; so does the model.

use std::sync::Arc;

use goalmill_common::command::Planned;
use goalmill_common::goal::Goal;
use goalmill_common::planning::ReplanOptions;
use goalmill_common::problem::Issue;
use goalmill_common::revision::Trigger;

use super::refusal::failure;
use crate::agent_planner::AGENT_PREFIX;
use crate::llm::GoalPromptError;
use crate::pipeline::{Pipeline, asks_models};
use crate::stage::Stages;
use crate::{Planner, PlanningError, ReviseRequest};

impl Pipeline {
    /// The planners for a goal, in the order in which they are asked.
    pub(super) fn chosen(&self, goal: &Goal) -> Vec<&Arc<dyn Planner>> {
        let Some(name) = goal.planning.planner.as_deref() else { return self.planners().iter().collect() };
        let wanted = self.known().find(|planner| planner.name() == name);
        let others = self.planners().iter().filter(|planner| planner.name() != name && !goal.planning.planner_only);
        wanted.into_iter().chain(others).collect()
    }

    /// Whether models or agents are asked for the plan of a goal. Rules and networks use no stored plans.
    pub fn writes_drafts(&self, goal: &Goal) -> bool {
        let has_models = !self.models().is_empty();
        let writes = |name: &str| asks_models(name) && has_models || name.starts_with(AGENT_PREFIX);
        self.chosen(goal).iter().any(|planner| writes(planner.name()))
    }

    /// A new plan for the whole goal, for a person who wants what remains planned and said no more than by whom: by the planner
    /// that the goal names, if it makes nothing but whole plans. `None` when others are to be asked for a revision.
    pub async fn plan_again(&self, request: &ReviseRequest) -> Option<Result<Planned, PlanningError>> {
        let situation = &request.situation;
        let says_no_more = situation.hint.is_empty() && situation.refused.is_empty();
        let name = situation.goal.planning.planner.as_deref().filter(|_| says_no_more)?;
        if Trigger::parse(&situation.trigger) != Some(Trigger::UserRequest) {
            return None;
        }
        let planner = self.known().find(|planner| planner.name() == name && !planner.sees_results())?;
        let request = request.whole_plan();
        let stages = Stages::default();
        match self.ask(planner.as_ref(), &request, &stages).await {
            Ok(planned) => Some(Ok(self.account(planned, &[], &stages, &request))),
            Err(refusal) => {
                tracing::debug!(planner = name, "planner `{name}` gave no plan for what remains: {}", refusal.reason);
                request.goal.planning.planner_only.then(|| Err(failure(vec![refusal], &stages)))
            }
        }
    }

    /// What of a goal's choice does not exist here.
    pub fn choice_issues(&self, goal: &Goal) -> Vec<Issue> {
        let planners: Vec<&str> = self.known().map(|planner| planner.name()).collect();
        let models: Vec<&str> = self.models().iter().map(String::as_str).collect();
        let planning = &goal.planning;
        let of_revisions = planning.revision.as_ref().and_then(|policy| policy.model.as_deref());
        let planner = planning.planner.as_deref().and_then(|name| unknown("planner", "planner", name, &planners));
        let model = planning.model.as_deref().and_then(|name| unknown("model", "model", name, &models));
        let reviser = of_revisions.and_then(|name| unknown("model", "revision/model", name, &models));
        let prompt = planning.prompt.as_deref().and_then(|prompt| self.prompt_issue(prompt));
        planner.into_iter().chain(model).chain(reviser).chain(prompt).collect()
    }

    /// What of the options of a replan does not exist here.
    pub fn replan_issues(&self, options: &ReplanOptions) -> Vec<Issue> {
        let models: Vec<&str> = self.models().iter().map(String::as_str).collect();
        let issue = options.model.as_deref().and_then(|name| unknown("model", "model", name, &models));
        issue.map(|issue| Issue { pointer: "/model".into(), ..issue }).into_iter().collect()
    }

    fn prompt_issue(&self, prompt: &str) -> Option<Issue> {
        let prompts = self.prompts()?;
        let issue = |detail: String, hint: String| Issue {
            code: "INVALID_VALUE".into(),
            pointer: "/planning/prompt".into(),
            detail,
            hint,
        };
        match prompts.check_goal_prompt(prompt).err()? {
            GoalPromptError::UnknownTemplate => {
                let ids: Vec<String> = prompts.plan_ids().iter().map(|id| format!("`{id}`")).collect();
                let hint = format!("there are: {}; several words are instructions", ids.join(", "));
                Some(issue(format!("there is no prompt template `{}`", prompt.trim()), hint))
            }
            GoalPromptError::Invalid(reason) => {
                let hint = "correct the template; `docs/planners.md` describes its form".into();
                Some(issue(format!("the template cannot be read: {reason}"), hint))
            }
        }
    }
}

/// - `field`: what it names; `place`: where it stands in `planning`.
fn unknown(field: &str, place: &str, name: &str, there: &[&str]) -> Option<Issue> {
    if there.contains(&name) {
        return None;
    }
    let names: Vec<String> = there.iter().map(|name| format!("`{name}`")).collect();
    let hint = match names.as_slice() {
        [] => format!("there is none; set one up under `{field}s` in the settings, or leave `planning.{field}` out"),
        _ => format!("there are: {}", names.join(", ")),
    };
    let code = if field == "planner" { "UNKNOWN_PLANNER" } else { "UNKNOWN_MODEL" };
    Some(Issue {
        code: code.into(),
        pointer: format!("/planning/{place}"),
        detail: format!("there is no {field} `{name}`"),
        hint,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use async_trait::async_trait;
    use serde_json::{Value, json};

    use super::*;
    use goalmill_common::plan::Plan;
    use goalmill_plan::validate::Policy;

    use crate::{PlanRequest, PlannerAnswer};

    struct Named(&'static str);

    #[async_trait]
    impl Planner for Named {
        fn name(&self) -> &'static str {
            self.0
        }
        async fn plan(&self, _: &PlanRequest) -> Result<PlannerAnswer, PlanningError> {
            Err(PlanningError::new("it only has a name"))
        }
    }

    #[test]
    fn the_planner_that_a_goal_names_comes_first_or_alone() {
        let pipeline = pipeline();
        let order = |planning: Value| -> Vec<&str> {
            pipeline.chosen(&goal(planning)).iter().map(|planner| planner.name()).collect()
        };
        assert_eq!(order(json!({})), ["a", "b"]);
        assert_eq!(order(json!({"planner": "b"})), ["b", "a"]);
        assert_eq!(order(json!({"planner": "spare"})), ["spare", "a", "b"]);
        assert_eq!(order(json!({"planner": "spare", "planner_only": true})), ["spare"]);
        assert_eq!(order(json!({"planner": "gone", "planner_only": true})), [""; 0]);
    }

    #[test]
    fn names_that_do_not_exist_are_told_with_those_that_do() {
        let pipeline = pipeline();
        let issues = |planning: Value| pipeline.choice_issues(&goal(planning));
        assert_eq!(issues(json!({"planner": "spare", "model": "m", "planner_only": false})), []);
        let found = issues(json!({"planner": "magic", "model": "n"}));
        assert_eq!(found[0].code, "UNKNOWN_PLANNER");
        assert!(found[0].hint.contains("`a`, `b`, `spare`"), "{found:?}");
        assert_eq!((found[1].code.as_str(), found[1].pointer.as_str()), ("UNKNOWN_MODEL", "/planning/model"));
    }

    fn goal(planning: Value) -> Goal {
        serde_json::from_value(json!({ "planning": planning })).expect("it is a goal")
    }

    fn pipeline() -> Pipeline {
        let planner = |name| Arc::new(Named(name)) as Arc<dyn Planner>;
        let route = Arc::new(|_: &mut Plan, _: &Policy| Ok((Vec::new(), Vec::new())));
        let mut pipeline = Pipeline::new(vec![planner("a"), planner("b")], Duration::from_secs(1), route);
        pipeline.offer(vec![planner("spare")], vec!["m".into()]);
        pipeline
    }
}
