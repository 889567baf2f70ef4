//! Durations as they are written: with a unit, but for the seconds that `flock` takes.

use std::time::Duration;

/// `500ms`, `30s`, `1h 30m`.
pub(crate) fn with_unit(text: &str) -> Result<Duration, String> {
    // A slip of the shift key makes a month of a minute.
    if text.contains('M') {
        return Err("M is months: write m for minutes, or months".to_owned());
    }
    humantime::parse_duration(text).map_err(|error| match error {
        humantime::DurationError::Empty => "a duration is missing, such as 30s or 1h".to_owned(),
        _ if text.trim().parse::<f64>().is_ok() => {
            format!("a duration needs a unit, such as {0}s or {0}m", text.trim())
        }
        _ => format!("{error}; a duration is a number and a unit, such as 500ms, 30s or 1h"),
    })
}

/// The same, and bare seconds, of which parts may be given.
pub(crate) fn wait(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) => Duration::try_from_secs_f64(seconds)
            .map_err(|_| "a wait is a number of seconds, or a number and a unit, such as 10 or 5m".to_owned()),
        Err(_) => with_unit(text),
    }
}

/// For a line: no finer than anybody reads it.
pub(crate) fn shown(duration: Duration) -> String {
    let whole = match duration.as_millis() {
        0..1000 => Duration::from_millis(u64::try_from(duration.as_millis()).unwrap_or_default()),
        1000..10_000 => Duration::from_millis(u64::try_from(duration.as_millis() / 100).unwrap_or_default() * 100),
        _ => Duration::from_secs(duration.as_secs()),
    };
    humantime::format_duration(whole).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_needs_a_unit() {
        assert_eq!(with_unit("1h 30m"), Ok(Duration::from_secs(5400)));
        assert_eq!(with_unit("500ms"), Ok(Duration::from_millis(500)));
        for text in ["10", "1.5", " 7 "] {
            assert!(with_unit(text).is_err_and(|why| why.contains("needs a unit")), "{text}");
        }
        for text in ["", "h", "-1s", "10 parsecs", "99999999999999999999s"] {
            assert!(with_unit(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_month_is_not_meant_by_one_letter() {
        for text in ["1M", "2h 30M", "5 M"] {
            assert!(with_unit(text).is_err_and(|why| why.contains("write m for minutes")), "{text}");
            assert!(wait(text).is_err(), "{text}");
        }
        assert_eq!(with_unit("30m"), Ok(Duration::from_secs(1800)));
        assert!(with_unit("2months").is_ok());
    }

    #[test]
    fn only_a_wait_takes_bare_seconds() {
        assert_eq!(wait("10"), Ok(Duration::from_secs(10)));
        assert_eq!(wait("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(wait("2m"), Ok(Duration::from_secs(120)));
        for text in ["-1", "nan", "inf", "1e300", "soon"] {
            assert!(wait(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_duration_is_shown_no_finer_than_it_is_read() {
        let shown = [0, 12, 4_871, 61_500].map(|ms| shown(Duration::from_millis(ms)));
        assert_eq!(shown, ["0s", "12ms", "4s 800ms", "1m 1s"]);
    }
}
