//! Chains of one table, run on a packet.

use std::sync::Arc;

use portolan_kernel::nftables::{Expression, Policy, Verdict as Code};

use super::rule::{Step, run_rule};
use super::table::{OnError, Rule, Table, Unsupported};
use super::text::rule_text;
use crate::walk::{Branch, Met, Site, Verdict};

/// The kernel's limit of jumps within jumps.
const DEEPEST: usize = 16;

/// Runs a base chain and then its policy.
pub(super) fn run_base(table: &Table, name: &Arc<str>, site: &Site<'_>, branch: Branch) -> Vec<(Branch, Verdict)> {
    let base = table.chains.get(name).and_then(|chain| chain.base.as_ref());
    let noted = branch.notes.len();
    let mut runner = Runner { table, site, ended: Vec::new(), depth: 0 };
    let returned = runner.run_chain(name, branch);
    let mut ended = runner.ended;
    for branch in returned {
        match base.map(|base| base.policy) {
            Some(Policy::Drop) => ended.push((stopped(branch, place(table, name, None), "policy drop"), Verdict::Drop)),
            _ => ended.push((branch, Verdict::Continue)),
        }
    }
    ended.into_iter().map(|(branch, verdict)| if_certain(branch, verdict, noted)).collect()
}

/// A drop behind a rule that was skipped is not certain: that rule may have accepted the packet.
fn if_certain(mut branch: Branch, verdict: Verdict, noted: usize) -> (Branch, Verdict) {
    let doubts = std::mem::take(&mut branch.doubts);
    let is_certain = doubts.is_empty() && branch.notes.len() == noted;
    match (verdict, is_certain) {
        (Verdict::Drop | Verdict::Reject, false) => {
            branch.notes.extend(doubts);
            let rule = branch.stopped_by.take().map_or_else(String::new, |met| met.to_string());
            branch
                .notes
                .push(format!("{rule} stops the packet, unless a rule that is not understood accepts it before"));
            (branch, Verdict::Continue)
        }
        _ => (branch, verdict),
    }
}

fn stopped(branch: Branch, place: String, content: &str) -> Branch {
    Branch { stopped_by: Some(Met::new(place, content)), ..branch }
}

/// Where a chain that refuses shows in [`crate::walk::Ending::stopped_by`].
pub(crate) fn chain_place(table: &str, chain: &str) -> String {
    format!("{table}, chain {chain}")
}

/// A rule of a table that is not in a kernel has no handle.
fn place(table: &Table, chain: &str, rule: Option<&Rule>) -> String {
    let chain = chain_place(&table.name, chain);
    match rule.and_then(|rule| rule.handle) {
        Some(handle) => format!("{chain}, handle {handle}"),
        None => chain,
    }
}

fn not_understood(place: &str, what: &str) -> String {
    format!("{place} has a rule that is not understood, so the answer holds only as far as Portolan's rules go: {what}")
}

struct Runner<'a> {
    table: &'a Table,
    site: &'a Site<'a>,
    ended: Vec<(Branch, Verdict)>,
    depth: usize,
}

impl Runner<'_> {
    /// Gives the branches that come back from the chain; those that do not are put into `ended`.
    fn run_chain(&mut self, name: &str, branch: Branch) -> Vec<Branch> {
        let Some(chain) = self.table.chains.get(name).filter(|_| self.depth <= DEEPEST) else {
            let place = place(self.table, name, None);
            return self
                .fail(branch, place, &format!("chain {name} is missing, or jumps to itself"))
                .into_iter()
                .collect();
        };
        let (mut live, mut returned) = (vec![branch], Vec::new());
        for rule in &chain.rules {
            let mut steps: Vec<Step> = live
                .into_iter()
                .flat_map(|branch| run_rule(self.table, self.site, &rule.expressions, branch))
                .collect();
            // Branches of a random draw are one again where it makes no difference.
            steps.dedup_by(|next, kept| kept.absorb(next));
            live = Vec::new();
            for step in steps {
                self.act(name, rule, step, &mut live, &mut returned);
            }
            live.dedup_by(|next, kept| kept.absorb(next));
        }
        returned.extend(live);
        returned
    }

    fn act(&mut self, chain: &str, rule: &Rule, step: Step, next: &mut Vec<Branch>, returned: &mut Vec<Branch>) {
        match step {
            Step::Next(branch) | Step::Code(branch, Code::Continue) => next.push(branch),
            Step::Code(branch, Code::Return) => returned.push(branch),
            Step::Code(branch, Code::Accept) => self.ended.push((branch, Verdict::Continue)),
            Step::Code(branch, Code::Jump(target)) => next.extend(self.enter(&target, branch)),
            Step::Code(branch, Code::Goto(target)) => returned.extend(self.enter(&target, branch)),
            Step::Code(branch, Code::Drop) => self.end(chain, rule, branch, Verdict::Drop),
            Step::End(branch, verdict) => self.end(chain, rule, branch, verdict),
            Step::Exhausted(branch) => self.exhaust(chain, branch),
            Step::Error(branch, Unsupported(what)) => {
                let place = place(self.table, chain, Some(rule));
                let what = format!("{}: {what} is not supported", rule_text(self.table, rule));
                match rule.expressions.last() {
                    Some(Expression::Verdict(Code::Accept)) => next.extend(self.doubt(branch, place, &what)),
                    _ => next.extend(self.fail(branch, place, &what)),
                }
            }
        }
    }

    /// The rest of the base chain is not run.
    fn exhaust(&mut self, chain: &str, branch: Branch) {
        let place = place(self.table, chain, None);
        let left = self.fail(branch, place, "jumps and random numbers lead to more paths than are followed");
        self.ended.extend(left.map(|branch| (branch, Verdict::Continue)));
    }

    fn enter(&mut self, chain: &str, branch: Branch) -> Vec<Branch> {
        self.depth += 1;
        let returned = self.run_chain(chain, branch);
        self.depth -= 1;
        returned
    }

    fn end(&mut self, chain: &str, rule: &Rule, mut branch: Branch, verdict: Verdict) {
        let met = Met::new(place(self.table, chain, Some(rule)), rule_text(self.table, rule));
        match verdict {
            Verdict::Drop | Verdict::Reject => branch.stopped_by = Some(met),
            Verdict::Translate(_) | Verdict::Masquerade if self.table.on_error == OnError::Skip => {
                branch.notes.push(format!("{met} translates the packet"));
            }
            _ => {}
        }
        self.ended.push((branch, verdict));
    }

    /// A rule that can only accept makes no difference, unless a later rule drops.
    fn doubt(&mut self, mut branch: Branch, place: String, what: &str) -> Option<Branch> {
        if self.table.on_error == OnError::End {
            return self.fail(branch, place, what);
        }
        branch.doubts.push(not_understood(&place, what));
        Some(branch)
    }

    /// The branch, if it goes on all the same.
    fn fail(&mut self, mut branch: Branch, place: String, what: &str) -> Option<Branch> {
        match self.table.on_error {
            OnError::Skip => {
                branch.notes.push(not_understood(&place, what));
                Some(branch)
            }
            OnError::End => {
                self.ended.push((stopped(branch, place, what), Verdict::Unknown));
                None
            }
        }
    }
}
