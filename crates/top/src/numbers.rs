//! Numbers in few letters.

const UNITS: [&str; 6] = ["", "k", "M", "G", "T", "P"];

/// `0`, `0.4`, `12`, `1.5k`, `999G`: at most five letters.
pub(crate) fn short(number: f64) -> String {
    let mut rest = number.max(0.0);
    let mut unit = 0;
    while rest >= 999.5 && unit + 1 < UNITS.len() {
        (rest, unit) = (rest / 1000.0, unit + 1);
    }
    match rest {
        0.0 => "0".into(),
        rest if rest < 9.95 && (unit > 0 || rest.fract() != 0.0) => format!("{rest:.1}{}", UNITS[unit]),
        rest => format!("{rest:.0}{}", UNITS[unit]),
    }
}

/// A rate that is not known yet is `-`.
pub(crate) fn rate(rate: Option<f64>) -> String {
    rate.map_or("-".into(), short)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let cases = [(0.0, "0"), (0.44, "0.4"), (3.0, "3"), (12.4, "12"), (999.4, "999"), (999.6, "1.0k")];
        cases.into_iter().for_each(|(number, text)| assert_eq!(short(number), text));
        assert_eq!((short(1536.0), short(25_300_000.0), short(1e30).len() > 5), ("1.5k".into(), "25M".into(), true));
        assert_eq!((rate(None), short(-1.0)), ("-".into(), "0".into()));
    }
}
