//! Text for people: aligned columns, and colour where the reader has a terminal.

/// Whether to colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    pub colour: bool,
}

impl Style {
    pub const PLAIN: Self = Self { colour: false };

    fn paint(self, code: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_string() }
    }

    pub fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    pub fn dim(self, text: &str) -> String {
        self.paint("2", text)
    }

    pub fn green(self, text: &str) -> String {
        self.paint("32", text)
    }

    pub fn red(self, text: &str) -> String {
        self.paint("31", text)
    }

    pub fn yellow(self, text: &str) -> String {
        self.paint("33", text)
    }
}

/// Rows under a heading; a cell may have several lines.
pub fn table(heading: &[&str], rows: &[Vec<String>], style: Style) -> String {
    let mut widths: Vec<usize> = heading.iter().map(|cell| cell.len()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.lines().map(|line| line.chars().count()).chain([*width]).max().unwrap_or(0);
        }
    }
    let head: Vec<String> = heading.iter().map(ToString::to_string).collect();
    let mut text = style.bold(&line(&head, &widths)) + "\n";
    for row in rows {
        let height = row.iter().map(|cell| cell.lines().count()).max().unwrap_or(0).max(1);
        for index in 0..height {
            let cells: Vec<String> = row.iter().map(|cell| cell.lines().nth(index).unwrap_or("").into()).collect();
            text += &(line(&cells, &widths) + "\n");
        }
    }
    text
}

fn line(cells: &[String], widths: &[usize]) -> String {
    let padded: Vec<String> = cells.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
    padded.join("  ").trim_end().to_string()
}
