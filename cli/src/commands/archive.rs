//! `archive`: removes, exports and imports finished plans, directly in the database of the settings.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use goalmill_archive::{
    ArchiveBatch, ArchiveError, ArchiveStore, ArchivedPlan, BlobRow, EventRow, PlanPart, PlanPosition, PlanRow,
    PlanSelection, PrunedRows,
};
use goalmill_common::event::Record;
use goalmill_common::id::{PlanId, ShardId};
use goalmill_common::number::milliseconds;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::config::settings;
use super::dead_letters::confirm;
use crate::args::{ArchiveCommand, ArchiveImportArgs, ExportArgs, PruneArgs};
use crate::context::CommandContext;
use crate::exit::{CommandResult, Exit, Failed};

/// Plans removed in one transaction.
const PRUNED: usize = 50;
/// Plans looked up in one call.
const PAGE: usize = 500;
/// Commits of a log read in one call.
const LOG_PAGE: usize = 200;
/// Events and bytes after which imported ones are written.
const BATCH_EVENTS: usize = 2_000;
const BATCH_BYTES: usize = 4 << 20;
/// Longest line of an import.
const LINE_BYTES_MAX: u64 = 64 << 20;

/// A line of an export: a plan, which its events follow.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExportedPlanLine {
    plan: ExportedPlan,
}

#[derive(Serialize, Deserialize)]
struct ExportedPlan {
    plan_id: PlanId,
    shard: ShardId,
    changed_ms: u64,
    #[serde(flatten)]
    row: PlanRow,
}

/// A line of an export: an event of the plan before it.
#[derive(Serialize)]
struct ExportedEventLine {
    plan_id: PlanId,
    entry: u64,
    event: Box<RawValue>,
}

/// A line of an export: a large payload of the plan before it; they stand before the events.
#[derive(Serialize)]
struct ExportedPayloadLine {
    plan_id: PlanId,
    payload: ExportedPayload,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExportedPayload {
    key: String,
    /// JSON as a text, so that every byte stays.
    content: String,
}

/// A line of a plan that is imported: an event, or a payload.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ImportedLine {
    plan_id: PlanId,
    entry: Option<u64>,
    event: Option<Box<RawValue>>,
    payload: Option<ExportedPayload>,
}

pub async fn run(context: &CommandContext, command: ArchiveCommand) -> CommandResult {
    match command {
        ArchiveCommand::Prune(args) => prune(context, &args).await,
        ArchiveCommand::Export(args) => export(context, &args).await,
        ArchiveCommand::Import(args) => import(context, &args).await,
    }
}

async fn open(config: Option<&Path>) -> Result<Arc<dyn ArchiveStore>, Failed> {
    let loaded = settings(config, &[])?;
    let store = Box::pin(goalmill_archive::open(&loaded.settings.archive)).await.map_err(failed)?;
    store.ok_or_else(|| {
        Failed::invalid("the settings name no archive").help("set `archive.store`, or name the settings by --config")
    })
}

fn failed(error: ArchiveError) -> Failed {
    let exit = match error {
        ArchiveError::Unavailable(_) => Exit::Unreachable,
        ArchiveError::NotBuiltIn(_) => Exit::InvalidInput,
        ArchiveError::Schema(_) | ArchiveError::Corrupt(_) => Exit::Other,
    };
    Failed::new(exit, error.to_string()).help("check `archive` in the settings: docs/archive.md")
}

/// The plans that the arguments select; with `--namespace`, only its plans.
fn selection(context: &CommandContext, older_than: Option<Duration>) -> PlanSelection {
    let before = |age: Duration| context.clock.now_ms().saturating_sub(milliseconds(age));
    PlanSelection { namespace: context.client.namespace(), ended_before_ms: older_than.map(before) }
}

async fn prune(context: &CommandContext, args: &PruneArgs) -> CommandResult {
    let store = open(args.config.as_deref()).await?;
    let selection = selection(context, Some(args.older_than));
    if args.dry_run || !args.yes {
        let plans = count(store.as_ref(), &selection).await?;
        if args.dry_run {
            let counted = serde_json::json!({ "plans": plans });
            context.screen.show(&counted, "", |_| format!("{plans} plans would be removed\n"))?;
            return Ok(Exit::Done);
        }
        if plans > 0 {
            confirm(&format!("remove {plans} plans from the archive"))?;
        }
    }
    let mut all = PrunedRows::default();
    loop {
        let pruned = store.prune(&selection, PRUNED).await.map_err(failed)?;
        if pruned.plans == 0 {
            break;
        }
        all.plans += pruned.plans;
        all.events += pruned.events;
    }
    context.screen.show(&all, "", |_| format!("{} plans with {} events are removed\n", all.plans, all.events))?;
    Ok(Exit::Done)
}

async fn count(store: &dyn ArchiveStore, selection: &PlanSelection) -> Result<usize, Failed> {
    let (mut plans, mut after) = (0, None);
    loop {
        let page = store.select(selection, after.as_ref(), PAGE).await.map_err(failed)?;
        plans += page.len();
        after = page.last().cloned();
        if page.len() < PAGE {
            return Ok(plans);
        }
    }
}

async fn export(context: &CommandContext, args: &ExportArgs) -> CommandResult {
    let store = open(args.config.as_deref()).await?;
    let selection = selection(context, args.older_than);
    let mut out: Box<dyn Write + Send> = if args.file == "-" {
        Box::new(BufWriter::new(std::io::stdout()))
    } else {
        let file = File::create_new(&args.file)
            .map_err(|error| Failed::invalid(format!("`{}` cannot be written: {error}", args.file)))?;
        Box::new(BufWriter::new(file))
    };
    let (mut after, mut done): (Option<PlanPosition>, _) = (None, PrunedRows::default());
    loop {
        let page = store.select(&selection, after.as_ref(), PAGE).await.map_err(failed)?;
        for position in &page {
            if let Some(events) = export_plan(store.as_ref(), &position.plan, out.as_mut()).await? {
                done.plans += 1;
                done.events += events;
            }
        }
        after = page.last().cloned();
        if page.len() < PAGE {
            break;
        }
    }
    out.flush().map_err(|error| unwritten(&error))?;
    context.screen.note(format!("{} plans with {} events are exported", done.plans, done.events));
    Ok(Exit::Done)
}

fn unwritten(error: &std::io::Error) -> Failed {
    Failed::other(format!("the export cannot be written: {error}"))
}

/// Writes a plan; `None` if it was removed in the meantime. Returns its number of events.
async fn export_plan(store: &dyn ArchiveStore, plan: &PlanId, out: &mut dyn Write) -> Result<Option<u64>, Failed> {
    let Some(ArchivedPlan { shard, changed_ms, row }) = store.find_archived(plan).await.map_err(failed)? else {
        return Ok(None);
    };
    let plan_line = ExportedPlanLine { plan: ExportedPlan { plan_id: plan.clone(), shard, changed_ms, row } };
    write_line(out, &plan_line)?;
    export_payloads(store, plan, out).await?;
    let (mut events, mut after_seq) = (0, 0);
    loop {
        let page = store.log(plan, after_seq, LOG_PAGE).await.map_err(failed)?;
        let Some(last) = page.last().map(|event| event.entry) else { return Ok(Some(events)) };
        after_seq = last;
        for archived in page {
            // Outside of texts, line breaks are only space.
            let line = archived.line.replace(['\n', '\r'], " ");
            let event = RawValue::from_string(line)
                .map_err(|error| Failed::other(format!("an event of `{plan}` is no JSON: {error}")))?;
            write_line(out, &ExportedEventLine { plan_id: plan.clone(), entry: archived.entry, event })?;
            events += 1;
        }
    }
}

async fn export_payloads(store: &dyn ArchiveStore, plan: &PlanId, out: &mut dyn Write) -> Result<(), Failed> {
    let mut after = String::new();
    loop {
        let keys = store.blob_keys(plan, &after, PAGE).await.map_err(failed)?;
        let Some(last) = keys.last().cloned() else { return Ok(()) };
        for key in keys {
            if let Some(content) = store.blob(plan, &key).await.map_err(failed)? {
                let payload = ExportedPayload { key, content };
                write_line(out, &ExportedPayloadLine { plan_id: plan.clone(), payload })?;
            }
        }
        after = last;
    }
}

fn write_line(out: &mut dyn Write, line: &impl Serialize) -> Result<(), Failed> {
    let mut text = serde_json::to_string(line).expect("rows always have a JSON form");
    text.push('\n');
    out.write_all(text.as_bytes()).map_err(|error| unwritten(&error))
}

async fn import(context: &CommandContext, args: &ArchiveImportArgs) -> CommandResult {
    let store = open(args.config.as_deref()).await?;
    let input: Box<dyn Read + Send> = if args.file == "-" {
        Box::new(std::io::stdin())
    } else {
        let file = File::open(&args.file)
            .map_err(|error| Failed::new(Exit::NotFound, format!("`{}` cannot be read: {error}", args.file)))?;
        Box::new(file)
    };
    let mut import = Import { store: store.as_ref(), plan: None, done: PrunedRows::default() };
    let mut input = BufReader::new(input);
    let (mut line, mut number) = (String::new(), 0_u64);
    loop {
        line.clear();
        number += 1;
        let invalid = |what: String| Failed::invalid(format!("line {number} of `{}`: {what}", args.file));
        let read = input.by_ref().take(LINE_BYTES_MAX + 1).read_line(&mut line);
        if read.map_err(|error| invalid(error.to_string()))? == 0 {
            break;
        }
        if line.len() as u64 > LINE_BYTES_MAX {
            return Err(invalid(format!("it has more than {LINE_BYTES_MAX} bytes")));
        }
        import.import_line(line.trim_end()).await.map_err(|error| match error {
            ArchiveImportError::Line(what) => invalid(what),
            ArchiveImportError::Archive(error) => failed(error),
        })?;
    }
    if let Some(open) = import.plan {
        let (plan, seq, events) = (open.id, open.seq, open.row.map_or(0, |row| row.events));
        return Err(Failed::invalid(format!("`{}` ends in plan `{plan}`: event {seq} of {events}", args.file)));
    }
    let done = import.done;
    context.screen.show(&done, "", |_| format!("{} plans with {} events are imported\n", done.plans, done.events))?;
    Ok(Exit::Done)
}

enum ArchiveImportError {
    /// What is wrong with the line.
    Line(String),
    Archive(ArchiveError),
}

/// An import, and the plan whose events are read.
struct Import<'a> {
    store: &'a dyn ArchiveStore,
    plan: Option<PlanImport>,
    done: PrunedRows,
}

struct PlanImport {
    id: PlanId,
    shard: ShardId,
    changed_ms: u64,
    /// Written with the last event.
    row: Option<PlanRow>,
    is_first: bool,
    events: Vec<EventRow>,
    blobs: Vec<BlobRow>,
    bytes: usize,
    /// Number of the last event.
    seq: u64,
}

impl Import<'_> {
    /// Takes a line. A batch is written when it is full, and at the end of a plan.
    async fn import_line(&mut self, line: &str) -> Result<(), ArchiveImportError> {
        let Some(mut open) = self.plan.take() else {
            let ExportedPlanLine { plan } = serde_json::from_str(line)
                .map_err(|error| ArchiveImportError::Line(format!("a plan is expected: {error}")))?;
            if plan.plan_id.shard() != Some(plan.shard) || plan.row.events == 0 {
                return Err(ArchiveImportError::Line("`plan_id`, `shard` and `events` do not fit".into()));
            }
            let ExportedPlan { plan_id: id, shard, changed_ms, row } = plan;
            self.plan = Some(PlanImport {
                id,
                shard,
                changed_ms,
                row: Some(row),
                is_first: true,
                events: Vec::new(),
                blobs: Vec::new(),
                bytes: 0,
                seq: 0,
            });
            return Ok(());
        };
        open.add(line)?;
        let is_last = open.row.as_ref().is_some_and(|row| row.events == open.seq);
        if is_last || open.events.len() >= BATCH_EVENTS || open.bytes >= BATCH_BYTES {
            self.done.events += open.events.len() as u64;
            let part = PlanPart {
                plan: open.id.clone(),
                changed_ms: open.changed_ms,
                is_first: open.is_first,
                events: std::mem::take(&mut open.events),
                blobs: std::mem::take(&mut open.blobs),
                end: if is_last { open.row.take() } else { None },
            };
            let batch = ArchiveBatch { shard: open.shard, parts: vec![part], position_ms: 0 };
            self.store.append(&batch).await.map_err(ArchiveImportError::Archive)?;
            (open.is_first, open.bytes) = (false, 0);
        }
        if is_last {
            self.done.plans += 1;
        } else {
            self.plan = Some(open);
        }
        Ok(())
    }
}

impl PlanImport {
    fn add(&mut self, line: &str) -> Result<(), ArchiveImportError> {
        let expected = format!("event {} of `{}` is expected", self.seq + 1, self.id);
        let refused = |why: &str| ArchiveImportError::Line(format!("{expected}{why}"));
        let read: ImportedLine = serde_json::from_str(line).map_err(|error| refused(&format!(": {error}")))?;
        if read.plan_id != self.id {
            return Err(refused(""));
        }
        let (entry, event) = match (read.entry, read.event, read.payload) {
            (Some(entry), Some(event), None) => (entry, event),
            (None, None, Some(ExportedPayload { key, content })) => {
                if serde_json::from_str::<serde::de::IgnoredAny>(&content).is_err() {
                    return Err(ArchiveImportError::Line(format!("the payload `{key}` is not JSON")));
                }
                self.bytes += content.len();
                self.blobs.push(BlobRow { key, content });
                return Ok(());
            }
            _ => return Err(refused("")),
        };
        let record = Record::from_line(event.get()).map_err(|error| ArchiveImportError::Line(error.to_string()))?;
        if record.seq <= self.seq || entry < record.seq {
            return Err(refused(""));
        }
        self.seq = record.seq;
        self.bytes += line.len();
        self.events.push(EventRow::new(&record, entry, event.get().to_owned()));
        Ok(())
    }
}
