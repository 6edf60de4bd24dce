//! Parses the output of `iptables-save`. Pure.

use std::collections::BTreeSet;

/// One table of the text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SavedTable {
    pub name: String,
    pub chains: BTreeSet<String>,
    pub rules: Vec<SavedRule>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedRule {
    pub chain: String,
    /// What follows `-A CHAIN`, verbatim: valid for `-D`.
    pub text: String,
}

impl SavedRule {
    /// Where matching packets go: a chain, or a verdict such as `ACCEPT`.
    pub fn target(&self) -> Option<String> {
        let mut words = self.words().into_iter();
        words.find(|word| matches!(word.as_str(), "-j" | "-g"))?;
        words.next()
    }

    /// The text as words, without quotes.
    pub fn words(&self) -> Vec<String> {
        words(&self.text)
    }
}

/// Lines outside the format, such as warnings and comments, are skipped.
pub fn parse_save(text: &str) -> Vec<SavedTable> {
    let mut tables: Vec<SavedTable> = Vec::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix('*') {
            tables.push(SavedTable { name: name.trim().to_owned(), ..SavedTable::default() });
        } else if let Some(table) = tables.last_mut() {
            table.take(line);
        }
    }
    tables
}

impl SavedTable {
    fn take(&mut self, line: &str) {
        if let Some(chain) = line.strip_prefix(':') {
            self.chains.extend(chain.split_whitespace().next().map(str::to_owned));
        } else if let Some((chain, text)) = appended(line) {
            self.rules.push(SavedRule { chain: chain.to_owned(), text: text.to_owned() });
        }
    }
}

/// `iptables-save -c` prints the counters first.
fn appended(line: &str) -> Option<(&str, &str)> {
    let line = match line.strip_prefix('[') {
        Some(counted) => counted.split_once("] ")?.1,
        None => line,
    };
    let rest = line.strip_prefix("-A ")?;
    Some(rest.split_once(' ').unwrap_or((rest, "")))
}

/// Words are separated by blanks; a word with blanks is in double quotes, in which a backslash escapes the next
/// character.
pub(crate) fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut is_quoted = false;
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '"' => {
                is_quoted = !is_quoted;
                word.get_or_insert_default();
            }
            '\\' if is_quoted => word.get_or_insert_default().extend(characters.next()),
            ' ' if !is_quoted => words.extend(word.take()),
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_words_are_one_and_a_target_in_a_comment_is_none() {
        let text = "# by hand\n*nat\n:KUBE-SERVICES - [0:0]\n\
            [3:180] -A PREROUTING -m comment --comment \"to -j \\\"X\\\"\" -j KUBE-SERVICES\nCOMMIT\n";
        let tables = parse_save(text);
        let rule = &tables[0].rules[0];
        assert_eq!(rule.words()[3], "to -j \"X\"");
        assert_eq!((rule.chain.as_str(), rule.target().as_deref()), ("PREROUTING", Some("KUBE-SERVICES")));
        assert_eq!(tables[0].chains, BTreeSet::from(["KUBE-SERVICES".to_owned()]));
    }
}
