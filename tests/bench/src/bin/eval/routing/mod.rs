//! Choosing the tool for a step or a query: without outcomes, with them, and when to choose nobody.
//!
//! Every set is measured by words alone, and again with the static model that routers use unless told, or the one that
//! `GOALMILL_EMBEDDINGS` names (empty for none). Learning is cross-validated in five parts: outcomes of four parts train
//! a router, the fifth is predicted.

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
    ensure!(!sets.is_empty() || !live.is_empty(), "`{}` holds no routing data: see docs/routing.md", dir.display());
    let mut all = Map::new();
    for (way, table) in ways {
        let mut figures = Map::new();
        for set in &sets {
            let mut of_set = fresh(set, table.as_ref(), way, out)?;
            if set.learns {
                of_set["learned"] = learned(set, table.as_ref(), usize::MAX, way, out)?;
                of_set["learned_10"] = learned(set, table.as_ref(), 10, way, out)?;
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

/// Routers that have seen at most `each` outcomes of each tool, on rows they have not seen; the parts at the same time.
fn learned(set: &Set, table: Option<&Arc<EmbeddingTable>>, each: usize, way: &str, out: &mut Out) -> Result<Value> {
    let mut tally = Tally::default();
    let how = if each == usize::MAX { "learned" } else { "learned_10" };
    let parts: Vec<Vec<(&Row, Ranking)>> = std::thread::scope(|scope| {
        let begun: Vec<_> = (0..PARTS).map(|part| scope.spawn(move || predicted(set, table, each, part))).collect();
        begun
            .into_iter()
            .map(|part| part.join().map_err(|_| anyhow!("a part was not predicted")))
            .collect::<Result<_>>()
    })?;
    for (row, ranking) in parts.iter().flatten() {
        tally.count(ranking, row);
        write(out, set.name, way, how, &row.id, ranking)?;
    }
    Ok(tally.figures())
}

/// The rows of one part, by a router that has seen outcomes of the others.
fn predicted<'a>(
    set: &'a Set,
    table: Option<&Arc<EmbeddingTable>>,
    each: usize,
    part: usize,
) -> Vec<(&'a Row, Ranking)> {
    let router = router(set, table, RouterSettings { learn: true, ..RouterSettings::default() });
    let mut counts = std::collections::BTreeMap::<&str, usize>::new();
    for row in set.rows.iter().filter(|row| row.part != part) {
        let tool = row.gold.first().map_or("", String::as_str);
        let count = counts.entry(tool).or_default();
        *count += 1;
        // Steps for nobody are as frequent as in life.
        if !tool.is_empty() && *count > each {
            continue;
        }
        match row.gold.first() {
            Some(tool) => router.record_match(&row.text, &tool.as_str().into(), true),
            None => router.record_no_match(&row.text),
        }
    }
    let here = set.rows.iter().filter(|row| row.part == part);
    here.map(|row| (row, router.rank(&row.text, "", CANDIDATES_MAX))).collect()
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
