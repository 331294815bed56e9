//! Goal patterns → plan templates: the floor that works with no key and no network.
