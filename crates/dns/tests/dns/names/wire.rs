//! Invalid and unusual messages.

use portolan_dns::wire::{Builder, Data, HEADER, Name, NameError, Query, Rcode, Reply, ReplyError, Section, kind};
use portolan_dns::wire::{Edns, Unanswerable};

use super::support::question;

const WWW: &[u8] = b"\x03www\x07Example\x00";

fn error(message: &[u8]) -> Option<Rcode> {
    match Query::parse(message) {
        Err(Unanswerable::Error { rcode, .. }) => Some(rcode),
        Err(Unanswerable::Ignored) => None,
        Ok(_) => panic!("it was parsed as a query: {message:?}"),
    }
}

fn changed(place: usize, byte: u8) -> Vec<u8> {
    let mut message = question(WWW, kind::A);
    message[place] = byte;
    message
}

#[test]
fn a_question_is_read_in_any_case_and_kept_in_its_own() {
    let message = question(WWW, kind::A);
    let query = Query::parse(&message).unwrap();
    assert_eq!(query.name, Name::from_text("WWW.example").unwrap());
    assert_eq!(query.question(), &message[HEADER..]);
    assert_eq!((query.edns, query.limit(1232)), (None, 512));
}

#[test]
fn an_invalid_query_gets_an_error_or_no_answer() {
    assert_eq!(error(&[]), None);
    assert_eq!(error(&[0; 11]), None);
    assert_eq!(error(&changed(2, 0x80)), None, "an answer");
    assert_eq!(error(&changed(2, 0x28)), Some(Rcode::NOT_IMPLEMENTED), "an update");
    assert_eq!(error(&changed(5, 0)), Some(Rcode::FORMAT_ERROR), "no question");
    assert_eq!(error(&changed(5, 2)), Some(Rcode::FORMAT_ERROR), "two questions");
    assert_eq!(error(&changed(7, 1)), Some(Rcode::FORMAT_ERROR), "a record that is not there");
    assert_eq!(error(&changed(11, 255)), Some(Rcode::FORMAT_ERROR), "many records that are not there");
    assert_eq!(error(&changed(12, 0xc0)), Some(Rcode::FORMAT_ERROR), "a compressed question");
    assert_eq!(error(&changed(12, 0x40)), Some(Rcode::FORMAT_ERROR), "a label of another kind");
    assert_eq!(error(&changed(12, 63)), Some(Rcode::FORMAT_ERROR), "a label without an end");
    let message = question(WWW, kind::A);
    for length in HEADER..message.len() {
        assert_eq!(error(&message[..length]), Some(Rcode::FORMAT_ERROR), "{length} octets");
    }
}

fn with_opt(opt: &[u8]) -> Vec<u8> {
    let mut message = question(WWW, kind::A);
    message[11] = 1;
    message.extend_from_slice(opt);
    message
}

#[test]
fn edns_limits_the_size_of_the_answer() {
    let message = with_opt(&[0, 0, 41, 0x10, 0, 0, 0, 0x80, 0, 0, 0]);
    let query = Query::parse(&message).unwrap();
    assert_eq!(query.edns, Some(Edns { size: 4096, version: 0, wants_dnssec: true }));
    assert_eq!(query.limit(1232), 1232);
    let message = with_opt(&[0, 0, 41, 0, 1, 0, 0, 0, 0, 0, 0]);
    assert_eq!(Query::parse(&message).unwrap().limit(1232), 512, "less than the minimum of 512");
    assert_eq!(error(&with_opt(&[0, 0, 41, 0x10, 0, 0, 1, 0, 0, 0, 0])), Some(Rcode::BAD_VERSION));
    assert_eq!(error(&with_opt(&[0, 0, 41, 0x10, 0, 0, 0, 0, 0, 0, 9])), Some(Rcode::FORMAT_ERROR));
    assert_eq!(error(&with_opt(&[1, b'x', 0, 0, 41, 0x10, 0, 0, 0, 0, 0, 0, 0])), Some(Rcode::FORMAT_ERROR));
}

#[test]
fn names_have_their_limits() {
    assert_eq!(Name::from_text(&"a".repeat(64)), Err(NameError::LongLabel));
    assert_eq!(Name::from_text("a..b"), Err(NameError::EmptyLabel));
    assert_eq!(Name::from_text(".a"), Err(NameError::EmptyLabel));
    assert!(Name::from_text(&"a.".repeat(127)).is_ok());
    assert_eq!(Name::from_text(&"a.".repeat(128)), Err(NameError::LongName));
    assert_eq!(Name::from_text(".").unwrap(), Name::ROOT);
    let long = [&[63u8][..], &[b'a'; 63]].concat().repeat(4);
    assert_eq!(Name::read_plain(&[&long[..], &[0]].concat(), 0), Err(NameError::LongName));
    assert_eq!(Name::from_text("a\tb.c\\d").unwrap().to_string(), "a\\009b.c\\\\d.");
}

#[test]
fn circles_of_pointers_are_noticed() {
    for (message, place) in
        [(&[0xc0, 0][..], 0), (&[0xc0, 2, 0xc0, 0], 2), (&[1, b'a', 0xc0, 0], 0), (&[0xc0, 4, 0, 0, 0], 0)]
    {
        assert_eq!(Name::expand(message, place, &mut Vec::new()), Err(NameError::Loop), "{message:?}");
    }
    let mut ladder = vec![0u8];
    for rung in 0..100u8 {
        ladder.extend_from_slice(&[0xc0, if rung == 0 { 0 } else { 2 * rung - 1 }]);
    }
    let last = ladder.len() - 2;
    assert_eq!(Name::expand(&ladder, last, &mut Vec::new()), Err(NameError::Loop));
    assert_eq!(Name::expand(&ladder, 21, &mut Vec::new()), Ok(23));
}

#[test]
fn an_answer_must_be_to_the_question() {
    let message = question(WWW, kind::A);
    let query = Query::parse(&message).unwrap();
    let mut out = Vec::new();
    let mut builder = Builder::new(&query, 512, &mut out);
    builder.record(Section::Answer, WWW, kind::A, u32::MAX, Data::Raw(&[192, 0, 2, 1]));
    builder.finish();
    let reply = Reply::parse(&out, 0x1234, query.question()).unwrap();
    assert_eq!((reply.answers.len(), reply.answers[0].ttl), (1, 0));
    assert_eq!(Reply::parse(&out, 0x1235, query.question()), Err(ReplyError::OtherQuestion));
    assert_eq!(Reply::parse(&message, 0x1234, query.question()), Err(ReplyError::OtherQuestion));
    let other_case = question(b"\x03WWW\x07example\x00", kind::A);
    assert_eq!(Reply::parse(&out, 0x1234, &other_case[HEADER..]), Err(ReplyError::OtherCase));
    let other_type = question(WWW, kind::AAAA);
    assert_eq!(Reply::parse(&out, 0x1234, &other_type[HEADER..]), Err(ReplyError::OtherQuestion));
    for length in 0..out.len() {
        assert!(Reply::parse(&out[..length], 0x1234, query.question()).is_err(), "{length} octets");
    }
}

#[test]
fn names_are_compressed_and_come_back_whole() {
    let message = question(WWW, kind::MX);
    let query = Query::parse(&message).unwrap();
    let mut out = Vec::new();
    let mut builder = Builder::new(&query, 512, &mut out);
    let mail = Name::from_text("mail.example").unwrap();
    builder.record(Section::Answer, WWW, kind::CNAME, 1, Data::from(&mail));
    builder.record(Section::Answer, mail.as_bytes(), kind::PTR, 1, Data::from(&mail));
    builder.finish();
    assert_eq!(out.len(), message.len() + (2 + 10 + 7) + (2 + 10 + 2));
    let reply = Reply::parse(&out, 0x1234, query.question()).unwrap();
    let names: Vec<String> = reply.answers.iter().map(|it| Name::from_wire(&it.data).unwrap().to_string()).collect();
    assert_eq!(names, ["mail.example.", "mail.example."]);
    assert_eq!(&*reply.answers[0].owner, WWW, "in the client's case");
}

/// In these types, names may be compressed: copied as they are, they would point to anywhere in another message.
#[test]
fn names_in_the_data_of_old_types_are_expanded() {
    let naptr = [&[0, 1, 0, 2, 1, b'u', 3, b's', b'i', b'p', 0][..], &[0xc0, 12]].concat();
    let sig = [&[7; 18][..], &[0xc0, 12], &[1, 2, 3]].concat();
    for (kind, data, fixed, names, rest) in [
        (kind::RP, &[0xc0, 12, 0xc0, 16][..], 0, 2, 0),
        (kind::AFSDB, &[0, 1, 0xc0, 12], 2, 1, 0),
        (kind::MINFO, &[0xc0, 12, 0xc0, 16], 0, 2, 0),
        (kind::MB, &[0xc0, 12], 0, 1, 0),
        (kind::RT, &[0, 1, 0xc0, 12], 2, 1, 0),
        (kind::KX, &[0, 1, 0xc0, 12], 2, 1, 0),
        (kind::PX, &[0, 1, 0xc0, 12, 0xc0, 16], 2, 2, 0),
        (kind::NAPTR, &naptr, 11, 1, 0),
        (kind::SIG, &sig, 18, 1, 3),
        (kind::NXT, &[0xc0, 12, 9, 9], 0, 1, 2),
    ] {
        let message = question(WWW, kind);
        let mut answer = message.clone();
        (answer[2], answer[7]) = (0x81, 1);
        answer.extend_from_slice(&[0xc0, 12, 0, kind as u8, 0, 1, 0, 0, 0, 60, 0, data.len() as u8]);
        answer.extend_from_slice(data);
        let reply = Reply::parse(&answer, 0x1234, &message[HEADER..]).unwrap();
        let expanded = [WWW, &WWW[4..]][..names].concat();
        let expected = [&data[..fixed], &expanded, &data[data.len() - rest..]].concat();
        assert_eq!(*reply.answers[0].data, expected, "type {kind}");
        let mut cut = answer.clone();
        let length = answer.len() - data.len() - 1;
        cut[length] -= 1;
        cut.truncate(answer.len() - 1);
        if rest == 0 {
            assert!(Reply::parse(&cut, 0x1234, &message[HEADER..]).is_err(), "type {kind}, cut");
        }
    }
}

#[test]
fn a_client_without_edns_gets_no_extended_code() {
    for (opt, expected) in [(&[][..], 2), (&[0, 0, 41, 0x10, 0, 0, 0, 0, 0, 0, 0], 0)] {
        let message = if opt.is_empty() { question(WWW, kind::A) } else { with_opt(opt) };
        let query = Query::parse(&message).unwrap();
        let mut out = Vec::new();
        let mut builder = Builder::new(&query, 512, &mut out);
        builder.rcode(Rcode::BAD_VERSION);
        builder.finish();
        assert_eq!(out[3] & 0x0f, expected);
    }
}
