//! The states of a plan under construction, one type each.
//!
//! A draft is a document in any accepted spelling ([`Value`](serde_json::Value)). Only validation turns it into a
//! [`ValidPlan`], and only routing turns that into a [`RoutedPlan`]: nothing is validated or routed twice.

use goalmill_common::command::Planned;
use goalmill_common::event::Route;
use goalmill_common::plan::Plan;
use goalmill_common::problem::Issue;

/// The choices of the router and its warnings.
pub type Routing = (Vec<Route>, Vec<Issue>);

/// A plan that passed validation, in its canonical form.
#[derive(Clone, Debug, PartialEq)]
pub struct ValidPlan {
    plan: Plan,
    warnings: Vec<Issue>,
}

impl ValidPlan {
    pub(crate) fn new(plan: Plan, warnings: Vec<Issue>) -> Self {
        Self { plan, warnings }
    }

    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    pub fn into_plan(self) -> Plan {
        self.plan
    }

    pub fn warnings(&self) -> &[Issue] {
        &self.warnings
    }

    /// The same with notes on how the document was read, before the warnings.
    #[must_use]
    pub fn with_notes(mut self, notes: Vec<Issue>) -> Self {
        self.warnings.splice(0..0, notes);
        self
    }

    /// Changes what validation does not depend on: the name, the goal's own limits, failure policies, a checkpoint.
    #[must_use]
    pub fn with_policies(mut self, edit: impl FnOnce(&mut Plan)) -> Self {
        edit(&mut self.plan);
        self
    }

    /// Lets a router choose an agent type for each `auto` step; its warnings follow those of validation.
    pub fn route(
        mut self,
        router: impl FnOnce(&mut Plan) -> Result<Routing, Vec<Issue>>,
    ) -> Result<RoutedPlan, Vec<Issue>> {
        let (routes, warnings) = router(&mut self.plan)?;
        self.warnings.extend(warnings);
        Ok(RoutedPlan { plan: self.plan, warnings: self.warnings, routes })
    }

    /// Takes the agent types as they are: for previews, and for plans that name one in every step.
    pub fn without_routing(self) -> RoutedPlan {
        RoutedPlan { plan: self.plan, warnings: self.warnings, routes: Vec::new() }
    }
}

/// A valid plan in which every step has an agent type. It may run.
#[derive(Clone, Debug, PartialEq)]
pub struct RoutedPlan {
    plan: Plan,
    warnings: Vec<Issue>,
    routes: Vec<Route>,
}

impl RoutedPlan {
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The plan, its warnings and the router's choices.
    pub fn into_parts(self) -> (Plan, Vec<Issue>, Vec<Route>) {
        (self.plan, self.warnings, self.routes)
    }

    /// The plan of a client.
    pub fn submitted(self) -> Planned {
        Planned::submitted(self.plan, self.warnings, self.routes)
    }
}
