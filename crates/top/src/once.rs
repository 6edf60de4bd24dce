//! One reading for scripts, as text and as JSON.

use portolan_explain::top::{TopRow, Totals};
use portolan_explain::{Style, printable};
use serde::Serialize;

use crate::board::Live;
use crate::columns::Column;
use crate::state::State;

#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    pub node: String,
    pub mode: String,
    pub services: Vec<ServiceSummary>,
    pub refusals: Vec<RefusalSummary>,
    pub notes: Vec<String>,
}

#[derive(Clone, Debug, Serialize)]
pub struct ServiceSummary {
    pub service: String,
    pub connections_per_second: Option<f64>,
    pub bytes_per_second: Option<f64>,
    pub open: Option<u32>,
    pub ready: u32,
    pub endpoints: u32,
    pub quarantined: u32,
    pub refuses: Option<String>,
    pub changes: u64,
    pub totals: Totals,
}

#[derive(Clone, Debug, Serialize)]
pub struct RefusalSummary {
    pub reason: String,
    pub per_second: Option<f64>,
    pub total: u64,
}

impl Summary {
    pub fn of(state: &State) -> Self {
        let board = &state.board;
        let refusals = board.refusals.iter().map(|(reason, refused)| RefusalSummary {
            reason: reason.clone(),
            per_second: refused.rate,
            total: refused.total,
        });
        Self {
            node: board.node.clone(),
            mode: board.mode.clone(),
            services: state.rows().into_iter().map(service).collect(),
            refusals: refusals.collect(),
            notes: board.notes.clone(),
        }
    }
}

fn service(live: &Live<TopRow>) -> ServiceSummary {
    let TopRow { service, totals, open, ready, endpoints, quarantined, refuses } = live.row.clone();
    ServiceSummary {
        service,
        connections_per_second: live.rates.map(|rates| rates.connections),
        bytes_per_second: live.rates.map(|rates| rates.bytes),
        open,
        ready,
        endpoints,
        quarantined,
        refuses,
        changes: live.changes,
        totals,
    }
}

/// The table of the screen, whole.
pub fn text(state: &State, style: Style) -> String {
    let rows: Vec<Vec<String>> =
        state.rows().into_iter().map(|live| Column::ALL.map(|column| column.cell(live)).to_vec()).collect();
    let heading = Column::ALL.map(|column| column.heading().to_owned()).to_vec();
    let width = |at: usize| rows.iter().chain([&heading]).map(|row| row[at].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..heading.len()).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = Column::ALL.iter().zip(row).zip(&widths);
        let cells = cells.map(|((column, cell), width)| match column.is_number() {
            true => format!("{cell:>width$}"),
            false => format!("{cell:<width$}"),
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    let refusals = state.board.refusals.iter().filter(|(_, refused)| refused.total > 0);
    let refusals = refusals.map(|(reason, refused)| format!("refused {}: {}\n", printable(reason), refused.total));
    let notes = state.board.notes.iter().map(|note| format!("note: {note}\n"));
    style.bold(line(&heading).trim_end())
        + "\n"
        + &rows.iter().map(line).chain(refusals).chain(notes).collect::<String>()
}
