//! Rules against calls that try to evade them.

mod attacks;
mod spellings;
