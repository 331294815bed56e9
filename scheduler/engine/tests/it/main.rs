//! The engine from outside: commands in, events and effects out.

mod audit;
mod work;
mod world;

mod life;
mod lifecycle;

mod stored_payloads;

mod ends;

mod record;

mod feedback;

mod failure;

mod shape;

mod order;

mod cleanup;
mod dependency_status;
mod done_work;
mod map;
mod map_undo;
mod nested;

mod family;
mod family_events;

mod repeat;
mod revise;
mod revised_undo;

mod parts;

mod policy;

mod extend;

mod hooks;

mod times;
mod waits;

mod call_budgets;
mod call_plans;
mod callbacks;
mod calls;
mod cards;
mod contract;
mod recorded_calls;

mod look;

mod histories;
