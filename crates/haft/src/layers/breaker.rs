//! Leaves a tool alone for a while that fails again and again.
