//! The address families that this node has. One that it lacks is left out, so that the other is served all the same.

use std::sync::Mutex;

use portolan_kernel::sysctl::has_ipv6;
use portolan_model::Family;

/// Which families are served, in the order of [`Family::BOTH`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Families([bool; 2]);

impl Families {
    /// The families of the kernel.
    pub(crate) fn of_machine() -> Self {
        let mut families = Self([true; 2]);
        if !has_ipv6() {
            families.leave_out(Family::V6, "this kernel has no IPv6 (ipv6.disable=1, or built without it)");
        }
        families
    }

    pub(crate) fn serve(self, family: Family) -> bool {
        self.0[family as usize]
    }

    pub(crate) fn served(self) -> impl Iterator<Item = Family> {
        Family::BOTH.into_iter().filter(move |family| self.serve(*family))
    }

    /// From now on the family is not served.
    pub(crate) fn leave_out(&mut self, family: Family, reason: &str) {
        self.0[family as usize] = false;
        log_once(family, reason);
    }
}

/// Modes are opened many times, for reading and for writing.
fn log_once(family: Family, reason: &str) {
    static LOGGED: Mutex<[bool; 2]> = Mutex::new([false; 2]);
    let mut logged = LOGGED.lock().expect("no thread panics while it logs");
    if !std::mem::replace(&mut logged[family as usize], true) {
        tracing::warn!("{family} is left out: {reason}");
    }
}
