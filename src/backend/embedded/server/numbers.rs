//! Numbers as the server reads and writes them. It knows no command; hexadecimal floats are not read.

/// An integer as the server accepts it: no plus, no space, no zero in front.
pub(super) fn integer(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let plain = match digits {
        b"0" => text.len() == 1,
        [b'1'..=b'9', rest @ ..] => rest.len() < 19 && rest.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    if !plain {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// A float as the server accepts it where it stores one: nothing around it, in range, a number.
pub(super) fn float(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(text).ok()?;
    let value: f64 = text.parse().ok()?;
    let named = text.trim_start_matches(['+', '-']).starts_with(['i', 'I']);
    let mantissa = text.split(['e', 'E']).next().unwrap_or_default();
    let vanished = value == 0.0 && mantissa.contains(|c: char| c.is_ascii_digit() && c != '0');
    (!value.is_nan() && (value.is_finite() || named) && !vanished).then_some(value)
}

/// The bound of a range of scores: also space in front, nothing at all, and what is out of range.
pub(super) fn bound(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(text).ok()?;
    if text.is_empty() {
        return Some(0.0);
    }
    let value: f64 = text.trim_ascii_start().parse().ok()?;
    (!value.is_nan()).then_some(value)
}

/// As `%.17g` writes it.
pub(super) fn text(value: f64) -> String {
    const DIGITS: i32 = 17;
    if value.is_nan() {
        return if value.is_sign_negative() { "-nan" } else { "nan" }.to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    if value.fract() == 0.0 && value.abs() < 1e15 && (value != 0.0 || value.is_sign_positive()) {
        return format!("{value:.0}");
    }
    let scientific = format!("{value:.16e}");
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..DIGITS).contains(&exponent) {
        let places = usize::try_from(DIGITS - 1 - exponent).unwrap_or_default();
        return shortened(&format!("{value:.places$}")).to_owned();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", shortened(mantissa), exponent.abs())
}

/// Without the zeros at the end of a fraction.
fn shortened(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

/// As the server's language casts it: out of range is the least there is.
pub(super) fn truncated(value: f64) -> i64 {
    // The bounds are powers of two, so they are exact.
    let in_range = (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&value);
    if in_range { value as i64 } else { i64::MIN }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_read_strictly() {
        for (text, value) in [
            ("0", Some(0)),
            ("-1", Some(-1)),
            ("9223372036854775807", Some(i64::MAX)),
            ("-9223372036854775808", Some(i64::MIN)),
            ("9223372036854775808", None),
            ("99999999999999999999", None),
            ("", None),
            ("-", None),
            ("-0", None),
            ("00", None),
            ("+1", None),
            (" 1", None),
            ("1 ", None),
            ("1.0", None),
        ] {
            assert_eq!(integer(text.as_bytes()), value, "{text:?}");
        }
        assert_eq!(integer(&[0xff]), None);
    }

    #[test]
    fn floats_are_read_as_the_server_does() {
        for (text, value) in [
            ("1", Some(1.0)),
            ("+1.5e3", Some(1500.0)),
            (".5", Some(0.5)),
            ("inf", Some(f64::INFINITY)),
            ("-Infinity", Some(f64::NEG_INFINITY)),
            ("0e99", Some(0.0)),
            ("nan", None),
            ("1e999", None),
            ("1e-999", None),
            (" 1", None),
            ("1x", None),
            ("", None),
        ] {
            assert_eq!(float(text.as_bytes()), value, "{text:?}");
        }
    }

    #[test]
    fn floats_are_written_with_seventeen_digits() {
        for (value, written) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (3.0, "3"),
            (-1.5, "-1.5"),
            (0.1, "0.10000000000000001"),
            (1e15, "1000000000000000"),
            (1e16, "10000000000000000"),
            (1e17, "1e+17"),
            (1.5e300, "1.5000000000000001e+300"),
            (1e-5, "1.0000000000000001e-05"),
            (0.0001, "0.0001"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(text(value), written);
        }
    }

    #[test]
    fn a_number_that_is_no_integer_is_cut_and_one_out_of_range_is_the_least() {
        assert_eq!(truncated(3.99), 3);
        assert_eq!(truncated(-3.99), -3);
        for value in [1e300, -1e300, f64::NAN, f64::INFINITY, 9_223_372_036_854_775_808.0] {
            assert_eq!(truncated(value), i64::MIN);
        }
    }
}
