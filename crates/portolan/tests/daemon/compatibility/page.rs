//! The tables of docs/compatibility.md are those of the code. `UPDATE_EXPECT=1` rewrites them.

use std::path::PathBuf;

use clap::CommandFactory;
use portolan::flags::KubeProxyCli;
use portolan_config::{FIELDS, Flag, GATES, Use, Value};

const MARK: &str = "<!-- generated: ";

#[test]
fn the_page_matches_the_tables() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/compatibility.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let mut updated = page.clone();
    for (name, table) in [("flags", flags()), ("own", own_flags()), ("fields", fields()), ("gates", gates())] {
        updated = replaced(&updated, name, &table);
    }
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(path, updated).unwrap();
    } else {
        assert!(page == updated, "docs/compatibility.md does not match the tables; UPDATE_EXPECT=1 rewrites it");
    }
}

/// The page with the text between two marks replaced.
fn replaced(page: &str, name: &str, table: &str) -> String {
    let start = format!("{MARK}{name} -->\n");
    let end = format!("{MARK}end of {name} -->");
    let from = page.find(&start).unwrap_or_else(|| panic!("the page has no {start}")) + start.len();
    let to = page.find(&end).unwrap_or_else(|| panic!("the page has no {end}"));
    format!("{}{table}{}", &page[..from], &page[to..])
}

fn flags() -> String {
    let rows = Flag::all().map(|flag| {
        let field = flag.field().map_or(String::new(), |field| format!("`{}`", field.path));
        let hidden = if flag.is_hidden { " (old)" } else { "" };
        let default = default_of(&flag.default_value());
        format!("| `--{}`{hidden} | {default} | {field} | {} |\n", flag.name, used(flag.used()))
    });
    format!("| flag | default | field | here |\n|---|---|---|---|\n{}", rows.collect::<String>())
}

fn own_flags() -> String {
    let command = KubeProxyCli::command();
    let own = command.get_arguments().filter(|it| it.get_long().is_some_and(|name| Flag::named(name).is_none()));
    let rows = own.filter(|it| !matches!(it.get_id().as_str(), "help" | "version")).map(|argument| {
        let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
        let (help, default) = help.split_once(" [default: ").unwrap_or((&help, ""));
        let defaults: Vec<_> = argument.get_default_values().iter().map(|it| it.to_string_lossy()).collect();
        let default = if default.is_empty() { code(&defaults.join(",")) } else { default.trim_end_matches(']').into() };
        format!("| `--{}` | {default} | {help} |\n", argument.get_long().expect("only flags with names are left"))
    });
    format!("| flag | default | what it does |\n|---|---|---|\n{}", rows.collect::<String>())
}

fn fields() -> String {
    let rows = FIELDS
        .iter()
        .map(|field| format!("| `{}` | {} | {} |\n", field.path, default_of(&field.default_value()), used(field.used)));
    format!("| field | default | here |\n|---|---|---|\n{}", rows.collect::<String>())
}

fn gates() -> String {
    let rows = GATES.iter().map(|gate| format!("| `{}` | {} | {} |\n", gate.name, gate.default, used(gate.used)));
    format!("| gate | default | here |\n|---|---|---|\n{}", rows.collect::<String>())
}

fn used(used: Use) -> String {
    match used {
        Use::Works(text) => text.into(),
        Use::None(reason) => format!("**no effect**: {reason}"),
    }
}

fn default_of(value: &Value) -> String {
    code(&value.to_text())
}

fn code(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("`{text}`") }
}
