//! What this host supports.
