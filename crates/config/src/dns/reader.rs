//! What has been read of a Corefile so far.

use super::DnsDocument;
use super::directive::Directive;
use crate::notice::Notice;

pub(super) struct Reader<'a> {
    pub(super) file: &'a str,
    pub(super) document: DnsDocument,
    pub(super) notices: Vec<Notice>,
    pub(super) errors: Vec<String>,
}

impl Reader<'_> {
    /// The line restricts what is served, or its meaning is unclear: the file is not used.
    pub(super) fn refuse(&mut self, directive: &Directive, why: &str) {
        self.errors.push(self.place(directive, why));
    }

    pub(super) fn unsupported(&mut self, directive: &Directive, why: &str) {
        self.notices.push(Notice::warning(self.place(directive, why)));
    }

    pub(super) fn redundant(&mut self, directive: &Directive, why: &str) {
        self.notices.push(Notice::info(self.place(directive, why)));
    }

    fn place(&self, directive: &Directive, why: &str) -> String {
        let (file, line, words) = (self.file, directive.line, directive.words.join(" "));
        format!("{file}:{line}: {words}: {why}")
    }
}
