//! The Corefile: server blocks for zones, each with a list of plugins.

use super::DnsDocument;
use super::plugins;
use crate::notice::Notice;

/// One line, and the block in braces after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Directive {
    pub(super) line: usize,
    pub(super) words: Vec<String>,
    pub(super) block: Vec<Directive>,
}

impl Directive {
    pub(super) fn name(&self) -> &str {
        self.words.first().map_or("", String::as_str)
    }

    pub(super) fn arguments(&self) -> &[String] {
        self.words.get(1..).unwrap_or_default()
    }

    pub(super) fn argument(&self) -> Option<&str> {
        self.arguments().first().map(String::as_str)
    }
}

/// The supported settings of the file, and notices for the others. Only a syntax error is an error.
pub fn from_corefile(file: &str, text: &str) -> Result<(DnsDocument, Vec<Notice>), String> {
    let servers = parse(text).map_err(|(line, reason)| format!("{file}:{line}: {reason}"))?;
    let mut reader = Reader { file, document: DnsDocument::default(), notices: Vec::new() };
    servers.iter().for_each(|server| reader.server(server));
    Ok((reader.document, reader.notices))
}

pub(super) struct Reader<'a> {
    pub(super) file: &'a str,
    pub(super) document: DnsDocument,
    notices: Vec<Notice>,
}

impl Reader<'_> {
    fn server(&mut self, server: &Directive) {
        let is_root = server.words.iter().any(|word| is_root(word));
        if is_root {
            self.listen(&server.words);
        }
        // A block for another zone without the kubernetes plugin is a stub domain.
        let has_cluster = server.block.iter().any(|plugin| plugin.name() == "kubernetes");
        if !is_root && !has_cluster {
            return plugins::stub(self, server);
        }
        for plugin in &server.block {
            plugins::read(self, plugin);
        }
    }

    fn listen(&mut self, keys: &[String]) {
        let ports = keys.iter().filter_map(|key| key.rsplit_once(':')).map(|(_, port)| port);
        let port = ports.filter_map(|port| port.parse::<u16>().ok()).next().unwrap_or(53);
        self.document.listen = vec![format!(":{port}")];
    }

    pub(super) fn unsupported(&mut self, directive: &Directive, why: &str) {
        let (file, line, words) = (self.file, directive.line, directive.words.join(" "));
        self.notices.push(Notice::warning(format!("{file}:{line}: {words}: {why}")));
    }

    pub(super) fn redundant(&mut self, directive: &Directive, why: &str) {
        let (file, line, words) = (self.file, directive.line, directive.words.join(" "));
        self.notices.push(Notice::info(format!("{file}:{line}: {words}: {why}")));
    }
}

/// `.`, `.:53`, `dns://.:53`.
fn is_root(key: &str) -> bool {
    let key = key.strip_prefix("dns://").unwrap_or(key);
    matches!(key.split(':').next(), Some("." | ""))
}

type SyntaxError = (usize, String);

fn parse(text: &str) -> Result<Vec<Directive>, SyntaxError> {
    let mut open: Vec<Vec<Directive>> = vec![Vec::new()];
    let mut heads: Vec<(usize, Vec<String>)> = Vec::new();
    for (line, content) in (1..).zip(text.lines()) {
        let mut words = words(content).map_err(|reason| (line, reason))?;
        match words.last().map(String::as_str) {
            None => {}
            Some("}") if words.len() == 1 => {
                let (line_of_head, words) = heads.pop().ok_or((line, "unexpected closing brace".into()))?;
                let block = open.pop().unwrap_or_default();
                push(&mut open, Directive { line: line_of_head, words, block });
            }
            Some("{") => {
                words.pop();
                heads.push((line, words));
                open.push(Vec::new());
            }
            Some(_) => push(&mut open, Directive { line, words, block: Vec::new() }),
        }
    }
    match heads.pop() {
        Some((line, words)) => Err((line, format!("the brace after {:?} is never closed", words.join(" ")))),
        None => Ok(open.pop().unwrap_or_default()),
    }
}

fn push(open: &mut [Vec<Directive>], directive: Directive) {
    if let Some(innermost) = open.last_mut() {
        innermost.push(directive);
    }
}

/// Words separated by white space; quotes group words, and `#` starts a comment.
fn words(line: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut rest = line.trim_start();
    while !rest.is_empty() && !rest.starts_with('#') {
        let (word, after) = match rest.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').ok_or("a quote is never closed")?,
            None => rest.split_at(rest.find(char::is_whitespace).unwrap_or(rest.len())),
        };
        words.push(word.trim_end_matches(',').to_owned());
        rest = after.trim_start();
    }
    Ok(words)
}
