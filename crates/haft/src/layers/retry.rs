//! Makes a failed attempt again, where that cannot do harm.
