//! Medians, percentiles and how they are printed.

use std::time::Duration;

/// The middle one; of an even number the upper of the two.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The value that `percent` of the samples do not exceed.
pub(crate) fn percentile(samples: &mut [Duration], percent: usize) -> Duration {
    samples.sort_unstable();
    let at = (samples.len() * percent / 100).min(samples.len().saturating_sub(1));
    samples.get(at).copied().unwrap_or_default()
}

/// A heading.
pub(crate) fn title(text: impl AsRef<str>) {
    println!("\n{}", text.as_ref());
}

/// One figure.
pub(crate) fn line(what: &str, figure: impl AsRef<str>) {
    println!("  {what:<44} {:>12}", figure.as_ref());
}

pub(crate) fn micros(span: Duration) -> String {
    format!("{:.1} µs", span.as_secs_f64() * 1e6)
}
