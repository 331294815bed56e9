//! Lost.
