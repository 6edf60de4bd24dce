//! A command line of the plugin: what stays here, and what goes to the node.

use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};

use super::flags::{AccessFlags, EverywhereFlags, MANIFESTS, NodeFlags, OTHER_FILES, command, ids, unknown};
use super::terminal;
use crate::flags::{Output, SettingFlags};

/// What is asked, of which node, as which user.
#[derive(Clone, Debug)]
pub(super) struct Invocation {
    pub(super) name: String,
    pub(super) node: NodeFlags,
    pub(super) access: AccessFlags,
    pub(super) is_everywhere: bool,
    pub(super) output: Output,
    /// The files of `diff`.
    pub(super) manifests: Vec<PathBuf>,
    /// What goes to the node: flags, and then what stands for itself.
    pub(super) flags: Vec<String>,
    pub(super) words: Vec<String>,
    /// It prints until it is interrupted, or covers the whole screen.
    pub(super) is_live: bool,
}

impl Invocation {
    pub(super) fn read(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let (name, matches) = matches.subcommand().ok_or_else(|| clap::Error::new(ErrorKind::MissingSubcommand))?;
        let command = command();
        let known = command.find_subcommand(name).ok_or_else(|| unknown(name))?;
        let given = Given { matches, command: known };
        given.refuse_settings()?;
        let is_set = |id: &str| matches!(matches.try_get_one::<bool>(id), Ok(Some(true)));
        Ok(Self {
            name: name.to_owned(),
            node: NodeFlags::from_arg_matches(matches)?,
            access: AccessFlags::from_arg_matches(matches)?,
            is_everywhere: is_set("all_nodes"),
            output: matches.try_get_one::<Output>("output").ok().flatten().copied().unwrap_or(Output::Text),
            manifests: given.manifests(),
            flags: given.flags(),
            words: given.words(),
            is_live: name == "top" && !is_set("once") || is_set("watch"),
        })
    }

    /// The command gets a terminal if this process has one for all of its streams: then nothing that is kept apart is mixed.
    /// A question that is answered at once needs one for colour alone.
    pub(super) fn wants_terminal(&self) -> bool {
        let for_colour = self.manifests.is_empty() && std::env::var_os("NO_COLOR").is_none();
        !self.is_everywhere && (self.is_live || for_colour) && terminal::is_terminal()
    }

    /// The command line of the program in the container.
    pub(super) fn remote(&self) -> Vec<String> {
        let mut line = vec!["portolan".to_owned()];
        line.extend(self.is_live.then(|| "attached".to_owned()));
        line.push(self.name.clone());
        line.extend_from_slice(&self.flags);
        if !self.words.is_empty() {
            line.push("--".to_owned());
            line.extend_from_slice(&self.words);
        }
        line
    }
}

/// What the user has written.
struct Given<'a> {
    matches: &'a ArgMatches,
    command: &'a Command,
}

impl Given<'_> {
    fn arguments(&self) -> impl Iterator<Item = &Arg> {
        let is_given = |id: &str| self.matches.value_source(id) == Some(ValueSource::CommandLine);
        self.command.get_arguments().filter(move |argument| is_given(argument.get_id().as_str()))
    }

    /// The arguments of the program's own command, without those that were added here and those that are replaced.
    fn passed_on(&self) -> impl Iterator<Item = &Arg> {
        let added = EverywhereFlags::augment_args(NodeFlags::augment_args(Command::new("added")));
        let added = ids(AccessFlags::augment_args(added));
        let stays = move |id: &str| id == MANIFESTS || added.iter().any(|it| it == id);
        self.arguments().filter(move |argument| !stays(argument.get_id().as_str()))
    }

    fn refuse_settings(&self) -> Result<(), clap::Error> {
        let is_diff = self.command.get_name() == "diff";
        let settings = ids(SettingFlags::augment_args(Command::new("settings")));
        let is_local =
            |id: &str| id == OTHER_FILES || settings.iter().any(|it| it == id) && !(is_diff && id == MANIFESTS);
        match self.arguments().find(|argument| is_local(argument.get_id().as_str())) {
            None => Ok(()),
            Some(argument) => {
                let flag = argument.get_long().unwrap_or_default();
                let message = format!(
                    "--{flag} is for answers from files: here the daemon of a node answers, with its \
                                       own settings (`portolan {}` answers from files)\n",
                    self.command.get_name()
                );
                Err(clap::Error::raw(ErrorKind::ArgumentConflict, message))
            }
        }
    }

    fn values(&self, argument: &Arg) -> Vec<String> {
        let values = self.matches.get_raw(argument.get_id().as_str());
        values.into_iter().flatten().map(|value| value.to_string_lossy().into_owned()).collect()
    }

    fn manifests(&self) -> Vec<PathBuf> {
        let mut arguments = self.arguments();
        let given = arguments.find(|argument| argument.get_id() == MANIFESTS);
        given.map(|argument| self.values(argument)).into_iter().flatten().map(PathBuf::from).collect()
    }

    fn flags(&self) -> Vec<String> {
        let flags = self.passed_on().filter_map(|argument| Some((argument, argument.get_long()?)));
        let written = flags.flat_map(|(argument, long)| match argument.get_action().takes_values() {
            true => self.values(argument).iter().map(|value| format!("--{long}={value}")).collect(),
            false => vec![format!("--{long}")],
        });
        written.collect()
    }

    fn words(&self) -> Vec<String> {
        self.passed_on()
            .filter(|argument| argument.is_positional())
            .flat_map(|argument| self.values(argument))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Invocation, clap::Error> {
        let line = ["kubectl-portolan"].into_iter().chain(line.split_whitespace());
        command().try_get_matches_from(line).and_then(|matches| Invocation::read(&matches))
    }

    fn remote(line: &str) -> String {
        read(line).unwrap_or_else(|error| panic!("{error}")).remote().join(" ")
    }

    #[test]
    fn the_definition_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn flags_of_kubectl_stay_here_and_the_rest_goes_to_the_node() {
        let line = "explain pod/web-1 --context east svc/api -n shop --on-node --as=eve -o json --node n1";
        assert_eq!(remote(line), "portolan explain --on-node --output=json -- pod/web-1 svc/api");
        let invocation = read(line).expect("a good line");
        assert_eq!(invocation.access.context.as_deref(), Some("east"));
        assert_eq!(invocation.access.namespace.as_deref(), Some("shop"));
        assert_eq!(invocation.access.as_user.as_deref(), Some("eve"));
        assert_eq!(invocation.node.node.as_deref(), Some("n1"));
        assert_eq!(
            remote("connections web -w --interval 5s --limit=3"),
            "portolan attached connections --watch --interval=5s --limit=3 -- web"
        );
        assert_eq!(remote("verify --control-socket /x"), "portolan verify --control-socket=/x");
    }

    #[test]
    fn a_word_is_never_read_as_a_flag_on_the_node() {
        assert_eq!(remote("connections -- --watch"), "portolan connections -- --watch");
    }

    #[test]
    fn settings_of_files_are_refused() {
        for line in ["verify --manifests x", "explain a b --cluster-cidr 10.0.0.0/8", "diff --manifests x --from y"] {
            let error = read(line).expect_err(line).to_string();
            assert!(error.contains("answers from files"), "{error}");
        }
        let diff = read("diff --manifests a b --manifests c").expect("a good line");
        assert_eq!(diff.manifests, ["a", "b", "c"].map(PathBuf::from));
        assert_eq!(diff.remote(), ["portolan", "diff"]);
    }

    #[test]
    fn an_unknown_command_gets_the_list() {
        let error = read("explian a b").expect_err("a typo").to_string();
        for name in ["\"explian\"", "explain", "verify", "connections"] {
            assert!(error.contains(name), "{error}");
        }
        assert!(read("proxy").expect_err("not here").to_string().contains("`portolan proxy` runs on a node"));
    }

    #[test]
    fn nodes_are_chosen_in_one_way_at_a_time() {
        assert!(read("verify --all-nodes").expect("a good line").is_everywhere);
        for line in [
            "verify --all-nodes --node n1",
            "verify --node n1 --of-pod web-1",
            "connections --all-nodes",
            "verify --as-group x",
        ] {
            assert!(read(line).is_err(), "{line}");
        }
    }
}
