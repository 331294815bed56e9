//! A shard has one owner, and only its token counts.

use goalmill_broker::{Committed, Ownership};

use crate::make::{S0, S1, claim, commit, own};
use crate::stage::Stage;

on_both_back_ends! {
    the_first_claim_wins_and_the_second_loses,
    a_claim_against_a_moved_beat_loses,
    a_takeover_fences_the_old_owner,
    a_repeated_claim_is_answered_again_and_resets_nothing,
    a_claim_that_saw_an_owner_loses_when_there_is_none,
    only_the_owner_renews_and_releases,
    a_released_shard_is_free,
}

const OWNER: &str = "goalmill:{s0}:owner";

async fn the_first_claim_wins_and_the_second_loses(mut stage: Stage) {
    let before = stage.look().await;
    assert_eq!(stage.broker.owner(S0).await.unwrap(), None);
    assert!(stage.broker.acquire(S0, &claim("one", "t1", None)).await.unwrap());
    stage.assert_changed(&before, &["owner 0"], &[OWNER]).await;
    let expected = Ownership { token: "t1".into(), holder: "one".into(), beat: 0 };
    assert_eq!(stage.broker.owner(S0).await.unwrap(), Some(expected));

    let before = stage.look().await;
    assert!(!stage.broker.acquire(S0, &claim("two", "t2", None)).await.unwrap());
    stage.assert_unchanged(&before).await;
    assert_eq!(stage.broker.owner(S1).await.unwrap(), None);
}

async fn a_claim_against_a_moved_beat_loses(mut stage: Stage) {
    own(&*stage.broker, S0, "t1").await;
    let seen = stage.broker.owner(S0).await.unwrap();
    assert!(stage.broker.renew(S0, "t1").await.unwrap());
    let before = stage.look().await;
    assert!(!stage.broker.acquire(S0, &claim("two", "t2", seen)).await.unwrap());
    stage.assert_unchanged(&before).await;

    let seen = stage.broker.owner(S0).await.unwrap();
    assert_eq!(stage.broker.commit(&commit("t1", 1)).await.unwrap(), Committed::Applied);
    assert!(!stage.broker.acquire(S0, &claim("two", "t2", seen)).await.unwrap(), "a commit is a sign of life");
}

async fn a_takeover_fences_the_old_owner(mut stage: Stage) {
    own(&*stage.broker, S0, "t1").await;
    assert_eq!(stage.broker.commit(&commit("t1", 1)).await.unwrap(), Committed::Applied);
    let seen = stage.broker.owner(S0).await.unwrap();
    assert!(stage.broker.acquire(S0, &claim("two", "t2", seen)).await.unwrap());

    let before = stage.look().await;
    assert!(!stage.broker.renew(S0, "t1").await.unwrap());
    assert_eq!(stage.broker.commit(&commit("t1", 2)).await.unwrap(), Committed::Fenced);
    stage.broker.release(S0, "t1").await.unwrap();
    stage.assert_unchanged(&before).await;
    assert_eq!(stage.broker.commit(&commit("t2", 1)).await.unwrap(), Committed::Applied, "numbers start anew");
}

async fn a_repeated_claim_is_answered_again_and_resets_nothing(mut stage: Stage) {
    own(&*stage.broker, S0, "t1").await;
    assert_eq!(stage.broker.commit(&commit("t1", 1)).await.unwrap(), Committed::Applied);
    let before = stage.look().await;
    assert!(stage.broker.acquire(S0, &claim("scheduler-1", "t1", None)).await.unwrap());
    stage.assert_unchanged(&before).await;
    assert_eq!(stage.broker.commit(&commit("t1", 1)).await.unwrap(), Committed::Duplicate);
}

async fn a_claim_that_saw_an_owner_loses_when_there_is_none(mut stage: Stage) {
    let before = stage.look().await;
    let seen = Ownership { token: "t0".into(), holder: "zero".into(), beat: 4 };
    assert!(!stage.broker.acquire(S0, &claim("one", "t1", Some(seen))).await.unwrap());
    stage.assert_unchanged(&before).await;
}

async fn only_the_owner_renews_and_releases(mut stage: Stage) {
    let before = stage.look().await;
    assert!(!stage.broker.renew(S0, "t1").await.unwrap());
    stage.broker.release(S0, "t1").await.unwrap();
    stage.assert_unchanged(&before).await;

    own(&*stage.broker, S0, "t1").await;
    let before = stage.look().await;
    assert!(!stage.broker.renew(S0, "t2").await.unwrap());
    assert!(!stage.broker.renew(S1, "t1").await.unwrap());
    stage.broker.release(S0, "t2").await.unwrap();
    stage.broker.release(S1, "t1").await.unwrap();
    stage.assert_unchanged(&before).await;
    assert!(stage.broker.renew(S0, "t1").await.unwrap());
    stage.assert_changed(&before, &["owner 0"], &[OWNER]).await;
    assert_eq!(stage.broker.owner(S0).await.unwrap().unwrap().beat, 1);
}

async fn a_released_shard_is_free(mut stage: Stage) {
    own(&*stage.broker, S0, "t1").await;
    let before = stage.look().await;
    stage.broker.release(S0, "t1").await.unwrap();
    stage.assert_changed(&before, &["owner 0"], &[OWNER]).await;
    assert_eq!(stage.broker.owner(S0).await.unwrap(), None);
    assert_eq!(stage.broker.commit(&commit("t1", 1)).await.unwrap(), Committed::Fenced);
    assert!(stage.broker.acquire(S0, &claim("two", "t2", None)).await.unwrap());
}
