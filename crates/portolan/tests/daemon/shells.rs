//! Completions in a real shell, and manual pages through a real formatter.

use std::process::{Command, Output};

fn portolan(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_portolan")).args(arguments).output().unwrap()
}

/// What bash offers after these words.
fn completed(words: &[&str]) -> Vec<String> {
    let script = portolan(&["completions", "bash"]);
    assert!(script.status.success());
    // As readline does: the words, the index of the last one, and the function that `complete` has registered.
    let ask = "COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); \
        read -ra registered <<<\"$(complete -p portolan)\"; \
        for word in \"${registered[@]}\"; do [[ $previous == -F ]] && function=$word; previous=$word; done; \
        \"$function\" portolan \"${!#}\" \"${COMP_WORDS[COMP_CWORD - 1]}\"; printf '%s\\n' \"${COMPREPLY[@]}\"";
    let text = format!("{}\n{ask}", String::from_utf8(script.stdout).unwrap());
    let output = Command::new("bash").args(["-c", &text, "bash", "portolan"]).args(words).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_flags_and_values() {
    let commands = completed(&[""]);
    for command in ["proxy", "explain", "top", "changes", "completions", "man"] {
        assert!(commands.iter().any(|it| it == command), "{command} is not in {commands:?}");
    }
    assert!(!commands.iter().any(|it| it == "dns-worker"), "a hidden command");
    assert_eq!(completed(&["exp"]), ["explain"]);
    assert_eq!(completed(&["top", "--onc"]), ["--once"]);
    assert!(completed(&["top", "--sort", ""]).contains(&"bytes".to_owned()));
    assert_eq!(completed(&["verify", "--output", "j"]), ["json"]);
    assert_eq!(completed(&["proxy", "--cluster-c"]), ["--cluster-cidr"], "flags of kube-proxy");
    assert_eq!(completed(&["completions", "f"]), ["fish"]);
}

#[test]
fn other_shells_have_scripts() {
    for (shell, start) in [("zsh", "#compdef portolan"), ("fish", "# Print an optspec")] {
        let output = portolan(&["completions", shell]);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && text.starts_with(start) && text.contains("explain"), "{shell}");
    }
}

/// Formatters and linters of the machine check them in tests/deploy/install.
#[test]
fn every_command_has_a_manual_page() {
    let folder = tempfile::tempdir().unwrap();
    let output = portolan(&["man", "--directory", folder.path().to_str().unwrap()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for command in completed(&[""]).iter().filter(|it| !it.starts_with('-') && *it != "help") {
        let page = std::fs::read_to_string(folder.path().join(format!("portolan-{command}.1"))).unwrap();
        assert!(page.is_ascii() && page.contains(".SH OPTIONS") && page.contains(".TH portolan-"), "{command}: {page}");
    }
    let program = std::fs::read_to_string(folder.path().join("portolan.1")).unwrap();
    assert_eq!(program, String::from_utf8(portolan(&["man"]).stdout).unwrap());
    assert!(program.contains(".SH EXIT STATUS") && !program.contains("dns-worker"), "{program}");
}
