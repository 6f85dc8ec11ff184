//! Runs every example and reads what it says.
