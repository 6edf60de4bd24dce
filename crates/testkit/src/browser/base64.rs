//! The encoding of pictures in WebDriver.

/// The bytes of a text in base64, or `None` if it is not.
pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut held) = (0u32, 0);
    for letter in text.bytes().filter(|it| *it != b'=') {
        bits = (bits << 6) | u32::from(value_of(letter)?);
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held) as u8);
            bits &= (1 << held) - 1;
        }
    }
    Some(bytes)
}

fn value_of(letter: u8) -> Option<u8> {
    match letter {
        b'A'..=b'Z' => Some(letter - b'A'),
        b'a'..=b'z' => Some(letter - b'a' + 26),
        b'0'..=b'9' => Some(letter - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::decode;

    #[test]
    fn texts_of_any_length_are_decoded() {
        for (text, bytes) in [("", ""), ("cA==", "p"), ("cG8=", "po"), ("cG9y", "por"), ("cG9ydA==", "port")] {
            assert_eq!(decode(text), Some(bytes.as_bytes().to_vec()), "{text}");
        }
        assert_eq!(decode("+/8="), Some(vec![0xfb, 0xff]));
        assert_eq!(decode("c G"), None);
    }
}
