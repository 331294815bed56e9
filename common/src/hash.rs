//! Maps and sets for lookups on the hot path, by a hash that is several times faster than the standard one for short
//! keys.

/// A map whose order is not seen. Its hash is seeded for each process, and made to hold out against keys that collide
/// by chance, not against somebody who has taken its seed apart: keys come from clients that may submit plans.
pub type HashMap<K, V> = std::collections::HashMap<K, V, foldhash::fast::RandomState>;

/// A set of the same kind.
pub type HashSet<K> = std::collections::HashSet<K, foldhash::fast::RandomState>;
