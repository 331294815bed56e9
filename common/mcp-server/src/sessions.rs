//! Sessions of clients that speak a protocol before 2026-07-28: bounded in number, each of one caller.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::Stream;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_server::session::local::{LocalSessionManager, LocalSessionManagerError};
use rmcp::transport::streamable_http_server::session::{ServerSseMessage, SessionId, SessionManager};

/// The sessions that are open. When a further one begins, the one that was not used for longest ends.
#[derive(Debug)]
pub(crate) struct BoundedSessions {
    local: LocalSessionManager,
    sessions_max: usize,
    table: Mutex<SessionTable>,
}

#[derive(Debug, Default)]
struct SessionTable {
    /// Counts uses; a session's last one says which is the oldest.
    uses: u64,
    open: BTreeMap<SessionId, OpenMcpSession>,
}

#[derive(Debug, Default)]
struct OpenMcpSession {
    /// None until the caller has its id.
    caller: Option<String>,
    used: u64,
}

impl BoundedSessions {
    /// - `sessions_max`: at least 1.
    /// - `idle`: a session ends when nothing has happened in it for so long.
    pub(crate) fn new(sessions_max: usize, idle: Duration) -> Self {
        let mut local = LocalSessionManager::default();
        local.session_config.keep_alive = Some(idle);
        Self { local, sessions_max, table: Mutex::default() }
    }

    /// Whether a session is open and belongs to a caller. Counts as a use.
    pub(crate) fn is_of(&self, session: &str, caller: &str) -> bool {
        let mut table = self.table();
        table.uses += 1;
        let used = table.uses;
        let found = table.open.get_mut(session).filter(|open| open.caller.as_deref() == Some(caller));
        found.map(|open| open.used = used).is_some()
    }

    /// Says whose a session is.
    pub(crate) fn set_caller(&self, session: &str, caller: &str) {
        if let Some(open) = self.table().open.get_mut(session) {
            open.caller = Some(caller.to_owned());
        }
    }

    /// Records a session, and removes those that are too many.
    fn record(&self, session: &SessionId) -> Vec<SessionId> {
        let mut table = self.table();
        table.uses += 1;
        let used = table.uses;
        table.open.insert(session.clone(), OpenMcpSession { caller: None, used });
        let mut ended = Vec::new();
        while table.open.len() > self.sessions_max {
            let oldest = table.open.iter().min_by_key(|(_, open)| open.used).map(|(id, _)| id.clone());
            let Some(oldest) = oldest else { break };
            table.open.remove(&oldest);
            ended.push(oldest);
        }
        ended
    }

    fn table(&self) -> MutexGuard<'_, SessionTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SessionManager for BoundedSessions {
    type Error = LocalSessionManagerError;
    type Transport = <LocalSessionManager as SessionManager>::Transport;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), Self::Error> {
        let (id, transport) = self.local.create_session().await?;
        for ended in self.record(&id) {
            self.local.close_session(&ended).await?;
        }
        Ok((id, transport))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, Self::Error> {
        self.local.initialize_session(id, message).await
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, Self::Error> {
        self.local.has_session(id).await
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), Self::Error> {
        self.table().open.remove(id);
        self.local.close_session(id).await
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        self.local.create_stream(id, message).await
    }

    async fn accept_message(&self, id: &SessionId, message: ClientJsonRpcMessage) -> Result<(), Self::Error> {
        self.local.accept_message(id, message).await
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        self.local.create_standalone_stream(id).await
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        self.local.resume(id, last_event_id).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_further_session_ends_the_one_that_was_not_used_for_longest() {
        let sessions = BoundedSessions::new(2, Duration::from_mins(1));
        let begin = async |caller: &str| {
            let (id, _) = sessions.create_session().await.expect("there is room");
            sessions.set_caller(&id, caller);
            id
        };
        let (first, second) = (begin("ann").await, begin("ann").await);
        assert!(sessions.is_of(&first, "ann"));
        let third = begin("bob").await;
        assert!(sessions.is_of(&first, "ann") && sessions.is_of(&third, "bob"));
        assert!(!sessions.is_of(&second, "ann"));
        assert!(!sessions.has_session(&second).await.expect("it answers"));
        assert!(sessions.has_session(&first).await.expect("it answers"));
    }

    #[tokio::test]
    async fn a_session_belongs_to_the_caller_that_began_it() {
        let sessions = BoundedSessions::new(2, Duration::from_mins(1));
        let (id, _) = sessions.create_session().await.expect("there is room");
        assert!(!sessions.is_of(&id, "ann"), "nobody has its id yet");
        sessions.set_caller(&id, "ann");
        assert!(sessions.is_of(&id, "ann") && !sessions.is_of(&id, "bob"));
        sessions.close_session(&id).await.expect("it ends");
        assert!(!sessions.is_of(&id, "ann"));
    }
}
