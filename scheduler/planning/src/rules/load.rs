//! Loads rules: built in, or from a directory of YAML files.

use std::path::Path;

use super::rule::Rule;
use crate::load::{self, LoadError};

/// The rules that are shipped, by file name.
const BUILT_IN: [(&str, &str); 93] = [
    ("accounting.yaml", include_str!("../../../../config/rules/accounting.yaml")),
    ("advice.yaml", include_str!("../../../../config/rules/advice.yaml")),
    ("application.yaml", include_str!("../../../../config/rules/application.yaml")),
    ("appraisal.yaml", include_str!("../../../../config/rules/appraisal.yaml")),
    ("audit.yaml", include_str!("../../../../config/rules/audit.yaml")),
    ("backup.yaml", include_str!("../../../../config/rules/backup.yaml")),
    ("booking.yaml", include_str!("../../../../config/rules/booking.yaml")),
    ("budget.yaml", include_str!("../../../../config/rules/budget.yaml")),
    ("bug_fix.yaml", include_str!("../../../../config/rules/bug_fix.yaml")),
    ("business_plan.yaml", include_str!("../../../../config/rules/business_plan.yaml")),
    ("campaign.yaml", include_str!("../../../../config/rules/campaign.yaml")),
    ("cancellation.yaml", include_str!("../../../../config/rules/cancellation.yaml")),
    ("care.yaml", include_str!("../../../../config/rules/care.yaml")),
    ("cause_analysis.yaml", include_str!("../../../../config/rules/cause_analysis.yaml")),
    ("claim.yaml", include_str!("../../../../config/rules/claim.yaml")),
    ("code_cleanup.yaml", include_str!("../../../../config/rules/code_cleanup.yaml")),
    ("collection.yaml", include_str!("../../../../config/rules/collection.yaml")),
    ("comparison.yaml", include_str!("../../../../config/rules/comparison.yaml")),
    ("complaint.yaml", include_str!("../../../../config/rules/complaint.yaml")),
    ("content.yaml", include_str!("../../../../config/rules/content.yaml")),
    ("contract.yaml", include_str!("../../../../config/rules/contract.yaml")),
    ("conversion.yaml", include_str!("../../../../config/rules/conversion.yaml")),
    ("correspondence.yaml", include_str!("../../../../config/rules/correspondence.yaml")),
    ("customer_reply.yaml", include_str!("../../../../config/rules/customer_reply.yaml")),
    ("data_analysis.yaml", include_str!("../../../../config/rules/data_analysis.yaml")),
    ("data_cleaning.yaml", include_str!("../../../../config/rules/data_cleaning.yaml")),
    ("design.yaml", include_str!("../../../../config/rules/design.yaml")),
    ("documentation.yaml", include_str!("../../../../config/rules/documentation.yaml")),
    ("event.yaml", include_str!("../../../../config/rules/event.yaml")),
    ("experiment.yaml", include_str!("../../../../config/rules/experiment.yaml")),
    ("faq.yaml", include_str!("../../../../config/rules/faq.yaml")),
    ("feature.yaml", include_str!("../../../../config/rules/feature.yaml")),
    ("file_sorting.yaml", include_str!("../../../../config/rules/file_sorting.yaml")),
    ("fundraising.yaml", include_str!("../../../../config/rules/fundraising.yaml")),
    ("gardening.yaml", include_str!("../../../../config/rules/gardening.yaml")),
    ("generic.yaml", include_str!("../../../../config/rules/generic.yaml")),
    ("giving_away.yaml", include_str!("../../../../config/rules/giving_away.yaml")),
    ("handover.yaml", include_str!("../../../../config/rules/handover.yaml")),
    ("hiring.yaml", include_str!("../../../../config/rules/hiring.yaml")),
    ("household_task.yaml", include_str!("../../../../config/rules/household_task.yaml")),
    ("ideas.yaml", include_str!("../../../../config/rules/ideas.yaml")),
    ("improvement.yaml", include_str!("../../../../config/rules/improvement.yaml")),
    ("incident.yaml", include_str!("../../../../config/rules/incident.yaml")),
    ("interview.yaml", include_str!("../../../../config/rules/interview.yaml")),
    ("interview_preparation.yaml", include_str!("../../../../config/rules/interview_preparation.yaml")),
    ("inventory.yaml", include_str!("../../../../config/rules/inventory.yaml")),
    ("job_application.yaml", include_str!("../../../../config/rules/job_application.yaml")),
    ("job_description.yaml", include_str!("../../../../config/rules/job_description.yaml")),
    ("lesson.yaml", include_str!("../../../../config/rules/lesson.yaml")),
    ("letting.yaml", include_str!("../../../../config/rules/letting.yaml")),
    ("maintenance.yaml", include_str!("../../../../config/rules/maintenance.yaml")),
    ("market_research.yaml", include_str!("../../../../config/rules/market_research.yaml")),
    ("meal_plan.yaml", include_str!("../../../../config/rules/meal_plan.yaml")),
    ("media_production.yaml", include_str!("../../../../config/rules/media_production.yaml")),
    ("meeting.yaml", include_str!("../../../../config/rules/meeting.yaml")),
    ("migration.yaml", include_str!("../../../../config/rules/migration.yaml")),
    ("minutes.yaml", include_str!("../../../../config/rules/minutes.yaml")),
    ("model_training.yaml", include_str!("../../../../config/rules/model_training.yaml")),
    ("monitoring.yaml", include_str!("../../../../config/rules/monitoring.yaml")),
    ("negotiation.yaml", include_str!("../../../../config/rules/negotiation.yaml")),
    ("newsletter.yaml", include_str!("../../../../config/rules/newsletter.yaml")),
    ("onboarding.yaml", include_str!("../../../../config/rules/onboarding.yaml")),
    ("policy.yaml", include_str!("../../../../config/rules/policy.yaml")),
    ("presentation.yaml", include_str!("../../../../config/rules/presentation.yaml")),
    ("press_release.yaml", include_str!("../../../../config/rules/press_release.yaml")),
    ("product_launch.yaml", include_str!("../../../../config/rules/product_launch.yaml")),
    ("purchase.yaml", include_str!("../../../../config/rules/purchase.yaml")),
    ("release.yaml", include_str!("../../../../config/rules/release.yaml")),
    ("relocation.yaml", include_str!("../../../../config/rules/relocation.yaml")),
    ("renovation.yaml", include_str!("../../../../config/rules/renovation.yaml")),
    ("repair.yaml", include_str!("../../../../config/rules/repair.yaml")),
    ("research.yaml", include_str!("../../../../config/rules/research.yaml")),
    ("restore.yaml", include_str!("../../../../config/rules/restore.yaml")),
    ("review.yaml", include_str!("../../../../config/rules/review.yaml")),
    ("risk_assessment.yaml", include_str!("../../../../config/rules/risk_assessment.yaml")),
    ("roadmap.yaml", include_str!("../../../../config/rules/roadmap.yaml")),
    ("sale.yaml", include_str!("../../../../config/rules/sale.yaml")),
    ("schedule.yaml", include_str!("../../../../config/rules/schedule.yaml")),
    ("search.yaml", include_str!("../../../../config/rules/search.yaml")),
    ("security_check.yaml", include_str!("../../../../config/rules/security_check.yaml")),
    ("setup.yaml", include_str!("../../../../config/rules/setup.yaml")),
    ("status_report.yaml", include_str!("../../../../config/rules/status_report.yaml")),
    ("stock_reorder.yaml", include_str!("../../../../config/rules/stock_reorder.yaml")),
    ("summary.yaml", include_str!("../../../../config/rules/summary.yaml")),
    ("survey.yaml", include_str!("../../../../config/rules/survey.yaml")),
    ("task_automation.yaml", include_str!("../../../../config/rules/task_automation.yaml")),
    ("technical_design.yaml", include_str!("../../../../config/rules/technical_design.yaml")),
    ("testing.yaml", include_str!("../../../../config/rules/testing.yaml")),
    ("training_plan.yaml", include_str!("../../../../config/rules/training_plan.yaml")),
    ("translation.yaml", include_str!("../../../../config/rules/translation.yaml")),
    ("travel.yaml", include_str!("../../../../config/rules/travel.yaml")),
    ("user_research.yaml", include_str!("../../../../config/rules/user_research.yaml")),
    ("website.yaml", include_str!("../../../../config/rules/website.yaml")),
];

/// The shipped rules.
pub(super) fn built_in() -> Vec<Rule> {
    BUILT_IN.iter().map(|(_, text)| Rule::from_yaml(text).expect("the shipped rules are well formed")).collect()
}

/// Every `*.yaml` and `*.yml` file of a directory, in the order of their names.
///
/// A directory without a rule that takes everything gets the shipped generic one.
pub(super) fn from_dir(dir: &Path) -> Result<Vec<Rule>, LoadError> {
    let mut rules = load::from_dir(dir, "rule", Rule::from_yaml, |rule| &rule.id)?;
    if rules.iter().all(|rule| rule.matching.is_some()) {
        rules.extend(built_in().into_iter().filter(|rule| rule.matching.is_none()));
    }
    Ok(rules)
}
