//! Choosing the tool for a step or a query: without outcomes, with them, and when to choose nobody.
//!
//! Every set is measured by words alone, and again with the static model that routers use unless told, or the one that
//! `GOALMILL_EMBEDDINGS` names (empty for none). Learning is cross-validated in five parts: outcomes of four parts train
//! a router, the fifth is predicted.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, anyhow, ensure};
use goalmill_common::clock::Clock;
use goalmill_common::config::{Gate, RouterSettings, environment};
use goalmill_common::random::Random;
use goalmill_router::{CANDIDATES_MAX, EmbeddingTable, Ranking, Router, open_table};
use serde_json::{Map, Value, json};

use crate::rows::Out;

mod figures;
mod sets;

use figures::{Tally, percentile};
use sets::{Live, Row, Set};

const PARTS: usize = 5;

/// How outcomes are divided into those that are learned and those that are predicted.
#[derive(Clone, Copy)]
struct Split {
    name: &'static str,
    /// Most outcomes of each tool that are learned.
    each: usize,
    /// All rows of one request are on one side.
    by_request: bool,
    /// Rows with a text that was learned are not predicted.
    is_unrepeated: bool,
}

const SPLITS: [Split; 4] = [
    Split { name: "learned", each: usize::MAX, by_request: false, is_unrepeated: false },
    Split { name: "learned_10", each: 10, by_request: false, is_unrepeated: false },
    Split { name: "learned_by_request", each: usize::MAX, by_request: true, is_unrepeated: false },
    Split { name: "learned_unrepeated", each: usize::MAX, by_request: true, is_unrepeated: true },
];
/// Rows whose decision is timed.
const TIMED_MAX: usize = 2_000;

pub fn run(dir: &Path, out: &mut Out) -> Result<Value> {
    let mut settings = RouterSettings::default();
    if let Some(model) = environment("GOALMILL_EMBEDDINGS") {
        settings.local_model = model;
    }
    let table = open_table(&settings)?;
    let mut ways: Vec<(&str, Option<Arc<EmbeddingTable>>)> = vec![("words", None)];
    ways.extend(table.map(|table| ("static", Some(table))));
    let sets = sets::all(dir)?;
    let live = sets::live(dir)?;
    ensure!(
        !sets.is_empty() || !live.is_empty(),
        "`{}` holds no routing data: see docs/reading-and-routing.md",
        dir.display()
    );
    let mut all = Map::new();
    for (way, table) in ways {
        let mut figures = Map::new();
        for set in &sets {
            let mut of_set = fresh(set, table.as_ref(), way, out)?;
            if set.learns {
                for split in SPLITS {
                    of_set[split.name] = learned(set, table.as_ref(), split, way, out)?;
                }
                of_set["newcomers"] = newcomers(set, table.as_ref())?;
            }
            figures.insert(set.name.into(), of_set);
        }
        if !live.is_empty() {
            figures.insert("bfcl_live".into(), given(&live, table.as_ref(), way, out)?);
        }
        all.insert(way.into(), Value::Object(figures));
    }
    Ok(json!({"eval": "routing", "figures": all}))
}

/// A router over a set, without outcomes.
fn fresh(set: &Set, table: Option<&Arc<EmbeddingTable>>, way: &str, out: &mut Out) -> Result<Value> {
    let router = router(set, table, RouterSettings::default());
    let mut tally = Tally::default();
    let mut micros = Vec::new();
    for row in &set.rows {
        let begun = tokio::time::Instant::now();
        let ranking = router.rank(&row.text, "", CANDIDATES_MAX);
        if micros.len() < TIMED_MAX {
            micros.push(begun.elapsed().as_micros());
        }
        tally.count(&ranking, row);
        write(out, set.name, way, "fresh", &row.id, &ranking)?;
    }
    let mut figures = tally.figures();
    figures["p50_us"] = percentile(&mut micros, 50).into();
    figures["p95_us"] = percentile(&mut micros, 95).into();
    figures["gate"] = gates(set, table);
    Ok(figures)
}

/// What success rates and costs drawn at random do to right decisions, inside the gate and without one.
fn gates(set: &Set, table: Option<&Arc<EmbeddingTable>>) -> Value {
    let random = Random::seeded(7);
    let mut agents = set.agents.clone();
    for agent in &mut agents {
        agent.success_rate = 0.7 + 0.3 * share(&random);
        agent.cost = share(&random) * 0.05;
    }
    let top = |gate: Gate, drawn: bool| {
        let router = router(set, table, RouterSettings { gate, ..RouterSettings::default() });
        if drawn {
            router.update_agents(agents.clone());
        }
        let rows: Vec<&Row> = set.rows.iter().filter(|row| !row.gold.is_empty()).collect();
        let rows = rows.iter().step_by((rows.len() / TIMED_MAX).max(1));
        let first: Vec<(bool, Option<_>)> = rows
            .map(|row| {
                let best = router.rank(&row.text, "", 1).candidates.into_iter().next().map(|best| best.agent_type);
                (best.as_ref().is_some_and(|best| row.gold.iter().any(|gold| gold == best.as_str())), best)
            })
            .collect();
        first
    };
    let plain = top(Gate::Share(0.0), false);
    let right = |first: &[(bool, Option<_>)]| first.iter().filter(|(right, _)| *right).count() as f64;
    let against = |gate: Gate| {
        let drawn = top(gate, true);
        let flipped = plain.iter().zip(&drawn).filter(|(plain, drawn)| plain.1 != drawn.1).count() as f64;
        let rows = plain.len().max(1) as f64;
        json!({"lost": figures::points((right(&plain) - right(&drawn)) / rows), "flipped": figures::points(flipped / rows)})
    };
    json!({"on": against(RouterSettings::default().gate), "off": against(Gate::Off)})
}

/// Routers that have seen outcomes of some rows, on rows they have not seen; the parts at the same time.
fn learned(set: &Set, table: Option<&Arc<EmbeddingTable>>, split: Split, way: &str, out: &mut Out) -> Result<Value> {
    let mut tally = Tally::default();
    let parts: Vec<Vec<(&Row, Ranking)>> = in_parts(|part| predicted(set, table, split, part))?;
    for (row, ranking) in parts.iter().flatten() {
        tally.count(ranking, row);
        write(out, set.name, way, split.name, &row.id, ranking)?;
    }
    Ok(tally.figures())
}

/// What a part gives, for every part at the same time.
fn in_parts<T: Send>(of_part: impl Fn(usize) -> T + Sync) -> Result<Vec<T>> {
    std::thread::scope(|scope| {
        let of_part = &of_part;
        let begun: Vec<_> = (0..PARTS).map(|part| scope.spawn(move || of_part(part))).collect();
        begun.into_iter().map(|part| part.join().map_err(|_| anyhow!("a part was not predicted"))).collect()
    })
}

/// The rows of one part, by a router that has seen outcomes of the others.
fn predicted<'a>(
    set: &'a Set,
    table: Option<&Arc<EmbeddingTable>>,
    split: Split,
    part: usize,
) -> Vec<(&'a Row, Ranking)> {
    let router = router(set, table, RouterSettings { learn: true, ..RouterSettings::default() });
    let of = |row: &Row| if split.by_request { row.request_part } else { row.part };
    let mut counts = std::collections::BTreeMap::<&str, usize>::new();
    let mut texts = BTreeSet::new();
    for row in set.rows.iter().filter(|row| of(row) != part) {
        let tool = row.gold.first().map_or("", String::as_str);
        let count = counts.entry(tool).or_default();
        *count += 1;
        // Steps for nobody are as frequent as in life.
        if !tool.is_empty() && *count > split.each {
            continue;
        }
        texts.insert(plain(&row.text));
        learn(&router, row);
    }
    let here = set.rows.iter().filter(|row| of(row) == part);
    let here = here.filter(|row| !split.is_unrepeated || !texts.contains(&plain(&row.text)));
    here.map(|row| (row, router.rank(&row.text, "", CANDIDATES_MAX))).collect()
}

fn learn(router: &Router, row: &Row) {
    match row.gold.first() {
        Some(tool) => router.record_match(&row.text, &tool.as_str().into(), true),
        None => router.record_no_match(&row.text),
    }
}

/// A text without case, spaces and signs.
fn plain(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// Tools of one part have no outcomes, those of the others have: on steps of which nobody has seen an outcome, the share of
/// either that goes to their own tool.
fn newcomers(set: &Set, table: Option<&Arc<EmbeddingTable>>) -> Result<Value> {
    let tool = |row: &Row| row.gold.first().cloned().unwrap_or_default();
    let is_new = |row: &Row, part: usize| !row.gold.is_empty() && sets::part(&tool(row)) == part;
    let tallies = in_parts(|part| {
        let learned = router(set, table, RouterSettings { learn: true, ..RouterSettings::default() });
        set.rows.iter().filter(|row| row.part != part && !is_new(row, part)).for_each(|row| learn(&learned, row));
        let fresh = router(set, table, RouterSettings::default());
        let mut tallies = <[Tally; 4]>::default();
        for row in set.rows.iter().filter(|row| row.part == part && !row.gold.is_empty()) {
            let which = if is_new(row, part) { 0 } else { 2 };
            tallies[which].count(&learned.rank(&row.text, "", CANDIDATES_MAX), row);
            tallies[which + 1].count(&fresh.rank(&row.text, "", CANDIDATES_MAX), row);
        }
        tallies
    })?;
    let mut sums = <[Tally; 4]>::default();
    for (sum, tally) in tallies.iter().flat_map(|tallies| tallies.iter().enumerate()) {
        sums[sum].add(tally);
    }
    let [new, new_fresh, known, known_fresh] = sums;
    Ok(json!({"new": new.figures(), "new_zero_shot": new_fresh.figures(),
              "learned": known.figures(), "learned_zero_shot": known_fresh.figures()}))
}

/// Queries that come with the few functions there are.
fn given(rows: &[Live], table: Option<&Arc<EmbeddingTable>>, way: &str, out: &mut Out) -> Result<Value> {
    let mut tally = Tally::default();
    let mut chosen = Tally::default();
    for live in rows {
        let settings = RouterSettings::default();
        let router = Router::with_parts(settings, table.cloned(), Clock::system(), Random::seeded(1));
        router.update_agents(live.agents.clone());
        let ranking = router.rank(&live.row.text, "", CANDIDATES_MAX);
        tally.count(&ranking, &live.row);
        if live.agents.len() > 1 && !live.row.gold.is_empty() {
            chosen.count(&ranking, &live.row);
        }
        write(out, "bfcl_live", way, "fresh", &live.row.id, &ranking)?;
    }
    let mut figures = tally.figures();
    figures["among_several"] = chosen.figures();
    Ok(figures)
}

fn router(set: &Set, table: Option<&Arc<EmbeddingTable>>, settings: RouterSettings) -> Router {
    let router = Router::with_parts(settings, table.cloned(), Clock::system(), Random::seeded(1));
    router.update_agents(set.agents.clone());
    router
}

/// Uniform from 0 to 1.
fn share(random: &Random) -> f64 {
    random.below(1_000_001) as f64 / 1e6
}

fn write(out: &mut Out, set: &str, way: &str, how: &str, id: &str, ranking: &Ranking) -> Result<()> {
    let top: Vec<&str> = ranking.candidates.iter().take(CANDIDATES_MAX).map(|c| c.agent_type.as_str()).collect();
    let score = ranking.candidates.first().map_or(0.0, |best| best.similarity);
    out.row(&json!({
        "set": set, "way": way, "how": how, "id": id, "top": top, "score": score, "abstain": 1.0 - ranking.confidence,
        "factors": ranking.candidates.first().map(|best| &best.factors),
        "second": ranking.candidates.get(1).map_or(0.0, |second| second.similarity),
    }))
}
