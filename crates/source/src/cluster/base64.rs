//! Base64 with the standard alphabet: the `-data` fields of a kubeconfig, and basic authentication.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

pub(super) fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |index: usize| u32::from(group.get(index).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..4 {
            let index = (bits >> (18 - 6 * digit)) & 63;
            text.push(if digit > group.len() { '=' } else { char::from(ALPHABET[index as usize]) });
        }
    }
    text
}

/// Line breaks and spaces do not count, because YAML folds long values. `None` if it is not base64; the text itself may
/// be a secret and is no part of any error.
pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let end = digits.iter().rposition(|digit| *digit != b'=').map_or(0, |last| last + 1);
    if !digits.len().is_multiple_of(4) || digits.len() - end > 2 {
        return None;
    }
    let mut bytes = Vec::with_capacity(digits.len() / 4 * 3);
    for group in digits[..end].chunks(4) {
        let bits = group.iter().try_fold(0, |bits, digit| Some(bits << 6 | value(*digit)?))? << (6 * (4 - group.len()));
        bytes.extend_from_slice(&u32::to_be_bytes(bits)[1..group.len()]);
    }
    Some(bytes)
}

fn value(digit: u8) -> Option<u32> {
    ALPHABET.iter().position(|it| *it == digit).and_then(|index| u32::try_from(index).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_rfc_4648() {
        let examples =
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("foobar", "Zm9vYmFy")];
        for (plain, coded) in examples {
            assert_eq!(encode(plain.as_bytes()), coded);
            assert_eq!(decode(coded).as_deref(), Some(plain.as_bytes()));
        }
    }

    #[test]
    fn every_byte_survives_and_line_breaks_do_not_count() {
        let all: Vec<u8> = (0..=255).collect();
        let folded: Vec<String> =
            encode(&all).as_bytes().chunks(64).map(|line| String::from_utf8_lossy(line).into()).collect();
        assert_eq!(decode(&folded.join("\n  ")), Some(all));
    }

    #[test]
    fn what_is_no_base64_is_refused() {
        for text in ["Z", "Zm9", "Zg=", "Z===", "====", "Zm9v!", "Zm=v", "-_-_"] {
            assert_eq!(decode(text), None, "{text}");
        }
    }
}
