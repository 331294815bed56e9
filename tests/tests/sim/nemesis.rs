//! Makes trouble among the processes until its time is over.

use std::sync::Arc;
use std::time::Duration;

use goalmill_broker::Broker;
use goalmill_common::id::ShardId;

use crate::cluster::{Cluster, Role};
use crate::dice::Dice;
use crate::ground::{Ground, Past};

/// Snapshots that the server may go back to.
const PASTS_MAX: usize = 3;

#[derive(Clone, Copy)]
enum Trouble {
    Pause,
    Kill,
    Stop,
    TurnBack,
    Noise,
}

/// Acts until `until_ms` of virtual time.
pub async fn rage(ground: &Arc<Ground>, cluster: &mut Cluster, dice: &Dice, shards: u16, until_ms: u64) {
    let faults = &ground.faults;
    let kinds: Vec<Trouble> = [
        (faults.pauses, Trouble::Pause),
        (faults.kills, Trouble::Kill),
        (faults.restarts, Trouble::Stop),
        (faults.turns_back, Trouble::TurnBack),
        (faults.noise, Trouble::Noise),
    ]
    .into_iter()
    .filter_map(|(on, kind)| on.then_some(kind))
    .collect();
    let mut pasts: Vec<Past> = Vec::new();
    let mut missing: Vec<(u64, Role)> = Vec::new();
    while ground.at_ms() < until_ms {
        pause(dice.between(200, 2_500)).await;
        replace(ground, cluster, &mut missing);
        if faults.turns_back {
            pasts.push(ground.past());
            if pasts.len() > PASTS_MAX {
                pasts.remove(0);
            }
        }
        if kinds.is_empty() || dice.permille(300) {
            continue;
        }
        let back_ms = ground.at_ms() + dice.between(0, 3_000);
        match dice.pick(&kinds) {
            Trouble::Pause if cluster.len() > 0 => cluster.pause_one(),
            Trouble::Kill if cluster.len() > 0 => missing.push((back_ms, cluster.kill_one())),
            Trouble::Stop if cluster.len() > 0 => missing.push((back_ms, cluster.stop_one())),
            Trouble::Pause | Trouble::Kill | Trouble::Stop => {}
            Trouble::TurnBack => turn_back(ground, cluster, dice, &mut pasts).await,
            Trouble::Noise => make_noise(ground, dice, shards).await,
        }
    }
    for (_, role) in missing {
        cluster.start(role);
    }
}

fn replace(ground: &Ground, cluster: &mut Cluster, missing: &mut Vec<(u64, Role)>) {
    let now_ms = ground.at_ms();
    missing.retain(|(back_ms, role)| {
        if *back_ms <= now_ms {
            cluster.start(*role);
        }
        *back_ms > now_ms
    });
}

/// The server dies and comes back as it was a while ago.
async fn turn_back(ground: &Ground, cluster: &mut Cluster, dice: &Dice, pasts: &mut Vec<Past>) {
    if pasts.is_empty() || dice.permille(600) {
        return;
    }
    let away_ms = dice.between(10, 1_500);
    cluster.note(&format!("turns the server back, {away_ms} ms away"));
    cluster.pause_all(away_ms);
    let keeps_installation = ground.turn_back(dice.pick(pasts)).await;
    // What was written between two snapshots is gone for good.
    pasts.clear();
    if !keeps_installation {
        // Nothing is made again by itself: `docs/durability.md` asks for a restart.
        cluster.restart_all();
    }
    pause(2).await;
}

/// Old reports once more, and messages that mean nothing.
async fn make_noise(ground: &Ground, dice: &Dice, shards: u16) {
    let shard = ShardId(u16::try_from(dice.between(0, u64::from(shards) - 1)).expect("a small number"));
    let nonsense = |name: &str, text: &[u8]| vec![("v".to_owned(), b"1".to_vec()), (name.to_owned(), text.to_vec())];
    let old = {
        let watch = ground.watch();
        (!watch.heard.is_empty()).then(|| dice.pick(&watch.heard).clone())
    };
    let done = match dice.between(0, 9) {
        0 => ground.broker.send(shard, &nonsense("data", b"{")).await,
        1 => ground.broker.send(shard, &nonsense("request", b"[]")).await,
        2 => ground.broker.submit(&nonsense("data", b"x")).await.map(drop),
        _ => match old {
            Some((shard, fields)) => ground.broker.send(shard, &fields).await,
            None => Ok(()),
        },
    };
    done.expect("nothing fails here");
}

async fn pause(ms: u64) {
    tokio::time::sleep(Duration::from_millis(ms)).await;
}
