//! Messages of a WebSocket connection: frames joined, and what a connection says about itself.

use bytes::{Bytes, BytesMut};

use super::frame::{Frame, Frames, Opcode};

/// What one message may hold, in all of its frames.
const LONGEST_MESSAGE: usize = 4 << 20;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Event {
    Message(Bytes),
    /// To be answered with the same content.
    Ping(Bytes),
    /// The server ends the connection, with a reason if it has one.
    Closed(Option<String>),
}

#[derive(Debug, Default)]
pub(super) struct Messages {
    frames: Frames,
    /// The frames so far of a message in pieces.
    begun: Option<BytesMut>,
}

impl Messages {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.frames.push(bytes);
    }

    /// Whether a frame or a message has begun and not ended.
    pub(super) fn is_torn(&self) -> bool {
        self.begun.is_some() || !self.frames.is_empty()
    }

    pub(super) fn next(&mut self) -> Result<Option<Event>, String> {
        while let Some(frame) = self.frames.next()? {
            let event = match frame.opcode {
                Opcode::Ping => Some(Event::Ping(frame.payload)),
                Opcode::Pong => None,
                Opcode::Close => Some(Event::Closed(reason(&frame.payload))),
                Opcode::Text | Opcode::Binary | Opcode::Continuation => self.data(frame)?.map(Event::Message),
            };
            if event.is_some() {
                return Ok(event);
            }
        }
        Ok(None)
    }

    /// The message that this frame completes.
    fn data(&mut self, frame: Frame) -> Result<Option<Bytes>, String> {
        let is_first = frame.opcode != Opcode::Continuation;
        match (self.begun.take(), is_first) {
            (None, true) if frame.is_final => return Ok(Some(frame.payload)),
            (None, true) => self.begun = Some(BytesMut::from(frame.payload.as_ref())),
            (None, false) => return Err("the continuation of a message that has not begun".to_owned()),
            (Some(_), true) => return Err("a new message in the middle of another".to_owned()),
            (Some(mut begun), false) => {
                if begun.len() + frame.payload.len() > LONGEST_MESSAGE {
                    return Err(format!("a message of more than {LONGEST_MESSAGE} bytes"));
                }
                begun.extend_from_slice(&frame.payload);
                if frame.is_final {
                    return Ok(Some(begun.freeze()));
                }
                self.begun = Some(begun);
            }
        }
        Ok(None)
    }
}

/// The text of a closing frame, behind its code.
fn reason(payload: &[u8]) -> Option<String> {
    let (code, text) = payload.split_first_chunk::<2>()?;
    let clean = |character: char| if character.is_control() { ' ' } else { character };
    let text: String = String::from_utf8_lossy(text).chars().map(clean).collect();
    Some(format!("code {} {text}", u16::from_be_bytes(*code)).trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(bytes: &[u8]) -> Result<Vec<Event>, String> {
        let mut messages = Messages::default();
        let mut events = Vec::new();
        for byte in bytes {
            messages.push(&[*byte]);
            while let Some(event) = messages.next()? {
                events.push(event);
            }
        }
        assert!(!messages.is_torn());
        Ok(events)
    }

    #[test]
    fn pieces_are_joined_around_control_frames() {
        let bytes = [0x02, 1, b'a', 0x89, 1, b'!', 0x8a, 0, 0x00, 1, b'b', 0x80, 1, b'c', 0x88, 4, 3, 0xe8, b'b', 7];
        let [message, ping] = [Event::Message(Bytes::from("abc")), Event::Ping(Bytes::from("!"))];
        let closed = Event::Closed(Some("code 1000 b".to_owned()));
        assert_eq!(events(&bytes), Ok(vec![ping, message, closed]));
    }

    #[test]
    fn pieces_out_of_order_are_refused() {
        assert!(events(&[0x80, 1, b'a']).expect_err("no beginning").contains("has not begun"));
        assert!(events(&[0x02, 1, b'a', 0x82, 1, b'b']).expect_err("no end").contains("in the middle"));
    }

    #[test]
    fn a_message_without_end_is_refused() {
        let mut messages = Messages::default();
        messages.push(&[0x02, 0]);
        let piece = [&[0x00, 127, 0, 0, 0, 0, 0, 0x10, 0, 0][..], &vec![0; 1 << 20]].concat();
        let refused = (0..8).find_map(|_| {
            messages.push(&piece);
            messages.next().err()
        });
        assert_eq!(refused.as_deref(), Some("a message of more than 4194304 bytes"));
    }
}
