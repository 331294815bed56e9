//! Injects faults into processes and the server until a given time.

use std::sync::Arc;
use std::time::Duration;

use goalmill_broker::Broker;
use goalmill_common::id::ShardId;

use crate::cluster::{Cluster, Role};
use crate::environment::{Environment, ServerSnapshot};
use crate::rng::Rng;

/// Snapshots that the server may turn back to.
const PASTS_MAX: usize = 3;

#[derive(Clone, Copy)]
enum NemesisAction {
    Pause,
    Kill,
    Stop,
    TurnBack,
    Noise,
}

/// Acts until `until_ms` of virtual time.
pub async fn run(env: &Arc<Environment>, cluster: &mut Cluster, rng: &Rng, shards: u16, until_ms: u64) {
    let faults = &env.faults;
    let kinds: Vec<NemesisAction> = [
        (faults.pauses, NemesisAction::Pause),
        (faults.kills, NemesisAction::Kill),
        (faults.restarts, NemesisAction::Stop),
        (faults.turns_back, NemesisAction::TurnBack),
        (faults.noise, NemesisAction::Noise),
    ]
    .into_iter()
    .filter_map(|(on, kind)| on.then_some(kind))
    .collect();
    let mut snapshots: Vec<ServerSnapshot> = Vec::new();
    let mut network_bug: Vec<(u64, Role)> = Vec::new();
    while env.at_ms() < until_ms {
        pause(rng.between(200, 2_500)).await;
        replace(env, cluster, &mut network_bug);
        if faults.turns_back {
            snapshots.push(env.past());
            if snapshots.len() > PASTS_MAX {
                snapshots.remove(0);
            }
        }
        if kinds.is_empty() || rng.permille(300) {
            continue;
        }
        let back_ms = env.at_ms() + rng.between(0, 3_000);
        match rng.pick(&kinds) {
            NemesisAction::Pause if cluster.len() > 0 => cluster.pause_one(),
            NemesisAction::Kill if cluster.len() > 0 => network_bug.push((back_ms, cluster.kill_one())),
            NemesisAction::Stop if cluster.len() > 0 => network_bug.push((back_ms, cluster.stop_one())),
            NemesisAction::Pause | NemesisAction::Kill | NemesisAction::Stop => {}
            NemesisAction::TurnBack => turn_back(env, cluster, rng, &mut snapshots).await,
            NemesisAction::Noise => make_noise(env, rng, shards).await,
        }
    }
    for (_, role) in network_bug {
        cluster.start(role);
    }
}

fn replace(env: &Environment, cluster: &mut Cluster, network_bug: &mut Vec<(u64, Role)>) {
    let now_ms = env.at_ms();
    network_bug.retain(|(back_ms, role)| {
        if *back_ms <= now_ms {
            cluster.start(*role);
        }
        *back_ms > now_ms
    });
}

/// The server dies and comes back as it was a while ago.
async fn turn_back(env: &Environment, cluster: &mut Cluster, rng: &Rng, snapshots: &mut Vec<ServerSnapshot>) {
    if snapshots.is_empty() || rng.permille(600) {
        return;
    }
    let away_ms = rng.between(10, 1_500);
    cluster.note(&format!("turns the server back, {away_ms} ms away"));
    cluster.pause_all(away_ms);
    let keeps_installation = env.turn_back(rng.pick(snapshots)).await;
    // What was written between two snapshots is gone for good.
    snapshots.clear();
    if !keeps_installation {
        // Nothing is made again by itself: `docs/durability.md` asks for a restart.
        cluster.restart_all();
    }
    pause(2).await;
}

/// Old reports once more, and messages that mean nothing.
async fn make_noise(env: &Environment, rng: &Rng, shards: u16) {
    let shard = ShardId(u16::try_from(rng.between(0, u64::from(shards) - 1)).expect("a small number"));
    let nonsense = |name: &str, text: &[u8]| vec![("v".to_owned(), b"1".to_vec()), (name.to_owned(), text.to_vec())];
    let old = {
        let auditor = env.auditor();
        (!auditor.heard.is_empty()).then(|| rng.pick(&auditor.heard).clone())
    };
    let done = match rng.between(0, 10) {
        0 => env.broker.send(shard, &nonsense("data", b"{")).await,
        1 => env.broker.send(shard, &nonsense("request", b"[]")).await,
        10 => env.broker.send_request(shard, &nonsense("request", b"[]")).await,
        2 => env.broker.submit(&nonsense("data", b"x")).await.map(drop),
        _ => match old {
            Some((shard, fields)) => env.broker.send(shard, &fields).await,
            None => Ok(()),
        },
    };
    done.expect("nothing fails here");
}

async fn pause(ms: u64) {
    tokio::time::sleep(Duration::from_millis(ms)).await;
}
