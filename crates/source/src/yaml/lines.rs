//! The line of a field. Only a document with an error is parsed again for this.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

use super::full::read_yaml;

/// The line, counted from 1, of a field such as `spec.ports[0].port`, or of the nearest field around it that is there.
pub(super) fn line_of(text: &str, path: &str) -> u32 {
    read_yaml::<Tree>(text).map_or(1, |tree| deepest(&tree, path)).max(1)
}

fn deepest(tree: &Tree, path: &str) -> u32 {
    let mut tree = tree;
    let mut line = 1;
    for step in path.split(['.', '[', ']']).filter(|step| !step.is_empty()) {
        let Some((found, inner)) = tree.child(step) else { break };
        (line, tree) = (found, inner);
    }
    line
}

/// The shape of a document, with the line of each key and of each item.
enum Tree {
    Map(Vec<(Spanned<String>, Tree)>),
    List(Vec<Spanned<Tree>>),
    Leaf,
}

impl Tree {
    fn child(&self, step: &str) -> Option<(u32, &Self)> {
        match self {
            Self::Map(entries) => {
                let (key, value) = entries.iter().find(|(key, _)| key.value == step)?;
                Some((line(key.referenced), value))
            }
            Self::List(items) => {
                let item = items.get(step.parse::<usize>().ok()?)?;
                Some((line(item.referenced), &item.value))
            }
            Self::Leaf => None,
        }
    }
}

fn line(location: serde_saphyr::Location) -> u32 {
    u32::try_from(location.line()).unwrap_or(1)
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

struct TreeVisitor;

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Tree;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("anything")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tree, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(Tree::Map(entries))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Tree, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = sequence.next_element()? {
            items.push(item);
        }
        Ok(Tree::List(items))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Tree, E> {
        Ok(Tree::Leaf)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Tree, E> {
        Ok(Tree::Leaf)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Tree, E> {
        Ok(Tree::Leaf)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Tree, E> {
        Ok(Tree::Leaf)
    }

    fn visit_str<E>(self, _: &str) -> Result<Tree, E> {
        Ok(Tree::Leaf)
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Leaf)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<Tree, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|_| Tree::Leaf)
    }
}
