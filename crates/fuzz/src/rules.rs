//! Objects to plan to rules: in every mode, a packet through the rules has the fate that the plan decides. A plan that
//! follows a change is the same as one from scratch, and so are its rules.

use portolan_dataplane::mode::Mode;
use portolan_dataplane::{ModeSettings, modes};
use portolan_model::Snapshot;
use portolan_plan::{Packet, Plan, PlanConfig, plan, trace};

use crate::cluster::{change, packet, settings, snapshot};
use crate::dice::Dice;

const MOST_PACKETS: usize = 5;

/// The first byte selects the mode; the others are settings, a cluster, a change of it, and packets.
pub(crate) fn rules(bytes: &[u8]) {
    let mut dice = Dice(bytes);
    let mode = dice.pick(modes::ALL);
    let config = PlanConfig { limits: mode.limits(), ..settings(&mut dice) };
    let before = snapshot(&mut dice);
    let mut after = before.clone();
    for _ in 0..dice.below(3) {
        change(&mut dice, &mut after);
    }
    let mut packets = Vec::new();
    while !dice.is_empty() && packets.len() < MOST_PACKETS {
        packets.push(packet(&mut dice));
    }
    check(mode, &config, [&before, &after], &packets);
}

fn check(mode: &dyn Mode, config: &PlanConfig, [before, after]: [&Snapshot; 2], packets: &[Packet]) {
    let view = mode.view(&ModeSettings::default(), None);
    let followed = plan(after, &plan(before, &Plan::default(), config), config);
    let scratch = plan(after, &Plan::default(), config);
    // Plans that are equal render to the same.
    if followed != scratch {
        let difference = view.difference(&scratch, &followed);
        let text = &difference.text;
        assert!(difference.is_empty(), "{} mode: a plan that follows a change differs:\n{text}", mode.name());
    }
    for (packet, met) in packets.iter().zip(view.trace_all(&followed, packets)) {
        let decided = trace(&followed, packet).fate;
        assert_eq!(met.fate, decided, "{} mode: {packet} on {:?}\n{after:#?}", mode.name(), packet.interface);
    }
}
