//! Time spans on the command line, as Go and Kubernetes write them: `0s`, `500ms`, `1m30s`, `24h`.

use std::time::Duration;

const UNITS: [(&str, f64); 6] = [("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9), ("h", 3600.0), ("m", 60.0), ("s", 1.0)];

pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let mistake = || format!("{text:?} is not a time span: write for example 30s, 500ms or 1m30s");
    let mut rest = text;
    let mut seconds = 0.0;
    while !rest.is_empty() && text != "0" {
        let digits = rest.find(|it: char| !it.is_ascii_digit() && it != '.').ok_or_else(mistake)?;
        let (number, after) = rest.split_at(digits);
        let (unit, factor) = UNITS.iter().find(|(unit, _)| after.starts_with(unit)).ok_or_else(mistake)?;
        seconds += number.parse::<f64>().map_err(|_| mistake())? * factor;
        rest = &after[unit.len()..];
    }
    if text.is_empty() { Err(mistake()) } else { Duration::try_from_secs_f64(seconds).map_err(|_| mistake()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_as_go_writes_them() {
        let good = [("0", 0), ("0s", 0), ("500ms", 500), ("1m30s", 90_000), ("1.5s", 1500), ("24h", 86_400_000)];
        for (text, milliseconds) in good {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
        for text in ["", "30", "s", "1x", "-1s", "1s2"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }
}
