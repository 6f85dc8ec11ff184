//! Text for messages: truncated by characters, its tokens estimated, times as people say them.

use std::time::Duration;

pub(crate) use haft_core::text::{head, nth_char, shortened};

/// Estimates the tokens of a text of this many bytes. Three bytes a token is more than most texts
/// need, so that a reservation is rather too large.
pub(crate) fn estimate_tokens(bytes: usize) -> u64 {
    u64::try_from(bytes.div_ceil(3)).unwrap_or(u64::MAX)
}

/// The length of a value as compact JSON text, without creating the text.
pub(crate) fn json_size(json: &serde_json::Value) -> usize {
    struct Count(usize);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    let _ = serde_json::to_writer(&mut count, json);
    count.0
}

/// Writes a time as people say it: whole units where it has them, and never less than it is.
pub(crate) fn in_words(time: Duration) -> String {
    let millis = time.as_nanos().div_ceil(1_000_000);
    let units = [(86_400_000, "day"), (3_600_000, "hour"), (60_000, "minute"), (1_000, "second")];
    for (unit, word) in units {
        if millis >= unit && millis.is_multiple_of(unit) {
            let plural = if millis == unit { "" } else { "s" };
            return format!("{} {word}{plural}", millis / unit);
        }
    }
    match millis {
        0..10_000 => format!("{millis} ms"),
        _ => format!("{} seconds", millis.div_ceil(1_000)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_people_say_them() {
        let of = |millis| in_words(Duration::from_millis(millis));
        assert_eq!(
            [0, 1, 999, 1_000, 1_500, 60_000, 90_000, 12_345, 7_200_000, 86_400_000].map(of),
            [
                "0 ms",
                "1 ms",
                "999 ms",
                "1 second",
                "1500 ms",
                "1 minute",
                "90 seconds",
                "13 seconds",
                "2 hours",
                "1 day"
            ]
        );
        assert_eq!(in_words(Duration::from_nanos(1)), "1 ms", "never less than it is");
        assert!(in_words(Duration::MAX).ends_with("seconds"));
    }
}
