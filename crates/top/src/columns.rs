//! The columns of the table of Services: headings, cells and order.

use std::cmp::Ordering;

use portolan_explain::printable;
use portolan_explain::top::TopRow;

use crate::board::Live;
use crate::numbers::{rate, short};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    Service,
    Connections,
    Bytes,
    Open,
    Ready,
    Changes,
    Refuses,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sort {
    pub column: Column,
    pub is_descending: bool,
}

impl Default for Sort {
    fn default() -> Self {
        Column::Connections.sort()
    }
}

impl Column {
    pub const ALL: [Self; 7] =
        [Self::Service, Self::Connections, Self::Bytes, Self::Open, Self::Ready, Self::Changes, Self::Refuses];

    pub fn heading(self) -> &'static str {
        match self {
            Self::Service => "SERVICE",
            Self::Connections => "CONN/S",
            Self::Bytes => "BYTES/S",
            Self::Open => "OPEN",
            Self::Ready => "READY",
            Self::Changes => "CHG",
            Self::Refuses => "REFUSES",
        }
    }

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Service => "service",
            Self::Connections => "connections",
            Self::Bytes => "bytes",
            Self::Open => "open",
            Self::Ready => "ready",
            Self::Changes => "changes",
            Self::Refuses => "refuses",
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|column| column.name() == name)
    }

    /// Names count up; numbers begin with what needs attention: the largest, but the fewest ready endpoints.
    pub fn sort(self) -> Sort {
        Sort { column: self, is_descending: !matches!(self, Self::Service | Self::Ready) }
    }

    /// With the space before it. The first column takes what is left.
    pub(crate) fn width(self, screen: u16) -> u16 {
        match self {
            Self::Service => 0,
            Self::Connections | Self::Ready => 8,
            Self::Bytes => 9,
            Self::Open => 7,
            Self::Changes => 6,
            Self::Refuses if screen < 100 => 14,
            Self::Refuses => 20,
        }
    }

    /// Numbers are aligned at the right.
    pub(crate) fn is_number(self) -> bool {
        !matches!(self, Self::Service | Self::Refuses)
    }

    pub(crate) fn cell(self, live: &Live<TopRow>) -> String {
        let row = &live.row;
        match self {
            Self::Service => printable(&row.service).into_owned(),
            Self::Connections => rate(live.rates.map(|rates| rates.connections)),
            Self::Bytes => rate(live.rates.map(|rates| rates.bytes)),
            Self::Open => row.open.map_or("-".into(), |open| short(f64::from(open))),
            Self::Ready => ready(row),
            Self::Changes => short(live.changes as f64),
            Self::Refuses => row.refuses.as_deref().map_or("-".into(), |reason| printable(reason).into_owned()),
        }
    }

    fn compare(self, one: &Live<TopRow>, other: &Live<TopRow>) -> Ordering {
        let by = |key: fn(&Live<TopRow>) -> f64| key(one).total_cmp(&key(other));
        match self {
            Self::Service => one.row.service.cmp(&other.row.service),
            Self::Connections => by(|live| live.rates.map_or(-1.0, |rates| rates.connections)),
            Self::Bytes => by(|live| live.rates.map_or(-1.0, |rates| rates.bytes)),
            Self::Open => by(|live| live.row.open.map_or(-1.0, f64::from)),
            Self::Ready => by(|live| f64::from(live.row.ready) / f64::from(live.row.endpoints.max(1))),
            Self::Changes => one.changes.cmp(&other.changes),
            Self::Refuses => one.row.refuses.cmp(&other.row.refuses),
        }
    }
}

/// `2/3`, and `!` where some of the ready ones do not answer.
fn ready(row: &TopRow) -> String {
    let mark = if row.quarantined > 0 { "!" } else { "" };
    format!("{}/{}{mark}", short(f64::from(row.ready)), short(f64::from(row.endpoints)))
}

impl Sort {
    /// Rows that are equal are in the order of their names, which is the order in which they come.
    pub(crate) fn apply(self, rows: &mut [&Live<TopRow>]) {
        rows.sort_by(|one, other| {
            let order = self.column.compare(one, other);
            if self.is_descending { order.reverse() } else { order }
        });
    }

    /// The next column, or the one before.
    pub(crate) fn beside(self, is_next: bool) -> Self {
        let all = Column::ALL;
        let at = all.iter().position(|column| *column == self.column).unwrap_or_default();
        let step = if is_next { 1 } else { all.len() - 1 };
        all[(at + step) % all.len()].sort()
    }

    pub(crate) fn reversed(self) -> Self {
        Self { is_descending: !self.is_descending, ..self }
    }
}
