//! Plans made of other systems' workflows.

pub mod argo;
pub mod conductor;
mod conversion;
pub mod wfformat;

pub use conversion::Findings;
