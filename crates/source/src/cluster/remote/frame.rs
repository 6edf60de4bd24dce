//! Frames of WebSocket (RFC 6455, section 5) as a client writes and reads them.

use bytes::{Buf, Bytes, BytesMut};

/// What one frame may hold. Servers send what one read of a pipe gives, which is some kilobytes.
pub(super) const LONGEST_FRAME: usize = 1 << 20;
/// A control frame is at most so long, by the standard.
const LONGEST_CONTROL: usize = 125;

const FINAL: u8 = 0x80;
const RESERVED: u8 = 0x70;
const MASKED: u8 = 0x80;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opcode {
    Continuation,
    Text,
    Binary,
    Close,
    Ping,
    Pong,
}

impl Opcode {
    const ALL: [(Self, u8); 6] = [
        (Self::Continuation, 0),
        (Self::Text, 1),
        (Self::Binary, 2),
        (Self::Close, 8),
        (Self::Ping, 9),
        (Self::Pong, 10),
    ];

    fn read(number: u8) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|(_, known)| *known == number);
        found.map(|(opcode, _)| *opcode).ok_or_else(|| format!("a frame of the unknown kind {number}"))
    }

    fn number(self) -> u8 {
        Self::ALL.iter().find(|(opcode, _)| *opcode == self).map_or(0, |(_, number)| *number)
    }

    fn is_control(self) -> bool {
        matches!(self, Self::Close | Self::Ping | Self::Pong)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) is_final: bool,
    pub(super) opcode: Opcode,
    pub(super) payload: Bytes,
}

/// Cuts frames out of the bytes that arrive.
#[derive(Debug, Default)]
pub(super) struct Frames {
    buffer: BytesMut,
}

/// What the beginning of a frame says.
struct Head {
    is_final: bool,
    opcode: Opcode,
    /// Of the beginning, and of what follows it.
    lengths: (usize, usize),
}

impl Frames {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// The next whole frame. After an error the connection is unusable.
    pub(super) fn next(&mut self) -> Result<Option<Frame>, String> {
        let Some(head) = head(&self.buffer)? else { return Ok(None) };
        let (before, length) = head.lengths;
        if self.buffer.len() < before + length {
            return Ok(None);
        }
        self.buffer.advance(before);
        let payload = self.buffer.split_to(length).freeze();
        Ok(Some(Frame { is_final: head.is_final, opcode: head.opcode, payload }))
    }
}

/// `None` until the beginning of the frame has arrived. What cannot be right is refused before the rest arrives.
fn head(bytes: &[u8]) -> Result<Option<Head>, String> {
    let Some([first, second]) = bytes.first_chunk::<2>() else { return Ok(None) };
    let (is_final, opcode) = (first & FINAL != 0, Opcode::read(first & 0x0f)?);
    if first & RESERVED != 0 {
        return Err("a frame with reserved bits, which no extension explains".to_owned());
    }
    if second & MASKED != 0 {
        return Err("a masked frame: only clients mask".to_owned());
    }
    let Some((before, length)) = length(bytes, second & 0x7f)? else { return Ok(None) };
    if opcode.is_control() && (length > LONGEST_CONTROL || !is_final) {
        return Err("a control frame that is too long or in pieces".to_owned());
    }
    Ok(Some(Head { is_final, opcode, lengths: (before, length) }))
}

/// The length of the beginning, and the announced one.
fn length(bytes: &[u8], short: u8) -> Result<Option<(usize, usize)>, String> {
    let (before, length) = match short {
        126 => match bytes.get(2..4).and_then(|it| it.first_chunk::<2>()) {
            Some(length) => (4, u64::from(u16::from_be_bytes(*length))),
            None => return Ok(None),
        },
        127 => match bytes.get(2..10).and_then(|it| it.first_chunk::<8>()) {
            Some(length) => (10, u64::from_be_bytes(*length)),
            None => return Ok(None),
        },
        short => (2, u64::from(short)),
    };
    match usize::try_from(length) {
        Ok(length) if length <= LONGEST_FRAME => Ok(Some((before, length))),
        _ => Err(format!("a frame of {length} bytes, and the limit is {LONGEST_FRAME}")),
    }
}

/// A whole frame of a client, which is masked with random bytes.
pub(super) fn encode(opcode: Opcode, payload: &[u8], mask: [u8; 4]) -> Vec<u8> {
    let mut frame = vec![FINAL | opcode.number()];
    match payload.len() {
        length @ 0..126 => frame.push(MASKED | length as u8),
        length @ 126..=0xffff => {
            frame.push(MASKED | 126);
            frame.extend_from_slice(&(length as u16).to_be_bytes());
        }
        length => {
            frame.push(MASKED | 127);
            frame.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
    frame.extend_from_slice(&mask);
    frame.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<Option<Frame>, String> {
        let mut frames = Frames::default();
        frames.push(bytes);
        frames.next()
    }

    /// A frame as a server writes it.
    fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
        let mut frame = encode(Opcode::Binary, payload, [0; 4]);
        let masked = frame.len() - payload.len() - 4;
        frame.drain(masked..masked + 4);
        (frame[0], frame[1]) = (first, frame[1] & 0x7f);
        frame
    }

    #[test]
    fn every_length_survives_in_any_pieces() {
        for length in [0, 1, 125, 126, 127, 65_535, 65_536, LONGEST_FRAME] {
            let payload: Vec<u8> = (0..length).map(|index| (index % 251) as u8).collect();
            let bytes = frame(0x82, &payload);
            let mut frames = Frames::default();
            for piece in bytes.chunks(bytes.len().div_ceil(7).max(1)) {
                assert_eq!(frames.next(), Ok(None));
                frames.push(piece);
            }
            let read = frames.next().expect("a frame").expect("a whole one");
            assert_eq!((read.opcode, read.payload.as_ref()), (Opcode::Binary, payload.as_slice()));
            assert!(frames.is_empty());
        }
    }

    #[test]
    fn what_no_server_may_send_is_refused_at_once() {
        let refused: [(&[u8], &str); 8] = [
            (&[0x83, 0], "unknown kind 3"),
            (&[0xc2, 0], "reserved bits"),
            (&[0x82, 0x80], "masked"),
            (&[0x89, 126, 0, 200], "control frame"),
            (&[0x09, 0], "control frame"),
            (&[0x82, 127, 0, 0, 0, 0, 0, 0x20, 0, 0], "2097152 bytes"),
            (&[0x82, 127, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], "limit"),
            (&[0x82, 127, 0x80, 0, 0, 0, 0, 0, 0, 0], "limit"),
        ];
        for (bytes, reason) in refused {
            let error = read(bytes).expect_err(reason);
            assert!(error.contains(reason), "{error}");
        }
    }

    #[test]
    fn an_announced_length_alone_takes_no_memory() {
        let mut frames = Frames::default();
        frames.push(&[0x82, 127, 0, 0, 0, 0, 0, 0x10, 0, 0]);
        assert_eq!(frames.next(), Ok(None));
        assert!(frames.buffer.capacity() < 4096);
    }

    #[test]
    fn a_client_masks() {
        assert_eq!(encode(Opcode::Ping, b"ab", [1, 2, 3, 4]), [0x89, 0x82, 1, 2, 3, 4, b'a' ^ 1, b'b' ^ 2]);
    }
}
