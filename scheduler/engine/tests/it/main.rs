//! The engine from outside: commands in, events and effects out.

mod world;

mod life;

mod failure;

mod shape;

mod nested;
