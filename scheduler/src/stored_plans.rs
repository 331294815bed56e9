//! Stored plans: documents under names, with numbered versions that never change.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::{StreamExt, TryStreamExt, stream};
use goalmill_broker::{Broker, BrokerError};
use goalmill_common::config::StoredPlanSettings;
use goalmill_common::id::Namespace;
use goalmill_common::limits::Limits;
use goalmill_common::problem::{ErrorCode, Issue, Problem};
use goalmill_common::stored_plan::{Retirement, StoredPlanRef, StoredPlanVersion, StoredPlanView};
use goalmill_plan::document;
use goalmill_plan::stored_plans::{PlanUse, put_documents, uses};
use goalmill_planning::{OfferedPlans, named_versions, nearest_plans};
use serde_json::Value;

use crate::scheduler::Scheduler;

/// Names that are looked at concurrently.
const AT_ONCE: usize = 16;

/// Whose stored plans a document may use.
#[derive(Clone, Debug)]
pub(crate) struct PlanScope {
    /// That of the sender.
    pub(crate) namespace: Namespace,
    /// Whether a document that names another namespace uses the plans of that one.
    pub(crate) sees_all: bool,
}

/// The stored plans of a namespace.
pub(crate) struct StoredPlans<'s> {
    broker: &'s dyn Broker,
    settings: &'s StoredPlanSettings,
    namespace: &'s Namespace,
}

impl<'s> StoredPlans<'s> {
    pub(crate) fn new(scheduler: &'s Scheduler, namespace: &'s Namespace) -> Self {
        Self { broker: scheduler.broker.as_ref(), settings: &scheduler.settings.stored_plans, namespace }
    }

    /// Stores a document as the next version of its name, unless it equals the newest one, which is then returned. Says
    /// whether the version is new. Two concurrent calls give two versions.
    ///
    /// - `plan`: its version is replaced.
    pub(crate) async fn put(&self, mut plan: StoredPlanVersion) -> Result<(StoredPlanView, bool), Problem> {
        let name = plan.view.name.clone();
        let bytes = plan.document.to_string().len();
        if bytes > self.settings.bytes_max {
            let most = self.settings.bytes_max;
            let detail = format!("the document has {bytes} bytes, more than `stored_plans.bytes_max` ({most})");
            return Err(Problem::new(ErrorCode::BodyTooLarge, detail));
        }
        loop {
            let newest = self.newest(&name).await?;
            if newest == 0 {
                self.check_names().await?;
            } else {
                let last = self.version(&name, newest).await?;
                if last.view.retired.is_none() && last.document == plan.document {
                    self.list_newest(&last.view).await?;
                    return Ok((last.view, false));
                }
            }
            if newest >= self.settings.versions_max {
                let detail = format!("`{name}` has {newest} versions (`stored_plans.versions_max`); take another name");
                return Err(Problem::new(ErrorCode::NamespaceLimitReached, detail));
            }
            plan.view.version = newest + 1;
            let documents = self.broker.keys().stored_plan_documents(self.namespace, &name);
            if self.broker.add_field(&documents, &plan.view.version.to_string(), &json(&plan)).await? {
                self.list_newest(&plan.view).await?;
                return Ok((plan.view, true));
            }
        }
    }

    async fn check_names(&self) -> Result<(), Problem> {
        let names = self.broker.fields(&self.broker.keys().stored_plans(self.namespace)).await?.len();
        if names < self.settings.names_max {
            return Ok(());
        }
        let detail = format!("the namespace `{}` has {names} names (`stored_plans.names_max`)", self.namespace);
        Err(Problem::new(ErrorCode::NamespaceLimitReached, detail))
    }

    /// Lists a name with its newest version.
    async fn list_newest(&self, view: &StoredPlanView) -> Result<(), BrokerError> {
        let view = StoredPlanView { retired: None, ..view.clone() };
        self.broker.put_field(&self.broker.keys().stored_plans(self.namespace), &view.name, &json(&view)).await
    }

    /// The newest version of every name, by name.
    pub(crate) async fn list(&self) -> Result<Vec<StoredPlanView>, Problem> {
        let names = self.broker.fields(&self.broker.keys().stored_plans(self.namespace)).await?;
        let look = async |(name, text): (String, String)| {
            let listed = serde_json::from_str::<StoredPlanView>(&text).ok();
            let newest = self.newest_from(&name, listed.as_ref().map_or(0, |view| view.version)).await?;
            match listed.filter(|view| view.version == newest) {
                Some(view) => Ok(StoredPlanView { retired: self.retirement(&name, newest).await?, ..view }),
                None => Ok(self.version(&name, newest).await?.view),
            }
        };
        stream::iter(names.into_iter().map(look)).buffered(AT_ONCE).try_collect().await
    }

    async fn offer(&self, text: &str, limits: &Limits) -> Result<OfferedPlans, Problem> {
        let mut views = Vec::new();
        for view in self.list().await? {
            let current = match view.retired {
                None => Some(view),
                Some(_) => Some(self.get(&StoredPlanRef { name: view.name, version: None }).await?.view),
            };
            views.extend(current.filter(|view| view.retired.is_none()));
        }
        let nearest = nearest_plans(views, text);
        let mut wanted: Vec<StoredPlanRef> = nearest.iter().map(StoredPlanView::reference).collect();
        if !wanted.is_empty() {
            wanted.extend(named_versions(text).into_iter().filter(|plan| !wanted.contains(plan)).collect::<Vec<_>>());
        }
        let (mut plans, mut refused, mut bytes) = (Vec::new(), BTreeMap::new(), 0_usize);
        for plan in wanted {
            let read = match self.get_current(&plan).await {
                Ok(mut version) => self.put_into(&mut version.document, limits).await.map(|()| version),
                Err(problem) => Err(problem),
            };
            match read {
                Ok(version) => {
                    let size = version.document.to_string().len();
                    if bytes.saturating_add(size) <= limits.plan_bytes_max {
                        bytes += size;
                        plans.push(version);
                    }
                }
                Err(problem) if problem.code.is_retryable() => return Err(problem),
                Err(problem) => {
                    let code = problem.errors.first().map_or(problem.code.as_str(), |issue| issue.code.as_str());
                    refused.insert(plan, (code.to_owned(), problem.detail));
                }
            }
        }
        Ok(OfferedPlans::new(plans, refused))
    }

    /// Puts the documents of the stored plans that a draft uses in their places, each with its version.
    async fn put_into(&self, draft: &mut Value, limits: &Limits) -> Result<(), Problem> {
        let (mut known, mut bytes) = (BTreeMap::new(), 0_usize);
        for depth in 0.. {
            let found = uses(draft);
            if found.is_empty() {
                break;
            }
            if depth >= limits.depth_max {
                let issues = found.iter().map(|place| too_deep(place, limits.depth_max)).collect();
                return Err(refused(ErrorCode::InvalidPlan, issues));
            }
            let mut issues = Vec::new();
            let mut seen = BTreeSet::new();
            for place in &found {
                if !known.contains_key(&place.plan) && seen.insert(&place.plan) {
                    match self.get_current(&place.plan).await {
                        Ok(plan) => drop(known.insert(place.plan.clone(), (plan.view.reference(), plan.document))),
                        Err(problem) if problem.code.is_retryable() => return Err(problem),
                        Err(problem) => issues.push(issue(place, problem.code.as_str(), problem.detail)),
                    }
                }
                let document = known.get(&place.plan).map_or(0, |(_, document)| document.to_string().len());
                bytes = bytes.saturating_add(document);
                if bytes > limits.plan_bytes_max {
                    let most = limits.plan_bytes_max;
                    let detail = format!("with the stored plans that it uses the plan has more than {most} bytes");
                    issues.push(issue(place, "PLAN_TOO_LARGE", detail));
                    break;
                }
            }
            if !issues.is_empty() {
                return Err(refused(ErrorCode::InvalidPlan, issues));
            }
            put_documents(draft, &known);
        }
        Ok(())
    }

    /// The versions of a name, the newest first.
    pub(crate) async fn versions(&self, name: &str) -> Result<Vec<StoredPlanView>, Problem> {
        let newest = self.newest(name).await?;
        let mut views = Vec::new();
        for version in (1..=newest).rev() {
            views.push(self.version(name, version).await?.view);
        }
        if views.is_empty() { Err(self.unknown(name)) } else { Ok(views) }
    }

    /// A version; of a name alone the newest that is not retired, or else the newest.
    pub(crate) async fn get(&self, plan: &StoredPlanRef) -> Result<StoredPlanVersion, Problem> {
        if let Some(version) = plan.version {
            return self.version(&plan.name, version).await;
        }
        let newest = self.newest(&plan.name).await?;
        let retired = self.broker.fields(&self.broker.keys().retired_plans(self.namespace, &plan.name)).await?;
        let current = (1..=newest).rev().find(|version| !retired.contains_key(&version.to_string()));
        match current.or(Some(newest)).filter(|version| *version > 0) {
            Some(version) => self.version(&plan.name, version).await,
            None => Err(self.unknown(&plan.name)),
        }
    }

    /// The version that a new plan begins from; a retired one is refused.
    pub(crate) async fn get_current(&self, plan: &StoredPlanRef) -> Result<StoredPlanVersion, Problem> {
        let found = self.get(plan).await?;
        match &found.view.retired {
            Some(Retirement { actor, at, .. }) => {
                let version = found.view.reference();
                let detail = format!("`{version}` was retired by `{actor}` at {at}; no new plan begins from it");
                Err(Problem::new(ErrorCode::StoredPlanRetired, detail))
            }
            None => Ok(found),
        }
    }

    /// Retires a version: no new plan begins from it, those that run continue. The first call counts.
    pub(crate) async fn retire(
        &self,
        name: &str,
        version: u32,
        retirement: &Retirement,
    ) -> Result<StoredPlanView, Problem> {
        self.version(name, version).await?;
        let retired = self.broker.keys().retired_plans(self.namespace, name);
        self.broker.add_field(&retired, &version.to_string(), &json(retirement)).await?;
        Ok(self.version(name, version).await?.view)
    }

    /// The number of the newest version; 0 for a name that is not there.
    async fn newest(&self, name: &str) -> Result<u32, BrokerError> {
        let listed = self.broker.get_field(&self.broker.keys().stored_plans(self.namespace), name).await?;
        let view = listed.and_then(|text| serde_json::from_str::<StoredPlanView>(&text).ok());
        self.newest_from(name, view.map_or(0, |view| view.version)).await
    }

    /// Goes on from a version that is there: the list of names may lag.
    async fn newest_from(&self, name: &str, mut version: u32) -> Result<u32, BrokerError> {
        let documents = self.broker.keys().stored_plan_documents(self.namespace, name);
        while self.broker.get_field(&documents, &(version + 1).to_string()).await?.is_some() {
            version += 1;
        }
        Ok(version)
    }

    async fn version(&self, name: &str, version: u32) -> Result<StoredPlanVersion, Problem> {
        let documents = self.broker.keys().stored_plan_documents(self.namespace, name);
        let text = self.broker.get_field(&documents, &version.to_string()).await?;
        let text = text.ok_or_else(|| self.unknown(&StoredPlanRef::new(name, version).to_string()))?;
        let mut plan: StoredPlanVersion = serde_json::from_str(&text).map_err(|error| {
            Problem::new(ErrorCode::Internal, format!("version {version} of `{name}` cannot be read: {error}"))
        })?;
        plan.view.retired = self.retirement(name, version).await?;
        Ok(plan)
    }

    async fn retirement(&self, name: &str, version: u32) -> Result<Option<Retirement>, BrokerError> {
        let retired = self.broker.keys().retired_plans(self.namespace, name);
        let text = self.broker.get_field(&retired, &version.to_string()).await?;
        Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
    }

    fn unknown(&self, plan: &str) -> Problem {
        let detail = format!("the namespace `{}` has no stored plan `{plan}`", self.namespace);
        Problem::new(ErrorCode::StoredPlanNotFound, detail)
    }
}

/// Puts the documents of the stored plans that a draft uses in their places, each with its version.
///
/// Stored plans may use others, as deep as plans may be nested; all of them together have at most
/// `limits.plan_bytes_max` bytes.
pub(crate) async fn resolve_uses(scheduler: &Scheduler, mut draft: Value, scope: &PlanScope) -> Result<Value, Problem> {
    let namespace = namespace_of(&draft).filter(|_| scope.sees_all).unwrap_or_else(|| scope.namespace.clone());
    let plans = StoredPlans::new(scheduler, &namespace);
    plans.put_into(&mut draft, &scheduler.settings.limits).await?;
    Ok(draft)
}

/// The stored plans of a namespace that the planners of a goal may use: of many names those nearest to a text, in their
/// newest versions that are not retired, and the versions that the text names. All together have at most
/// `limits.plan_bytes_max` bytes. None where the store cannot be read: planners can do without.
///
/// - `text`: the goal, and why it is planned.
pub(crate) async fn offered_plans(scheduler: &Scheduler, namespace: &Namespace, text: &str) -> OfferedPlans {
    let offered = StoredPlans::new(scheduler, namespace).offer(text, &scheduler.settings.limits).await;
    offered.unwrap_or_else(|problem| {
        tracing::warn!(
            namespace = namespace.as_str(),
            "the stored plans of `{namespace}` are not offered to planners: {}",
            problem.detail
        );
        OfferedPlans::default()
    })
}

/// The namespace that the goal of a document names.
fn namespace_of(draft: &Value) -> Option<Namespace> {
    let goal = document::split_goal(draft)?;
    let name = goal.get("namespace").or_else(|| goal.get("tenant"))?.as_str()?;
    goalmill_common::id::is_id(name).then(|| name.into())
}

fn too_deep(place: &PlanUse, depth_max: u32) -> Issue {
    let detail = format!("with the stored plans that it uses the plan is nested more than {depth_max} deep");
    issue(place, "PLAN_TOO_DEEP", detail)
}

fn issue(place: &PlanUse, code: &str, detail: String) -> Issue {
    let hint = "`goalmill plan list --stored` lists the stored plans and their versions";
    Issue { code: code.into(), pointer: place.pointer.clone(), detail, hint: hint.into() }
}

fn refused(code: ErrorCode, issues: Vec<Issue>) -> Problem {
    let detail = issues.first().map(|issue| issue.detail.clone()).unwrap_or_default();
    Problem::new(code, detail).with_errors(issues)
}

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("a stored plan always has a JSON text")
}
