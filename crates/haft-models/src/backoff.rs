//! When to send a request again: `Retry-After` and its variants, else exponential backoff with
//! jitter.

use std::{
    hash::{BuildHasher as _, RandomState},
    time::Duration,
};

use reqwest::header::HeaderMap;
use serde_json::Value;

use crate::Retries;

/// Returns the wait before a repetition: at least half of `first_wait * 2^retry`, at most all of
/// it, so that clients that failed together do not return together.
pub(crate) fn wait(retries: &Retries, retry: u32) -> Duration {
    jittered(retries, retry, RandomState::new().hash_one(retry))
}

fn jittered(retries: &Retries, retry: u32, random: u64) -> Duration {
    let factor = 1_u32.checked_shl(retry.min(16)).unwrap_or(u32::MAX);
    let full = retries.first_wait.saturating_mul(factor).min(retries.max_wait);
    let half = full / 2;
    let part = u32::try_from(random % 1_000).unwrap_or(0);
    half + half * part / 1_000
}

/// Returns how long a provider asks to wait; `None` if it does not say.
pub(crate) fn requested_wait(headers: &HeaderMap, body: &Value) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    if let Some(millis) = text("retry-after-ms").and_then(|text| text.parse::<f64>().ok()) {
        return Duration::try_from_secs_f64(millis / 1_000.0).ok();
    }
    if let Some(after) = text("retry-after") {
        if let Ok(seconds) = after.parse::<f64>() {
            return Duration::try_from_secs_f64(seconds).ok();
        }
        // A date is compared with the server's own clock, which may differ from this machine's.
        let until = httpdate::parse_http_date(after).ok()?;
        let now = httpdate::parse_http_date(text("date")?).ok()?;
        return Some(until.duration_since(now).unwrap_or_default());
    }
    gemini_delay(body)
}

/// The delay in an error of Gemini: `{"error": {"details": [{"retryDelay": "12s"}]}}`.
fn gemini_delay(body: &Value) -> Option<Duration> {
    let details = body.pointer("/error/details")?.as_array()?;
    let text = details.iter().find_map(|detail| detail.get("retryDelay")?.as_str())?;
    let seconds: f64 = text.strip_suffix('s')?.parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderValue;
    use serde_json::json;

    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(k, v)| (k.parse().unwrap(), HeaderValue::from_static(v))).collect()
    }

    #[test]
    fn backoff_doubles_with_jitter_up_to_the_longest_wait() {
        let retries = Retries::default();
        for retry in 0..40 {
            let full = Duration::from_millis(500 << retry.min(16)).min(retries.max_wait);
            let least = jittered(&retries, retry, 0);
            let most = jittered(&retries, retry, 999);
            assert_eq!(least, full / 2);
            assert!(most > least && most < full, "{retry}: {most:?}");
        }
        let none = Retries::default().first_wait(Duration::ZERO);
        assert_eq!(wait(&none, 3), Duration::ZERO);
    }

    #[test]
    fn wait_is_read_from_every_known_form() {
        let seconds = |n| Some(Duration::from_secs(n));
        let none = json!({});
        assert_eq!(requested_wait(&headers(&[("retry-after", "7")]), &none), seconds(7));
        let both = headers(&[("retry-after-ms", "1500"), ("retry-after", "9")]);
        assert_eq!(requested_wait(&both, &none), Some(Duration::from_millis(1_500)));
        let date = headers(&[
            ("date", "Sun, 06 Nov 1994 08:49:37 GMT"),
            ("retry-after", "Sun, 06 Nov 1994 08:50:07 GMT"),
        ]);
        assert_eq!(requested_wait(&date, &none), seconds(30));
        let delay = json!({"error": {"details": [{"@type": "x"}, {"retryDelay": "12s"}]}});
        assert_eq!(requested_wait(&headers(&[]), &delay), seconds(12));
        for wrong in ["soon", "-1", "1e400", "NaN", "Sun, 06 Nov 1994 08:50:07 GMT"] {
            let headers = headers(&[]);
            let mut headers = headers;
            headers.insert("retry-after", HeaderValue::from_static(wrong));
            assert_eq!(requested_wait(&headers, &none), None, "{wrong}");
        }
    }
}
