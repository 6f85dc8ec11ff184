//! Rates and times, checked early so that a mistake is one line at the literal.
//!
//! The truth is `Rate::parse` and `parse_duration` of haft-core, which the generated code calls in
//! a constant. What is refused here is refused there; what slips through here is caught there.

const CENTURY: u64 = 3_155_760_000_000;

/// Says what is wrong with a time such as `20s`, if anything.
pub(crate) fn time_mistake(text: &str) -> Option<String> {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let count = text.strip_suffix(unit).and_then(|count| count.parse::<u64>().ok());
    let millis = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => 0,
    };
    match count {
        Some(count @ 1..) if millis > 0 => {
            let long = count.checked_mul(millis).is_none_or(|ms| ms > CENTURY);
            long.then(|| format!("`{text}` is longer than a century; a time ends before that"))
        }
        _ => Some(format!(
            "`{text}` is not a time: a time is a whole number above zero and ms, s, m, h or d, \
             as in \"20s\""
        )),
    }
}

/// Says what is wrong with a rate such as `10/second`, if anything.
pub(crate) fn rate_mistake(text: &str) -> Option<String> {
    let right = text.split_once('/').is_some_and(|(count, per)| {
        matches!(per, "second" | "minute" | "hour" | "day") && is_positive(count)
    });
    (!right).then(|| {
        format!(
            "`{text}` is not a rate: a rate is a whole number above zero, a slash, and second, \
             minute, hour or day, as in \"10/second\""
        )
    })
}

fn is_positive(digits: &str) -> bool {
    digits.bytes().all(|b| b.is_ascii_digit()) && digits.parse::<u32>().is_ok_and(|n| n > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_ones_pass_and_bad_ones_are_told() {
        for good in ["500ms", "20s", "5m", "2h", "1d", "99999999999ms"] {
            assert_eq!(time_mistake(good), None, "{good}");
        }
        for bad in ["", "5", "s", "0s", "1w", "1 s", "-1s", "99999999999s"] {
            assert!(time_mistake(bad).is_some(), "{bad}");
        }
        for good in ["10/second", "3/day"] {
            assert_eq!(rate_mistake(good), None, "{good}");
        }
        for bad in ["", "/s", "1", "1/s", "0/hour", "1 /day", "+1/day"] {
            assert!(rate_mistake(bad).is_some(), "{bad}");
        }
    }
}
