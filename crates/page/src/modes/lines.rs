//! A listing as lines, each with the blocks around it.

use std::collections::HashMap;

pub(super) struct Listing {
    pub(super) lines: Vec<Line>,
}

pub(super) struct Line {
    pub(super) text: String,
    /// The lines that open the blocks around it, the outermost first.
    pub(super) around: Vec<usize>,
    /// The line that opens the block that it closes.
    pub(super) closes: Option<usize>,
    /// The line and the blocks around it, without what depends on its neighbours.
    identity: String,
}

impl Listing {
    pub(super) fn parse(text: &str) -> Self {
        let mut lines: Vec<Line> = Vec::new();
        let mut open: Vec<(usize, usize)> = Vec::new();
        for (number, text) in text.lines().enumerate() {
            let depth = depth(text);
            let closed = open.iter().find(|(other, _)| *other == depth && text.trim() == "}");
            let closes = closed.map(|(_, line)| *line);
            if !text.trim().is_empty() {
                open.retain(|(other, _)| *other < depth);
            }
            let around: Vec<usize> = open.iter().map(|(_, line)| *line).collect();
            let blocks = around.iter().map(|line| bare(&lines[*line].text));
            let own = closes.map_or_else(|| bare(text), |line| format!("end of {}", bare(&lines[line].text)));
            let identity = blocks.chain([own]).collect::<Vec<_>>().join("\n");
            lines.push(Line { text: text.to_owned(), around, closes, identity });
            if opens(text, depth) {
                open.push((depth, number));
            }
        }
        Self { lines }
    }

    /// Those of some lines that contain a word.
    pub(super) fn lines_with(&self, word: &str, among: &[usize]) -> Vec<usize> {
        let is_part = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | ':');
        let has_word = |text: &str| {
            text.match_indices(word).any(|(start, _)| {
                let is_within = text[..start].ends_with(is_part);
                // A port may follow an address.
                let rest = text[start + word.len()..].trim_start_matches(':');
                let is_longer = rest.starts_with(is_part) && !text[start + word.len()..].starts_with(':');
                !is_within && !is_longer
            })
        };
        among.iter().copied().filter(|number| has_word(&self.lines[*number].text)).collect()
    }

    /// The lines that the other listing does not have as often.
    pub(super) fn lines_that_differ(&self, other: &Self) -> Vec<usize> {
        let mut there: HashMap<&str, usize> = HashMap::new();
        other.lines.iter().for_each(|line| *there.entry(&line.identity).or_default() += 1);
        let is_there = |line: &Line| match there.get_mut(line.identity.as_str()) {
            Some(count) if *count > 0 => {
                *count -= 1;
                true
            }
            _ => false,
        };
        let mut is_there = is_there;
        let differing = self.lines.iter().enumerate().filter(|(_, line)| !line.text.trim().is_empty());
        differing.filter(|(_, line)| !is_there(line)).map(|(number, _)| number).collect()
    }
}

/// Headings of tools and of tables are outside of all lines, and indentation makes blocks.
fn depth(text: &str) -> usize {
    match text.bytes().next() {
        Some(b'#') => 0,
        Some(b'*') => 1,
        _ => 2 + text.len() - text.trim_start().len(),
    }
}

/// Lists are printed with their first and last element on the lines of the brackets: those open no block.
fn opens(text: &str, depth: usize) -> bool {
    depth < 2 || text.ends_with('{') || depth == 2 && !text.starts_with([':', '-', '}']) && !text.is_empty()
}

/// Without brackets and commas of lists, which depend on the place in the list.
fn bare(text: &str) -> String {
    let text = text.trim();
    if text.ends_with('{') {
        return text.to_owned();
    }
    let text = text.split_once("= {").map_or(text, |(_, elements)| elements);
    text.trim_end_matches(['}', ',', ' ']).trim_start().to_owned()
}
