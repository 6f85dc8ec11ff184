//! Rules against calls that try to evade them, and in large numbers.

mod attacks;
mod growth;
mod spellings;
