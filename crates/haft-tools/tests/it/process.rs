//! Filled by its room.
