//! Amounts in configuration files: money and fractions. A wrong one is reported with its location.

use super::node::{FromNode as _, Kind, Node, Reader};

/// Reads an amount of money in millionths: a number, or an exact string.
pub(super) fn money(reader: &mut Reader<'_>, node: &Node, what: &str) -> Option<u64> {
    const UNIT: i64 = 1_000_000;
    let amount = match &node.kind {
        Kind::Whole(n) => u64::try_from(*n).ok().and_then(|n| n.checked_mul(UNIT as u64)),
        // Up to 9e9 units a float still distinguishes millionths.
        Kind::Real(n) if (0.0..9e9).contains(n) => Some((n * UNIT as f64).round() as u64),
        Kind::Text(text) => micros(text),
        _ => None,
    };
    if amount.is_none() {
        reader.wrong(
            node.at,
            format!("{what} must be an amount of money, at least 0, with at most six decimals"),
            "write it as a number or in quotes, as in `0.50` or \"0.50\"",
        );
    }
    amount
}

fn micros(text: &str) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || part.len() > 6 || !digits(whole) || !digits(part) || text.ends_with('.')
    {
        return None;
    }
    let part: u64 = format!("{part:0<6}").parse().ok()?;
    whole.parse::<u64>().ok()?.checked_mul(1_000_000)?.checked_add(part)
}

/// Reads a fraction between 0 and 1 as a percentage.
pub(super) fn share(reader: &mut Reader<'_>, node: &Node, what: &str) -> Option<u8> {
    let share = f64::from_node(reader, node, what)?;
    if share > 0.0 && share <= 1.0 {
        return Some((share * 100.0).round().max(1.0) as u8);
    }
    reader.wrong(
        node.at,
        format!("{what} must be a fraction above 0 and up to 1, got {share}"),
        "0.8 warns when 80% are used",
    );
    None
}
