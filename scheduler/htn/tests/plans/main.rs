//! Domains and problems are parsed, solved and ordered; an independent checker accepts what the search finds.

mod check;
mod checker;
mod fixtures;
mod links;
mod parse;
mod search;
