//! Durations as Go parses and formats them: `0s`, `500ms`, `1m30s`, `24h0m0s`.

use std::fmt;
use std::time::Duration;

/// A duration in nanoseconds; as in Go it may be negative, which the checks reject.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(pub i64);

const UNITS: [(&str, i64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

impl Span {
    pub fn parse(text: &str) -> Result<Self, String> {
        let error = || format!("{text:?} is not a duration: write for example 30s, 500ms or 1m30s");
        let (is_negative, mut rest) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        if rest == "0" {
            return Ok(Self(0));
        }
        let mut total: i64 = 0;
        let mut is_empty = true;
        while !rest.is_empty() {
            let (nanoseconds, after) = part(rest).ok_or_else(error)?;
            total = total.checked_add(nanoseconds).ok_or_else(error)?;
            (rest, is_empty) = (after, false);
        }
        if is_empty { Err(error()) } else { Ok(Self(if is_negative { -total } else { total })) }
    }

    /// As a `Duration`; negative values were rejected before.
    pub fn duration(self) -> Duration {
        Duration::from_nanos(self.0.max(0).unsigned_abs())
    }
}

/// For flags whose durations cannot be negative.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    match Span::parse(text)? {
        Span(nanoseconds) if nanoseconds < 0 => Err(format!("{text:?} is negative: write 0s or more")),
        span => Ok(span.duration()),
    }
}

/// One number with its unit, and the rest of the text.
fn part(text: &str) -> Option<(i64, &str)> {
    let end = text.find(|it: char| !it.is_ascii_digit() && it != '.')?;
    let (number, after) = text.split_at(end);
    let mut units: Vec<_> = UNITS.iter().filter(|(unit, _)| after.starts_with(unit)).collect();
    units.sort_by_key(|(unit, _)| std::cmp::Reverse(unit.len()));
    let (unit, size) = **units.first()?;
    Some((scaled(number, size)?, &after[unit.len()..]))
}

fn scaled(number: &str, size: i64) -> Option<i64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let whole = if whole.is_empty() { 0 } else { whole.parse::<i64>().ok()?.checked_mul(size)? };
    let fraction = if fraction.is_empty() { 0.0 } else { format!("0.{fraction}").parse::<f64>().ok()? };
    whole.checked_add((fraction * size as f64) as i64)
}

impl fmt::Display for Span {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = self.0.unsigned_abs();
        let sign = if self.0 < 0 { "-" } else { "" };
        match total {
            0 => formatter.write_str("0s"),
            1..1_000 => write!(formatter, "{sign}{total}ns"),
            1_000..1_000_000 => write!(formatter, "{sign}{}µs", decimal(total, 1_000)),
            1_000_000..1_000_000_000 => write!(formatter, "{sign}{}ms", decimal(total, 1_000_000)),
            _ => {
                let (minutes, seconds) = (total / 60_000_000_000, decimal(total % 60_000_000_000, 1_000_000_000));
                match (minutes / 60, minutes % 60) {
                    (0, 0) => write!(formatter, "{sign}{seconds}s"),
                    (0, minutes) => write!(formatter, "{sign}{minutes}m{seconds}s"),
                    (hours, minutes) => write!(formatter, "{sign}{hours}h{minutes}m{seconds}s"),
                }
            }
        }
    }
}

/// A number of units with as many decimals as needed.
fn decimal(total: u64, unit: u64) -> String {
    let digits = unit.ilog10() as usize;
    let text = format!("{}.{:0digits$}", total / unit, total % unit);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_and_written_as_go_does() {
        let good = [
            ("0", "0s"),
            ("-0", "0s"),
            ("0s", "0s"),
            ("500ms", "500ms"),
            ("90s", "1m30s"),
            ("1.5s", "1.5s"),
            (".5s", "500ms"),
            ("1.s", "1s"),
            ("24h", "24h0m0s"),
            ("1h1ms", "1h0m0.001s"),
            ("-1m", "-1m0s"),
            ("1500ns", "1.5µs"),
            ("2us", "2µs"),
            ("15m0s", "15m0s"),
        ];
        for (text, written) in good {
            assert_eq!(Span::parse(text).map(|it| it.to_string()).as_deref(), Ok(written), "{text}");
            assert_eq!(Span::parse(written), Span::parse(text), "{written}");
        }
        for text in ["", "30", "s", "1x", "1s2", "-", ".s", "1.2.3s", "9999999999h", "1 s", "١s"] {
            assert!(Span::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn flags_of_our_own_take_no_negative_span() {
        assert_eq!(parse_duration("1m30s"), Ok(Duration::from_secs(90)));
        assert!(parse_duration("-1s").is_err());
    }
}
