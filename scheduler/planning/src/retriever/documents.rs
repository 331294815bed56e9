//! The retriever of documents: files of a folder and listed addresses, read again after a while.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use goalmill_common::config::RetrieverSettings;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::Passage;
use super::passages::PassageIndex;
use super::sources::{read_folder, read_urls};

/// Finds passages in documents.
pub struct DocumentRetriever {
    settings: RetrieverSettings,
    state: Mutex<Option<LoadedDocuments>>,
}

struct LoadedDocuments {
    index: Arc<PassageIndex>,
    loaded_at: Instant,
}

impl DocumentRetriever {
    /// None when the settings name no documents.
    pub fn from_settings(settings: &RetrieverSettings) -> Option<Self> {
        let has_sources = !settings.documents_dir.is_empty() || !settings.urls.is_empty();
        (has_sources && settings.passages_max > 0).then(|| Self { settings: settings.clone(), state: Mutex::default() })
    }

    /// The index, built again when it is too old. Others wait while it is built, within the time of their planner.
    async fn index(&self) -> Arc<PassageIndex> {
        let mut state = self.state.lock().await;
        let refresh = Duration::from_millis(self.settings.refresh_ms);
        if let Some(loaded) = state.as_ref().filter(|loaded| loaded.loaded_at.elapsed() < refresh) {
            return loaded.index.clone();
        }
        let index = Arc::new(self.load().await);
        tracing::debug!("the documents have {} passages", index.len());
        *state = Some(LoadedDocuments { index: index.clone(), loaded_at: Instant::now() });
        index
    }

    async fn load(&self) -> PassageIndex {
        let settings = self.settings.clone();
        let timeout = Duration::from_millis(settings.fetch_timeout_ms);
        let mut room = settings.bytes_max;
        let fetched = read_urls(&settings.urls, timeout, &mut room).await;
        let build = move || {
            let mut documents = match settings.documents_dir.as_str() {
                "" => Vec::new(),
                folder => read_folder(Path::new(folder), settings.files_max, &mut room),
            };
            documents.extend(fetched);
            PassageIndex::new(&documents, settings.passage_chars_max)
        };
        match tokio::task::spawn_blocking(build).await {
            Ok(index) => index,
            Err(error) => {
                tracing::warn!("the documents cannot be indexed: {error}");
                PassageIndex::new(&[], 1)
            }
        }
    }

    /// The passages that fit best, best first.
    ///
    /// - `most`: how many at most.
    pub async fn retrieve(&self, question: &str, most: usize) -> Vec<Passage> {
        self.index().await.rank(question, most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn documents_are_found_by_what_they_say_and_only_where_some_are_named() {
        let folder = tempfile::tempdir().expect("a temporary directory can be made");
        std::fs::write(folder.path().join("travel.md"), "Hotels near the station in Rome are quiet.").expect("written");
        std::fs::write(folder.path().join("bread.md"), "Bake bread for an hour.").expect("written");
        let documents_dir = folder.path().to_string_lossy().into_owned();
        let settings = RetrieverSettings { documents_dir, ..RetrieverSettings::default() };
        let retriever = DocumentRetriever::from_settings(&settings).expect("there is a folder");
        let found = retriever.retrieve("a quiet hotel in Rome", 3).await;
        assert_eq!((found[0].source.as_str(), found[0].retriever), ("travel.md#1", "documents"));
        assert!(DocumentRetriever::from_settings(&RetrieverSettings::default()).is_none());
    }
}
