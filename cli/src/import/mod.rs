//! Plans made of other systems' workflows.

pub mod wfformat;
