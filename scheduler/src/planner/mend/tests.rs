//! Drafts with one thing wrong, and what becomes of them.
