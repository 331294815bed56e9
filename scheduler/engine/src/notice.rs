//! Notices that a run is in trouble, from what was ordered and answered, without a model.
//!
//! Four signs: an order that was given before, an answer that brings nothing new, an error that comes again, and a
//! model's own verdict that it goes in circles. None is raised before a few orders have been given: whoever begins
//! looks around, and that looks like going in circles. The verdict of a model (the *progress ledger* of Magentic-One,
//! A. Fourney et al., arXiv 2411.04468, 2024) is one more voice; the others need none.
//!
//! Pure and bounded: a [`Watch`] remembers the last [`Limits::remembered_max`] orders and answers only.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;

use goalmill_common::event::{Event, PlanEvent, Record, StepEvent};
use goalmill_common::failure::Failure;
use goalmill_common::id::StepId;
use goalmill_common::plan::Step;

/// What the signs need.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Orders, or answers where nobody gives orders, that go by before any sign is raised.
    pub turns_min: usize,
    /// Share of common words, 0 to 1, from which an order to the same agent counts as given before.
    pub order_similarity: f64,
    /// Share of common words, 0 to 1, from which an answer counts as nothing new.
    pub answer_similarity: f64,
    /// The same error of the same agent so many times, one after the other, is trouble.
    pub errors_min: u32,
    /// Orders and answers that are remembered.
    pub remembered_max: usize,
    /// Characters of a text that are looked at.
    pub chars_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            turns_min: 3,
            order_similarity: 0.6,
            answer_similarity: 0.8,
            errors_min: 2,
            remembered_max: 64,
            chars_max: 4_096,
        }
    }
}

/// What was said in a run, in order.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// Somebody was told to do something.
    Order { to: String, text: String },
    /// It was done.
    Answer { from: String, text: String },
    /// It went wrong; `code` is what kind of error it was.
    Error { from: String, code: String },
    /// A model looked at the run.
    Verdict { in_loop: bool, progress: bool },
}

/// Why a run seems to be in trouble. Places are those given to [`Watch::hear`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sign {
    /// The same agent was told much the same at `earlier`.
    RepeatedOrder { earlier: u64 },
    /// Much the same was answered at `earlier`.
    NothingNew { earlier: u64 },
    /// The same error for the `times`-th time.
    RepeatedError { code: String, times: u32 },
    /// A model says so itself.
    Stalled,
}

impl fmt::Display for Sign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RepeatedOrder { earlier } => write!(f, "much the same was ordered at event {earlier}"),
            Self::NothingNew { earlier } => write!(f, "much the same was answered at event {earlier}"),
            Self::RepeatedError { code, times } => write!(f, "`{code}` came {times} times without an answer between"),
            Self::Stalled => f.write_str("a model sees no progress"),
        }
    }
}

/// Listens to one run.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    limits: Limits,
    orders: usize,
    answers: usize,
    ordered: VecDeque<Heard>,
    answered: VecDeque<Heard>,
    /// By agent: the last error, and how often it came without anything else between.
    errors: BTreeMap<String, (String, u32)>,
}

#[derive(Clone, Debug)]
struct Heard {
    place: u64,
    who: String,
    words: BTreeSet<String>,
}

impl Watch {
    pub fn new(limits: Limits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Takes the next message, and tells when it is a sign of trouble.
    pub fn hear(&mut self, place: u64, message: &Message) -> Option<Sign> {
        let early = self.orders.max(self.answers) < self.limits.turns_min;
        let sign = match message {
            Message::Order { to, text } => {
                self.orders += 1;
                let heard = Heard::of(place, to, text, &self.limits);
                let earlier = earliest(&self.ordered, &heard, true, self.limits.order_similarity);
                remember(&mut self.ordered, heard, self.limits.remembered_max);
                earlier.map(|earlier| Sign::RepeatedOrder { earlier })
            }
            Message::Answer { from, text } => {
                self.answers += 1;
                self.errors.remove(from);
                let heard = Heard::of(place, from, text, &self.limits);
                let earlier = earliest(&self.answered, &heard, false, self.limits.answer_similarity);
                remember(&mut self.answered, heard, self.limits.remembered_max);
                earlier.map(|earlier| Sign::NothingNew { earlier })
            }
            Message::Error { from, code } => {
                self.answers += 1;
                let times = self.count_error(from, code);
                (times >= self.limits.errors_min).then(|| Sign::RepeatedError { code: code.clone(), times })
            }
            Message::Verdict { in_loop, progress } => (*in_loop || !progress).then_some(Sign::Stalled),
        };
        sign.filter(|_| !early)
    }

    fn count_error(&mut self, from: &str, code: &str) -> u32 {
        if self.errors.len() >= self.limits.remembered_max && !self.errors.contains_key(from) {
            self.errors.pop_first();
        }
        let (last, times) = self.errors.entry(from.to_owned()).or_default();
        if last != code {
            (*last, *times) = (code.to_owned(), 0);
        }
        *times = times.saturating_add(1);
        *times
    }
}

impl Heard {
    fn of(place: u64, who: &str, text: &str, limits: &Limits) -> Self {
        Self { place, who: who.to_owned(), words: words(text, limits.chars_max) }
    }
}

fn remember(all: &mut VecDeque<Heard>, heard: Heard, most: usize) {
    if all.len() >= most {
        all.pop_front();
    }
    all.push_back(heard);
}

/// The first place where much the same was said.
fn earliest(all: &VecDeque<Heard>, heard: &Heard, same_agent: bool, least: f64) -> Option<u64> {
    let alike =
        |other: &&Heard| (!same_agent || other.who == heard.who) && similarity(&other.words, &heard.words) >= least;
    all.iter().find(alike).map(|other| other.place)
}

/// Jaccard index: common words over all words; texts without words are not like anything.
fn similarity(a: &BTreeSet<String>, b: &BTreeSet<String>) -> f64 {
    if a.is_empty() || b.is_empty() {
        return 0.0;
    }
    let common = a.intersection(b).count();
    common as f64 / (a.len() + b.len() - common) as f64
}

/// Words in lower case; in scripts without spaces each character is one.
fn words(text: &str, chars_max: usize) -> BTreeSet<String> {
    let (mut words, mut word) = (BTreeSet::new(), String::new());
    for c in text.chars().take(chars_max) {
        if c >= '\u{2e80}' && c.is_alphanumeric() {
            words.insert(c.to_string());
        } else if c.is_alphanumeric() || c == '\'' {
            word.extend(c.to_lowercase());
            continue;
        }
        if !word.is_empty() {
            words.insert(std::mem::take(&mut word));
        }
    }
    if !word.is_empty() {
        words.insert(word);
    }
    words
}

/// Listens to a plan's log.
///
/// A step's first attempt is an order to its agent type; later attempts are the retry policy's and no new order. Ended
/// attempts are answers and errors.
#[derive(Clone, Debug, Default)]
pub struct PlanWatch {
    watch: Watch,
    steps: BTreeMap<StepId, Step>,
}

impl PlanWatch {
    pub fn new(limits: Limits) -> Self {
        Self { watch: Watch::new(limits), steps: BTreeMap::new() }
    }

    /// Forgets what was said: what comes now is held against what comes after it only.
    pub fn begin_again(&mut self) {
        self.watch = Watch::new(self.watch.limits);
    }

    /// Takes the next event; the place of a sign is an event's number.
    pub fn hear(&mut self, record: &Record) -> Option<Sign> {
        let message = match &record.event {
            Event::Plan(PlanEvent::PlanCreated(created)) => {
                self.steps = created.plan.steps.iter().map(|step| (step.id.clone(), step.clone())).collect();
                return None;
            }
            Event::Plan(_) => return None,
            Event::Step { step, attempt, event } => self.message(step, *attempt, event)?,
        };
        self.watch.hear(record.seq, &message)
    }

    fn message(&mut self, id: &StepId, attempt: u32, event: &StepEvent) -> Option<Message> {
        let agent = |step: &Step| step.agent_type.to_string();
        match event {
            StepEvent::Added(added) => {
                self.steps.insert(id.clone(), added.step.clone());
                None
            }
            StepEvent::Modified(modified) => {
                self.steps.insert(id.clone(), modified.step.clone());
                None
            }
            StepEvent::Queued(queued) if attempt <= 1 && !queued.agent_type.as_str().is_empty() => {
                let step = self.steps.get(id)?;
                let text = format!("{} {} {}", step.description, step.action, step.inputs.text());
                Some(Message::Order { to: agent(step), text })
            }
            StepEvent::Completed(completed) => {
                let step = self.steps.get(id)?;
                Some(Message::Answer { from: agent(step), text: completed.outputs.text().to_owned() })
            }
            StepEvent::Retrying(retrying) => Some(error(self.steps.get(id)?, &retrying.failure)),
            StepEvent::Failed(failed) => Some(error(self.steps.get(id)?, &failed.failure)),
            StepEvent::Skipped(skipped) => Some(error(self.steps.get(id)?, skipped.failure.as_ref()?)),
            StepEvent::QuestionAsked(_)
            | StepEvent::Answered(_)
            | StepEvent::Recalled(_)
            | StepEvent::Decomposed(_)
            | StepEvent::Queued(_)
            | StepEvent::Removed(_)
            | StepEvent::Ready
            | StepEvent::Blocked(_)
            | StepEvent::ApprovalRequested(_)
            | StepEvent::Approved(_)
            | StepEvent::Started(_)
            | StepEvent::Progress(_)
            | StepEvent::Released(_)
            | StepEvent::Cancelled(_) => None,
        }
    }
}

fn error(step: &Step, failure: &Failure) -> Message {
    Message::Error { from: step.agent_type.to_string(), code: failure.code.clone() }
}

#[cfg(test)]
mod tests {
    use goalmill_common::event::{StepCompleted, StepFailed, StepQueued};
    use goalmill_common::failure::FailureClass;
    use goalmill_common::json::Json;
    use goalmill_common::plan::Plan;

    use super::*;

    fn order(text: &str) -> Message {
        Message::Order { to: "web".into(), text: text.into() }
    }

    fn answer(text: &str) -> Message {
        Message::Answer { from: "web".into(), text: text.into() }
    }

    fn hear_all(watch: &mut Watch, messages: &[Message]) -> Vec<(u64, Sign)> {
        let numbered = messages.iter().zip(0..);
        numbered.filter_map(|(message, place)| watch.hear(place, message).map(|sign| (place, sign))).collect()
    }

    #[test]
    fn an_order_in_other_words_is_new_and_in_the_same_words_is_not() {
        let messages = ["find the opening hours", "read the menu", "list the prices", "ask for a table"].map(order);
        let mut watch = Watch::default();
        assert_eq!(hear_all(&mut watch, &messages), []);
        let again = order("please find the opening hours");
        assert_eq!(watch.hear(9, &again), Some(Sign::RepeatedOrder { earlier: 0 }));
        let other_agent = Message::Order { to: "files".into(), text: "find the opening hours".into() };
        assert_eq!(watch.hear(10, &other_agent), None);
    }

    #[test]
    fn nothing_is_raised_while_a_run_begins() {
        let twice =
            [order("find the hours"), order("find the hours"), Message::Verdict { in_loop: true, progress: true }];
        assert_eq!(hear_all(&mut Watch::default(), &twice), []);
        let mut hasty = Watch::new(Limits { turns_min: 0, ..Limits::default() });
        assert_eq!(hear_all(&mut hasty, &twice), [(1, Sign::RepeatedOrder { earlier: 0 }), (2, Sign::Stalled)]);
    }

    #[test]
    fn an_answer_that_was_given_before_is_nothing_new() {
        let mut watch = Watch::new(Limits { turns_min: 0, ..Limits::default() });
        assert_eq!(watch.hear(1, &answer("page 3 of the museum's web site")), None);
        assert_eq!(watch.hear(2, &answer("tickets cost twelve euros")), None);
        assert_eq!(watch.hear(3, &answer("Page 3 of the museum's web site.")), Some(Sign::NothingNew { earlier: 1 }));
        assert_eq!(watch.hear(4, &answer("")), None);
        assert_eq!(watch.hear(5, &answer("")), None);
    }

    #[test]
    fn an_error_is_trouble_when_it_comes_again_without_an_answer_between() {
        let mut watch = Watch::new(Limits { turns_min: 0, ..Limits::default() });
        let error = |code: &str| Message::Error { from: "web".into(), code: code.into() };
        assert_eq!(watch.hear(1, &error("HTTP_503")), None);
        assert_eq!(watch.hear(2, &error("HTTP_404")), None);
        let again = Sign::RepeatedError { code: "HTTP_404".into(), times: 2 };
        assert_eq!(watch.hear(3, &error("HTTP_404")), Some(again));
        assert_eq!(watch.hear(4, &answer("at last")), None);
        assert_eq!(watch.hear(5, &error("HTTP_404")), None);
    }

    #[test]
    fn scripts_without_spaces_are_compared_by_character() {
        assert!(similarity(&words("查找酒店价格", 99), &words("查找酒店的价格", 99)) > 0.8);
        assert_eq!(words("It's 2 Fast", 99), ["2", "fast", "it's"].map(String::from).into());
    }

    #[test]
    fn memory_is_bounded() {
        let mut watch = Watch::new(Limits { turns_min: 0, remembered_max: 2, ..Limits::default() });
        for (place, text) in ["one", "two", "three", "one"].into_iter().enumerate() {
            assert_eq!(watch.hear(place as u64, &order(text)), None, "`{text}` was forgotten");
        }
    }

    #[test]
    fn retries_are_no_orders_but_their_errors_count() {
        let mut plan = Plan::default();
        for id in ["a", "b"] {
            let mut step = Step::new(id, "web");
            step.description = format!("look for {id}");
            plan.steps.push(step);
        }
        let mut watch = PlanWatch::new(Limits { turns_min: 1, ..Limits::default() });
        watch.steps = plan.steps.iter().map(|step| (step.id.clone(), step.clone())).collect();
        let mut seq = 0;
        let mut hear = |step: &str, attempt: u32, event: StepEvent| {
            seq += 1;
            let event = Event::Step { step: step.into(), attempt, event };
            watch.hear(&Record { seq, time_ms: 0, actor: None, event })
        };
        let queued =
            || StepEvent::Queued(Box::new(StepQueued { agent_type: "web".into(), due_ms: 0, cache_key: None }));
        let failed = || {
            let failure = Failure::new(FailureClass::Permanent, "HTTP_404", "no such page");
            StepEvent::Failed(Box::new(StepFailed { failure, cost: 0.0, tokens: 0 }))
        };
        assert_eq!(hear("a", 1, queued()), None);
        assert_eq!(hear("a", 2, queued()), None);
        assert_eq!(hear("a", 2, failed()), None);
        assert_eq!(hear("b", 1, failed()), Some(Sign::RepeatedError { code: "HTTP_404".into(), times: 2 }));
        let done = || {
            let outputs = Json::of(&["the museum is closed"]);
            StepEvent::Completed(Box::new(StepCompleted {
                outputs,
                finished_ms: None,
                cost: 0.0,
                tokens: 0,
                cache_key: None,
                adjustments: None,
            }))
        };
        assert_eq!(hear("a", 3, done()), None);
        assert_eq!(hear("b", 2, done()), Some(Sign::NothingNew { earlier: 5 }));
    }
}
