//! Hierarchical task networks: HDDL domains and problems in, plans with real dependencies out.
