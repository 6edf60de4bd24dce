//! The control socket with any bytes, for the fuzz targets of `portolan-fuzz`. Not behind a Cargo feature, because a feature
//! would build every crate twice; the linker leaves it out of the program.

use portolan_dataplane::mode::ModeView;
use portolan_dns::environment::variables;
use portolan_explain::{Names, PathAnswer, explain_packet, services};
use portolan_plan::Plan;

use super::{Answer, Question, replacement};
use crate::system::Stream;

/// One line of a client, and the answer from a plan. Question and answer survive a second encoding.
pub fn question(line: &str, plan: &Plan, view: &dyn ModeView) {
    _ = serde_json::from_str::<Answer>(line).map(|answer| assert_survives(&answer));
    let Ok(question) = serde_json::from_str::<Question>(line) else { return };
    let text = serde_json::to_string(&question).expect("a question can be written");
    serde_json::from_str::<Question>(&text).expect("a written question can be read");
    let answer = match &question {
        Question::Services => Answer::Services(services(plan)),
        Question::Environment { namespace, links } => Answer::Environment(variables(plan.facts(), namespace, *links)),
        Question::Packet(packet) => match packet.packet(plan) {
            Ok(packet) => {
                let met = view.trace(plan, &packet);
                Answer::Packet(Box::new(explain_packet(plan, &packet, &met, "objects")))
            }
            Err(mistake) => Answer::Failure(mistake),
        },
        Question::Path(question) => {
            let names = Names { plan, domain: "cluster.local", node: &|_| Vec::new() };
            match question.paths(&names) {
                Ok(paths) => {
                    let met = view.trace_all(plan, &paths.packets());
                    Answer::Path(PathAnswer::of(plan, &paths, &met, "objects"))
                }
                Err(mistake) => Answer::Failure(mistake),
            }
        }
        Question::Connection(question) => {
            _ = question.connection(&Names { plan, domain: "cluster.local", node: &|_| Vec::new() });
            return;
        }
        Question::Load
        | Question::Top(_)
        | Question::Connections { .. }
        | Question::Verify
        | Question::Changes { .. }
        | Question::Page(_)
        | Question::Difference { .. }
        | Question::Replace
        | Question::ReplaceAndConfirm => return,
    };
    assert_survives(&answer);
}

fn assert_survives(answer: &Answer) {
    let text = serde_json::to_string(answer).expect("an answer can be written");
    serde_json::from_str::<Answer>(&text).expect("a written answer can be read");
}

/// The new daemon's side of a replacement. Returns how many sockets it has taken.
pub fn take_sockets(stream: &Stream) -> anyhow::Result<usize> {
    replacement::take(stream).map(|replaced| replaced.map_or(0, |replaced| replaced.sockets.len()))
}
