//! The syntax of the Corefile: directives with words and blocks.

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

type SyntaxError = (usize, String);

pub(super) fn parse(text: &str) -> Result<Vec<Directive>, SyntaxError> {
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
