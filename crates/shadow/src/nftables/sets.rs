//! Sets and maps of a table, and looking things up in them.

use std::collections::HashMap;

use portolan_kernel::nftables::{Element, ElementData, SetSpec, Verdict};

#[derive(Default)]
pub(super) struct Set {
    pub(super) key_length: usize,
    /// How long its elements last, in seconds.
    pub(super) timeout: Option<u32>,
    /// Rules put elements in as clients come.
    pub(super) is_learned: bool,
    exact: HashMap<Vec<u8>, Element>,
    ranges: Vec<Element>,
}

impl Set {
    pub(super) fn new(spec: &SetSpec, timeout_milliseconds: Option<u64>) -> Self {
        Self {
            key_length: spec.key_length() as usize,
            timeout: timeout_milliseconds.and_then(|milliseconds| u32::try_from(milliseconds / 1000).ok()),
            is_learned: spec.dynamic,
            ..Self::default()
        }
    }

    pub(super) fn add(&mut self, element: Element) {
        match element.key_end {
            None => drop(self.exact.insert(element.key.clone(), element)),
            Some(_) => self.ranges.push(element),
        }
    }

    pub(super) fn find(&self, key: &[u8]) -> Option<&ElementData> {
        let is_in = |range: &&Element| *range.key <= *key && range.key_end.as_deref().is_some_and(|end| key <= end);
        let found = self.exact.get(key).or_else(|| self.ranges.iter().find(is_in));
        found.map(|element| &element.data)
    }

    /// Each key with the Service that it belongs to, as far as its comment or its chain tells.
    pub(super) fn keys_and_names(&self) -> impl Iterator<Item = (&[u8], String)> {
        self.exact.iter().map(|(key, element)| (key.as_slice(), service_name(element)))
    }
}

fn service_name(element: &Element) -> String {
    if let Some(comment) = &element.comment {
        return comment.to_string();
    }
    match &element.data {
        ElementData::Verdict(Verdict::Jump(chain) | Verdict::Goto(chain)) => named_by_chain(chain).unwrap_or_default(),
        _ => String::new(),
    }
}

/// `KIND-HASH-NAMESPACE/NAME/PROTOCOL/PORT`.
fn named_by_chain(chain: &str) -> Option<String> {
    let rest = chain.splitn(3, '-').nth(2)?;
    let words: Vec<&str> = rest.split('/').collect();
    match words[..] {
        [namespace, name, _, ""] => Some(format!("{namespace}/{name}")),
        [namespace, name, _, port] => Some(format!("{namespace}/{name}:{port}")),
        _ => None,
    }
}
