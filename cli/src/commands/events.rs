//! `events`: a plan's log.

use goalmill_client::EventQuery;
use goalmill_common::clock::Clock;
use goalmill_common::event::Record;
use goalmill_common::id::PlanId;
use goalmill_common::json::Json;
use serde::Deserialize;
use serde_json::json;

use super::cell;
use crate::args::{EventsArgs, Format};
use crate::context::CommandContext;
use crate::exit::{CommandResult, Exit, Failed};
use crate::output::{Screen, Tone, time};
use crate::watch::{Follow, Source};

/// Events requested in one call.
const PAGE: usize = 1_000;

pub async fn run(context: &CommandContext, args: &EventsArgs) -> CommandResult {
    let plan = context.client.resolve(&args.plan).await?;
    if args.follow { follow(context, args, plan).await } else { print(context, args, &plan).await }
}

async fn print(context: &CommandContext, args: &EventsArgs, plan: &PlanId) -> CommandResult {
    let CommandContext { screen, client, clock, .. } = context;
    let whole = matches!(screen.format, Format::Json | Format::Yaml);
    let mut kept: Vec<Json> = Vec::new();
    let mut after = args.after;
    let mut left = args.limit.unwrap_or(usize::MAX);
    let text = |given: &Option<String>| given.clone().unwrap_or_default();
    let query = EventQuery { types: args.types.clone(), step: text(&args.step), phase: text(&args.phase) };
    while left > 0 {
        let page = client.filtered_events(plan, after, PAGE, &query).await?;
        let next = page.next();
        for line in page.items {
            if left == 0 {
                continue;
            }
            left -= 1;
            if whole { kept.push(line) } else { print_line(screen, clock, line.text())? }
        }
        match next {
            Some(next) if next > after => after = next,
            Some(_) | None => break,
        }
    }
    if whole {
        screen.show(&json!({ "items": kept }), plan.as_str(), |_| String::new())?;
    }
    Ok(Exit::Done)
}

async fn follow(context: &CommandContext, args: &EventsArgs, plan: PlanId) -> CommandResult {
    let CommandContext { screen, client, clock, .. } = context;
    let mut follow = Follow::open(Source::Api(client.clone()), plan.clone(), args.after).await?;
    loop {
        let record = tokio::select! {
            record = follow.next() => record?,
            interrupted = tokio::signal::ctrl_c() => {
                interrupted?;
                return Ok(Exit::Interrupted);
            }
        };
        if is_wanted(args, &record) {
            print_line(screen, clock, &record.to_line())?;
        }
        if record.event.ends_plan() {
            return Ok(Exit::Done);
        }
    }
}

/// The fields that are looked at; the rest of a line is passed on as it came.
#[derive(Deserialize)]
pub struct EventHead<'a> {
    pub seq: u64,
    #[serde(rename = "type")]
    pub type_name: &'a str,
    #[serde(default)]
    pub time: &'a str,
    #[serde(default)]
    step_id: Option<&'a str>,
    #[serde(default)]
    attempt: Option<u32>,
    #[serde(default)]
    actor: Option<&'a str>,
    #[serde(default, borrow)]
    data: Option<&'a serde_json::value::RawValue>,
}

pub fn head(line: &str) -> Result<EventHead<'_>, Failed> {
    serde_json::from_str(line).map_err(|error| Failed::other(format!("the event `{line}` cannot be read: {error}")))
}

fn is_wanted(args: &EventsArgs, record: &Record) -> bool {
    let event = &record.event;
    // An event of the plan may list the step.
    args.step.as_deref().is_none_or(|step| event.concerns(step))
        && args.phase.as_deref().is_none_or(|phase| event.phase() == Some(phase))
        && (args.types.is_empty() || args.types.iter().any(|name| name == event.type_name()))
}

fn print_line(screen: &Screen, clock: &Clock, line: &str) -> Result<(), Failed> {
    match screen.format {
        Format::Json | Format::Jsonl | Format::Yaml => screen.line(line),
        Format::Name => screen.line(head(line)?.type_name),
        Format::Table | Format::Wide => screen.line(event_text(&head(line)?, screen, clock)),
        Format::None => Ok(()),
    }
}

/// One event as a line for people; of its time the hours, unless another form is asked for.
pub fn event_text(head: &EventHead<'_>, screen: &Screen, clock: &Clock) -> String {
    let palette = screen.palette;
    let at = match screen.times_asked() {
        Some(form) => time(head.time, form, clock),
        None => head.time.get(11..23).unwrap_or(head.time).to_owned(),
    };
    let step = match (head.step_id, head.attempt) {
        (Some(step), Some(attempt)) => format!("{step}#{attempt}"),
        (Some(step), None) => step.to_owned(),
        (None, _) => String::new(),
    };
    let actor = head.actor.map(|actor| format!("by {actor} ")).unwrap_or_default();
    let data = head.data.map(|data| cell(screen, data.get())).unwrap_or_default();
    let text = format!(
        "{:>5}  {}  {:<18} {step:<20} {}",
        head.seq,
        palette.tone(Tone::Dim, at),
        head.type_name,
        palette.tone(Tone::Dim, format!("{actor}{data}"))
    );
    text.trim_end().to_owned()
}
