//! Steps that wait for a time or an event: they hold no worker, no place in `max_parallel` and no resource.

pub(crate) mod event_store;
pub(crate) mod family_events;

use goalmill_common::clock::rfc3339;
use goalmill_common::event::{PlanEvent, SkipCause, StepCompleted, StepEvent, StepSkipped, StepWaitStarted};
use goalmill_common::external_event::{ExternalEvent, KEY_CHARS_MAX};
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::json::Json;
use goalmill_common::json_limits;
use goalmill_common::plan::{OnTimeout, StepWait};
use goalmill_common::problem::Issue;
use goalmill_common::status::StepStatus;
use goalmill_common::view::WaitView;
use goalmill_plan::document::issue;
use goalmill_plan::document::time::rendered_time_ms;
use serde_json::json;

use crate::attempt::output_check::schema_mismatch;
use crate::attempt::report::Spent;
use crate::decide::Turn;
use crate::graph::StepIndex;
use crate::render::Unrendered;
use crate::sub_plan::family::FamilyRequest;
use crate::wait::event_store::AwaitedEvent;
use crate::{PlanState, Rejection};

/// Longest value of an expression that a failure quotes, in characters.
const QUOTED_CHARS_MAX: usize = 100;

impl Turn<'_> {
    /// Begins the wait of a ready step.
    pub(crate) fn start_wait(&mut self, i: StepIndex) {
        self.count_work(0);
        let wait = self.state.plan.step(i).wait.clone().unwrap_or_default();
        let started = match &wait.event {
            Some(event) => self.event_wait(i, &wait, event),
            None => self.wait_end(i, &wait).map(|due_ms| StepWaitStarted {
                due_ms: due_ms.max(1),
                event: String::new(),
                key: String::new(),
            }),
        };
        let started = match started {
            Ok(started) => started,
            Err(why) => return self.put_off(i, why),
        };
        self.forget_payloads(i);
        let (due_ms, is_event) = (started.due_ms, wait.event.is_some());
        self.emit_step(i, StepEvent::WaitStarted(Box::new(started)));
        if is_event {
            self.take_kept_event(i);
        } else if due_ms <= self.now_ms {
            self.end_wait(i);
        }
    }

    /// When the wait for a time ends, Unix milliseconds.
    fn wait_end(&self, i: StepIndex, wait: &StepWait) -> Result<u64, Unrendered> {
        let due_ms = match (wait.for_ms, &wait.until) {
            (Some(for_ms), _) => self.after(for_ms),
            (None, Some(until)) => {
                let text = self.expressions(i).text(until)?;
                rendered_time_ms(&text, wait.tz.as_deref())
                    .map_err(|why| failed("WAIT_TIME_INVALID", format!("`until` gives `{}`: {why}", quoted(&text))))?
            }
            (None, None) => return Err(failed("WAIT_TIME_INVALID", "nothing says how long the step waits".into())),
        };
        let deadline_ms = self.state.end_due_ms();
        if due_ms > deadline_ms {
            let message = format!(
                "the step would wait until {}, and the plan ends at {}: give the goal a later `deadline`, or raise \
                 `limits.plan_ms_max`",
                rfc3339(due_ms),
                rfc3339(deadline_ms)
            );
            return Err(failed("WAIT_TOO_LONG", message));
        }
        Ok(due_ms)
    }

    fn event_wait(&self, i: StepIndex, wait: &StepWait, event: &str) -> Result<StepWaitStarted, Unrendered> {
        let key = match &wait.key {
            Some(key) => match self.expressions(i).wait_key(key)? {
                Some(key) => key,
                None => {
                    let message = format!("`key` is `{}`, which gives neither a text nor a whole number", quoted(key));
                    return Err(failed("WAIT_KEY_INVALID", message));
                }
            },
            None => String::new(),
        };
        let is_key = !key.is_empty() && key.chars().count() <= KEY_CHARS_MAX && !key.chars().any(char::is_control);
        if wait.key.is_some() && !is_key {
            let message = format!(
                "`key` gives `{}`: a key has 1 to {KEY_CHARS_MAX} characters, and no control characters",
                quoted(&key)
            );
            return Err(failed("WAIT_KEY_INVALID", message));
        }
        let due_ms = wait.timeout_ms.map_or(0, |timeout_ms| self.after(timeout_ms));
        Ok(StepWaitStarted { due_ms, event: event.to_owned(), key })
    }

    /// Takes an event from outside: the first step that waits for it completes, else the plan keeps it. An event whose
    /// id came before changes nothing.
    ///
    /// - `waiting_only`: the event is refused if no step waits for it.
    pub(crate) fn receive_event(&mut self, event: ExternalEvent, waiting_only: bool) -> Result<(), Rejection> {
        if self.state.has_event(&event.id) {
            return Ok(());
        }
        let waiting: Vec<StepIndex> = self.state.steps_awaiting(&event.name, &event.key).collect();
        let mut mismatch = None;
        let mut taker = None;
        let mut refused: Vec<StepIndex> = Vec::new();
        for i in waiting {
            // Data may be large: they are checked once for all steps that ask for the same.
            if refused.iter().any(|other| self.asks_for_same(*other, i)) {
                continue;
            }
            match self.event_mismatch(i, &event.data) {
                None => {
                    taker = Some(i);
                    break;
                }
                Some(detail) => mismatch = mismatch.or(Some((i, detail))),
            }
            refused.push(i);
        }
        let mut issues = event.issues();
        issues.extend(self.data_issue(&event));
        if let (None, Some((i, detail))) = (taker, mismatch) {
            let hint = format!("send data that fit the `schema` of step `{}`", self.id_of(i));
            issues.push(issue("INVALID_EVENT", "/data", detail, hint));
        }
        if !issues.is_empty() {
            return Err(Rejection::Invalid { reason: "the event is not valid".into(), issues });
        }
        if taker.is_none() && waiting_only {
            return Err(self.refuse_plan("no step waits for the event"));
        }
        if taker.is_none() {
            self.check_room_for(&event)?;
        }
        self.emit_plan(PlanEvent::EventReceived(Box::new(event.clone())));
        if self.state.parent().is_some() {
            // The first request of the decision: nothing else of the family may get the event before it is known.
            self.requests.push(FamilyRequest::ReportEvent { plan: self.state.id().clone(), id: event.id.clone() });
        }
        if let Some(i) = taker {
            self.complete_by_event(i, event);
            self.propagate();
        }
        Ok(())
    }

    /// What is wrong with the data of an event for any step that waits for it.
    fn data_issue(&self, event: &ExternalEvent) -> Option<Issue> {
        let (bytes, most) = (event.data.text().len(), self.context.limits.inline_bytes_max);
        if bytes > most {
            let detail = format!("the data have {bytes} bytes, more than `limits.inline_bytes_max` ({most})");
            return Some(issue("INVALID_EVENT", "/data", detail, "send a reference to large data"));
        }
        let wrong = json_limits::check_json(&event.data, self.context.limits.nesting_max).err()?;
        Some(issue("INVALID_EVENT", "/data", wrong.to_string(), "send data with less nesting and ordinary numbers"))
    }

    /// Refuses an event for which nothing waits when the plan keeps too many.
    fn check_room_for(&self, event: &ExternalEvent) -> Result<(), Rejection> {
        let limits = &self.context.limits;
        let (kept, bytes) = self.state.events.as_ref().map_or((0, 0), |events| (events.len(), events.bytes()));
        let reason = if kept >= limits.kept_events_max {
            format!("it keeps {kept} events for which no step waits (`limits.kept_events_max`)")
        } else if bytes.saturating_add(event.data.text().len()) > limits.kept_events_bytes_max {
            format!("the events that it keeps have {bytes} bytes of data (`limits.kept_events_bytes_max`)")
        } else if self.state.seq >= limits.events_max / 2 {
            // The second half is reserved for what the plan does.
            "its log is half full (`limits.events_max`), and no step waits for the event".to_owned()
        } else {
            return Ok(());
        };
        Err(self.refuse_plan(&reason))
    }

    /// Returns why data do not fit the step that waits for them.
    fn event_mismatch(&mut self, i: StepIndex, data: &Json) -> Option<String> {
        let schema = self.state.plan.step(i).wait.as_ref().and_then(|wait| wait.schema.clone());
        let of_schema = schema.and_then(|schema| schema_mismatch(&schema, data)).map(|why| why.to_string());
        of_schema.or_else(|| self.output_mismatch(i, data).map(|failure| failure.message))
    }

    /// Whether two waits take the same data.
    fn asks_for_same(&self, one: StepIndex, other: StepIndex) -> bool {
        let asked = |i: StepIndex| {
            let step = self.state.plan.step(i);
            (step.wait.as_ref().map(|wait| &wait.schema), &step.output_schema, &step.expected_outputs)
        };
        asked(one) == asked(other)
    }

    /// Completes a step that has just begun to wait by the first kept event that fits.
    fn take_kept_event(&mut self, i: StepIndex) {
        let Some((name, key)) = self.state.awaited_event(i) else { return };
        let (name, key) = (name.to_owned(), key.to_owned());
        let kept: Vec<ExternalEvent> = self.state.kept_events(&name, &key).cloned().collect();
        let first = kept.into_iter().find(|event| self.event_mismatch(i, &event.data).is_none());
        if let Some(event) = first {
            self.complete_by_event(i, event);
        } else if self.state.parent().is_some() {
            self.requests.push(FamilyRequest::ClaimEvent { plan: self.state.id().clone(), name, key, refused: 0 });
        }
    }

    fn complete_by_event(&mut self, i: StepIndex, event: ExternalEvent) {
        let completed = StepCompleted { outputs: event.data, event: Some(event.id), ..StepCompleted::default() };
        self.emit_step(i, StepEvent::Completed(Box::new(completed)));
    }

    /// Ends a wait at its time.
    pub(crate) fn end_wait(&mut self, i: StepIndex) {
        let Some((event, key)) = self.state.awaited_event(i) else {
            let waited_until = rfc3339(self.state.steps[i].due_ms().unwrap_or_default());
            return self.complete_with(i, json!({ "waited_until": waited_until }).into());
        };
        let message = format!("{} did not come in time", named_event(event, key));
        let failure = Failure::new(FailureClass::Timeout, "WAIT_TIMEOUT", message);
        let on_timeout = self.state.plan.step(i).wait.as_ref().map(|wait| wait.on_timeout.clone());
        match on_timeout.unwrap_or_default() {
            OnTimeout::Fail => self.give_up(i, failure, Spent::default()),
            OnTimeout::Skip => {
                let (cause, reason) = (SkipCause::FailurePolicy, failure.message.clone());
                let skipped = StepSkipped { reason, failure: Some(failure), ..StepSkipped::new(cause) };
                self.emit_step(i, StepEvent::Skipped(Box::new(skipped)));
            }
            OnTimeout::Default(outputs) => self.complete_with(i, outputs),
        }
    }
}

impl PlanState {
    /// The wait of a step for an event, also if it has ended.
    pub fn event_wait(&self, i: StepIndex) -> Option<WaitView> {
        let step = self.steps.get(i.as_usize())?;
        let AwaitedEvent { name: event, key } = step.awaited()?.clone();
        let due_ms = step.due_ms().unwrap_or(self.accepted.deadline_ms);
        let (plan_id, step_id) = (self.id().clone(), self.plan.step(i).id.clone());
        Some(WaitView { plan_id, step_id, namespace: self.namespace(), event, key, due_at: rfc3339(due_ms) })
    }

    /// Name and key of the event that a step waits for.
    pub(crate) fn awaited_event(&self, i: StepIndex) -> Option<(&str, &str)> {
        let step = &self.steps[i];
        let awaited = step.awaited().filter(|_| step.status() == StepStatus::Waiting)?;
        Some((&awaited.name, &awaited.key))
    }

    /// The steps that wait for an event, in the order of the plan.
    pub(crate) fn steps_awaiting(&self, name: &str, key: &str) -> impl Iterator<Item = StepIndex> {
        self.indices().filter(move |i| self.awaited_event(*i) == Some((name, key)))
    }
}

/// The event in words.
pub(crate) fn named_event(name: &str, key: &str) -> String {
    if key.is_empty() { format!("the event `{name}`") } else { format!("the event `{name}` with the key `{key}`") }
}

fn failed(code: &str, message: String) -> Unrendered {
    Unrendered::Failed(Failure::new(FailureClass::Permanent, code, message))
}

fn quoted(text: &str) -> String {
    text.chars().take(QUOTED_CHARS_MAX).collect()
}
