//! Names in wire format: labels with their lengths, terminated by the empty label of the root.

use std::fmt;

/// The longest name, including length octets and the root.
const LONGEST: usize = 255;
const MAX_LABEL: usize = 63;
/// More compression pointers than any legitimate name needs.
const MAX_JUMPS: usize = 32;

/// A name in lower case, in a buffer of fixed size, so that lookups do not allocate.
#[derive(Clone, Copy)]
pub struct Name {
    length: u8,
    bytes: [u8; LONGEST],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    #[error("the name is truncated")]
    Truncated,
    #[error("a label has more than 63 octets")]
    LongLabel,
    #[error("a label is empty")]
    EmptyLabel,
    #[error("the name has more than 255 octets")]
    LongName,
    #[error("a compression pointer leads forwards or into a loop")]
    Loop,
    #[error("a label has an unsupported type")]
    UnsupportedLabel,
}

impl Name {
    pub const ROOT: Self = Self { length: 1, bytes: [0; LONGEST] };

    /// From the usual notation, with or without the trailing dot.
    pub fn from_text(text: &str) -> Result<Self, NameError> {
        let text = text.strip_suffix('.').unwrap_or(text);
        let labels = text.split('.').filter(|_| !text.is_empty());
        Self::from_labels(labels.map(str::as_bytes), &Self::ROOT)
    }

    pub fn from_labels<'a>(labels: impl IntoIterator<Item = &'a [u8]>, suffix: &Self) -> Result<Self, NameError> {
        let mut name = Self { length: 0, bytes: [0; LONGEST] };
        labels.into_iter().try_for_each(|label| name.push(label))?;
        name.extend(suffix.as_bytes())?;
        Ok(name)
    }

    /// From octets in wire format, such as those of a record.
    pub fn from_wire(bytes: &[u8]) -> Result<Self, NameError> {
        let (name, end) = Self::read_plain(bytes, 0)?;
        if end == bytes.len() { Ok(name) } else { Err(NameError::Truncated) }
    }

    fn push(&mut self, label: &[u8]) -> Result<(), NameError> {
        match label.len() {
            0 => return Err(NameError::EmptyLabel),
            1..=MAX_LABEL => {}
            _ => return Err(NameError::LongLabel),
        }
        self.extend(&[label.len() as u8])?;
        self.extend(label)
    }

    fn extend(&mut self, more: &[u8]) -> Result<(), NameError> {
        let start = usize::from(self.length);
        let place = self.bytes.get_mut(start..start + more.len()).ok_or(NameError::LongName)?;
        place.copy_from_slice(more);
        // A length is below 64 and therefore never a letter.
        place.make_ascii_lowercase();
        self.length += more.len() as u8;
        Ok(())
    }

    /// Reads an uncompressed name, as in a question. Returns its end.
    pub fn read_plain(message: &[u8], start: usize) -> Result<(Self, usize), NameError> {
        let mut end = start;
        loop {
            let length = usize::from(*message.get(end).ok_or(NameError::Truncated)?);
            if length > MAX_LABEL {
                return Err(NameError::UnsupportedLabel);
            }
            end += 1 + length;
            if end - start > LONGEST {
                return Err(NameError::LongName);
            }
            if length == 0 {
                break;
            }
        }
        let mut name = Self { length: 0, bytes: [0; LONGEST] };
        name.extend(message.get(start..end).ok_or(NameError::Truncated)?)?;
        Ok((name, end))
    }

    /// Reads a name that may be compressed, preserving its case, and returns its end in the message. Pointers must
    /// lead backwards, each further than the one before, so that there is no loop.
    pub fn expand(message: &[u8], start: usize, into: &mut Vec<u8>) -> Result<usize, NameError> {
        let (mut place, mut floor, mut end) = (start, start, None);
        let before = into.len();
        for _ in 0..=MAX_JUMPS {
            match expand_labels(message, place, before, into)? {
                Segment::End(after) => return Ok(end.unwrap_or(after)),
                Segment::Jump { to, after } if to < floor => {
                    end = end.or(Some(after));
                    (place, floor) = (to, to);
                }
                Segment::Jump { .. } => return Err(NameError::Loop),
            }
        }
        Err(NameError::Loop)
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    pub fn labels(&self) -> Labels<'_> {
        Labels(self.as_bytes())
    }

    pub fn is_root(&self) -> bool {
        self.length == 1
    }

    /// The labels before the suffix; empty if the name is the suffix itself, and `None` if the name is not below it.
    pub fn before(&self, suffix: &Self) -> Option<&[u8]> {
        let bytes = self.as_bytes();
        let wanted = bytes.len().checked_sub(usize::from(suffix.length))?;
        let mut place = 0;
        while place < wanted {
            place += 1 + usize::from(bytes[place]);
        }
        (place == wanted && bytes[place..] == *suffix.as_bytes()).then(|| &bytes[..wanted])
    }

    pub fn is_within(&self, suffix: &Self) -> bool {
        self.before(suffix).is_some()
    }
}

enum Segment {
    End(usize),
    Jump { to: usize, after: usize },
}

/// Labels up to the root or to a pointer.
fn expand_labels(message: &[u8], mut place: usize, before: usize, into: &mut Vec<u8>) -> Result<Segment, NameError> {
    loop {
        let length = *message.get(place).ok_or(NameError::Truncated)?;
        match length >> 6 {
            0 => {
                let end = place + 1 + usize::from(length);
                into.extend_from_slice(message.get(place..end).ok_or(NameError::Truncated)?);
                if into.len() - before > LONGEST {
                    return Err(NameError::LongName);
                }
                if length == 0 {
                    return Ok(Segment::End(end));
                }
                place = end;
            }
            3 => {
                let low = *message.get(place + 1).ok_or(NameError::Truncated)?;
                return Ok(Segment::Jump { to: usize::from(length & 0x3f) << 8 | usize::from(low), after: place + 2 });
            }
            _ => return Err(NameError::UnsupportedLabel),
        }
    }
}

/// The labels of a name, without the root.
#[derive(Clone)]
pub struct Labels<'a>(&'a [u8]);

impl<'a> Labels<'a> {
    /// From labels in wire format, with or without the root.
    pub fn of(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }
}

impl<'a> Iterator for Labels<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let (length, rest) = self.0.split_first()?;
        let (label, rest) = rest.split_at_checked(usize::from(*length)).filter(|_| *length > 0)?;
        self.0 = rest;
        Some(label)
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for Name {}

impl std::hash::Hash for Name {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.as_bytes().hash(state);
    }
}

/// With the trailing dot; special octets are escaped as in a zone file.
impl fmt::Display for Name {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_root() {
            return formatter.write_str(".");
        }
        for label in self.labels() {
            for byte in label {
                match byte {
                    b'.' | b'\\' | b'"' | b';' | b'(' | b')' => write!(formatter, "\\{}", char::from(*byte))?,
                    0x21..=0x7e => write!(formatter, "{}", char::from(*byte))?,
                    byte => write!(formatter, "\\{byte:03}")?,
                }
            }
            formatter.write_str(".")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}
