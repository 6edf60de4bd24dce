//! The table of Services.

use super::{Canvas, Look, cell};
use crate::columns::Column;
use crate::state::State;

/// A name needs this much to be of use; columns make room for it.
const NAME: u16 = 18;
/// Columns that a narrow screen leaves out, the first ones first.
const DISPENSABLE: [Column; 5] = [Column::Changes, Column::Refuses, Column::Ready, Column::Open, Column::Bytes];

pub(super) fn draw(state: &State, canvas: &mut Canvas<'_>) {
    let columns = columns(canvas.width());
    canvas.line(2, &heading(state, &columns), Look::Heading);
    let rows = state.rows();
    if rows.is_empty() {
        return canvas.row(0, empty(state), Look::Plain);
    }
    // Pages, so that a row stays in its place while the mark moves.
    let page = canvas.rows().max(1);
    let marked = state.index(&rows);
    let first = marked / page * page;
    for (number, live) in rows.iter().enumerate().skip(first).take(page) {
        let mark = if number == marked { ">" } else { " " };
        let cells = columns.iter().map(|(column, width)| aligned(*column, &column.cell(live), *width));
        let look = match (number == marked, live.row.refuses.is_some()) {
            (true, _) => Look::Marked,
            (false, true) => Look::Wrong,
            (false, false) => Look::Plain,
        };
        canvas.row(number - first, &format!("{mark}{}", cells.collect::<String>()), look);
    }
}

fn empty(state: &State) -> &'static str {
    match (state.board.is_known(), state.board.rows.is_empty()) {
        (false, _) => "",
        (true, true) => " this node serves no Service",
        (true, false) => " no Service matches the filter",
    }
}

/// The columns that fit, with their widths.
fn columns(screen: u16) -> Vec<(Column, u16)> {
    let mut shown = Column::ALL.to_vec();
    let left = |shown: &[Column]| (screen - 1).saturating_sub(shown.iter().map(|it| it.width(screen)).sum());
    for column in DISPENSABLE {
        if left(&shown) < NAME {
            shown.retain(|it| *it != column);
        }
    }
    let name = left(&shown);
    shown.into_iter().map(|it| (it, if it == Column::Service { name } else { it.width(screen) })).collect()
}

fn heading(state: &State, columns: &[(Column, u16)]) -> String {
    let cells = columns.iter().map(|(column, width)| {
        let arrow = match (*column == state.sort.column, state.sort.is_descending) {
            (false, _) => "",
            (true, true) => "v",
            (true, false) => "^",
        };
        aligned(*column, &format!("{}{arrow}", column.heading()), *width)
    });
    format!(" {}", cells.collect::<String>())
}

fn aligned(column: Column, text: &str, width: u16) -> String {
    match column {
        Column::Service => cell(text, usize::from(width), false),
        column => format!(" {}", cell(text, usize::from(width - 1), column.is_number())),
    }
}
