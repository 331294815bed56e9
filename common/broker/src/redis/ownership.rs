//! Shard ownership.
//!
//! Redis never decides that an owner is dead, and no key expires: a claimant watches token and beat, and claims with
//! what it saw, by its own monotonic clock. So a jump of the server's clock moves no ownership.

use goalmill_common::id::ShardId;
use redis::cmd;

use super::Result;
use super::connections::Connections;
use super::functions::Function;
use crate::{Claim, Ownership};

impl Connections {
    pub(super) async fn owner(&self, shard: ShardId) -> Result<Option<Ownership>> {
        let mut read = cmd("HMGET");
        read.arg(self.keys.owner(shard)).arg(&["token", "holder", "beat"]);
        let (token, holder, beat): (Option<String>, Option<String>, Option<u64>) = self.ask(&read).await?;
        Ok(token.map(|token| Ownership { token, holder: holder.unwrap_or_default(), beat: beat.unwrap_or(0) }))
    }

    pub(super) async fn acquire(&self, shard: ShardId, claim: &Claim) -> Result<bool> {
        let mut call = Function::Acquire.on(&[self.keys.owner(shard)]);
        call.arg(&claim.token).arg(&claim.holder);
        match &claim.seen {
            Some(seen) => call.arg("1").arg(&seen.token).arg(seen.beat),
            None => call.arg("0"),
        };
        self.call(&call).await
    }

    pub(super) async fn renew(&self, shard: ShardId, token: &str) -> Result<bool> {
        self.call(Function::Renew.on(&[self.keys.owner(shard)]).arg(token)).await
    }

    pub(super) async fn release(&self, shard: ShardId, token: &str) -> Result<()> {
        let _released: bool = self.call(Function::Release.on(&[self.keys.owner(shard)]).arg(token)).await?;
        Ok(())
    }
}
