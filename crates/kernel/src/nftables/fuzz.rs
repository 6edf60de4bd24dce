//! Every decoder of nf_tables on any bytes, for the fuzz targets. What is decoded is encoded and decoded again.

use super::describe::{describe_change, describe_operation};
use super::element::join_ranges;
use super::read::{has_duplicates, members};
use super::uapi;
use super::{Element, Expression, Hook, SetSpec, counts, monitor, survey};
use crate::netlink::{Attributes, Header, MessageWriter, Messages};

pub(crate) fn decode(bytes: &[u8]) {
    has_duplicates(bytes);
    members(bytes).for_each(check_element);
    join_ranges(members(bytes).filter_map(Element::read).collect());
    let mut commit = monitor::Commit::default();
    for (index, message) in Messages::new(bytes).enumerate() {
        commit.take(&message, &mut |notice| notice.table == "portolan");
        describe_change(&message);
        describe_operation(bytes, index, message.acknowledgement().and_then(|it| it.offset));
        let attributes = message.attributes(uapi::PROTOCOL_HEADER);
        check_chain(attributes);
        SetSpec::read(attributes).key_length();
        attributes.nested(uapi::rule::EXPRESSIONS).for_each(|it| check_expression(it.nested()));
    }
}

fn check_chain(attributes: Attributes<'_>) {
    survey::read_base(attributes);
    let Some(hook) = Hook::read(attributes) else { return };
    again(|writer| hook.write(writer), |written| assert_eq!(Hook::read(written).as_ref(), Some(&hook)));
}

fn check_expression(member: Attributes<'_>) {
    counts::read_count(member);
    let expression = Expression::read(member);
    if matches!(expression, Expression::Unknown { .. }) {
        return;
    }
    again(
        |writer| expression.write(writer),
        |written| {
            let read = written.into_iter().next().map(|member| Expression::read(member.nested()));
            assert_eq!(read.as_ref(), Some(&expression));
        },
    );
}

fn check_element(member: Attributes<'_>) {
    counts::read_element(member);
    Element::read_catch_all(member);
    let Some((element, _)) = Element::read(member) else { return };
    again(
        |writer| element.write(writer),
        |written| {
            let read = written.into_iter().next().and_then(|member| Element::read(member.nested()));
            assert_eq!(
                read.map(|(read, _)| (read.key, read.key_end)),
                Some((element.key.clone(), element.key_end.clone()))
            );
        },
    );
}

/// Writes attributes into a message and hands back what is in it.
fn again(write: impl FnOnce(&mut MessageWriter), check: impl FnOnce(Attributes<'_>)) {
    let mut writer = MessageWriter::default();
    writer.message(Header { kind: 0, flags: 0 }, &[0; uapi::PROTOCOL_HEADER], write);
    let message = Messages::new(writer.bytes()).next().expect("a message was written");
    check(message.attributes(uapi::PROTOCOL_HEADER));
}
