//! The command line of the plugin: the commands of the program itself, with kubectl's flags in the place of those for files.

use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{Arg, Args, Command, CommandFactory};

use crate::flags::{Cli, SettingFlags};

/// The commands that a node answers.
const COMMANDS: [&str; 7] = ["explain", "services", "connections", "verify", "diff", "top", "changes"];
/// Those whose answers make one table.
const EVERYWHERE: [&str; 3] = ["verify", "diff", "services"];
/// Of the diff of files with files, which takes no node.
pub(super) const OTHER_FILES: &str = "from";
pub(super) const MANIFESTS: &str = "manifests";

const ABOUT: &str = "Ask the Portolan of a node, through the API server";
const MORE: &str = "\
The node is that of the pod or node in the question, or any ready one.
The exit status is that of the command on the node; 2 if it could not be asked.

Examples:
  kubectl portolan explain pod/web-1 svc/api        where packets of this pod go, on its node
  kubectl portolan verify --all-nodes               is every kernel as it should be
  kubectl portolan connections api --node node-7    open connections of a Service through one node
  kubectl portolan services --of-pod web-1          what the node of this pod serves

The rights that this takes are in docs/kubectl.md.";

/// Which node answers.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct NodeFlags {
    /// The node that answers [default: the node of the source, or any ready one]
    #[arg(long, value_name = "NAME", help_heading = "Node")]
    pub(super) node: Option<String>,
    /// The node that this pod runs on
    #[arg(long, value_name = "[NAMESPACE/]POD", conflicts_with = "node", help_heading = "Node")]
    pub(super) of_pod: Option<String>,
    /// The namespace of Portolan's DaemonSet
    #[arg(long, value_name = "NAME", default_value = "kube-system", help_heading = "Node")]
    pub(super) portolan_namespace: String,
    /// The labels of Portolan's pods
    #[arg(long, value_name = "LABELS", default_value = "app.kubernetes.io/name=portolan", help_heading = "Node")]
    pub(super) portolan_selector: String,
    /// The container of Portolan [default: portolan if there is one, else the first]
    #[arg(long, value_name = "NAME", help_heading = "Node")]
    pub(super) portolan_container: Option<String>,
}

#[derive(Args, Clone, Debug)]
pub(super) struct EverywhereFlags {
    /// Ask every node, ten at a time, and print one table
    #[arg(long, conflicts_with_all = ["node", "of_pod"], help_heading = "Node")]
    all_nodes: bool,
}

/// kubectl's own.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct AccessFlags {
    /// The kubeconfig [default: the files in KUBECONFIG, or ~/.kube/config]
    #[arg(long, value_name = "FILE", help_heading = "Cluster")]
    pub(super) kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig
    #[arg(long, value_name = "NAME", help_heading = "Cluster")]
    pub(super) context: Option<String>,
    /// The cluster of the kubeconfig
    #[arg(long, value_name = "NAME", help_heading = "Cluster")]
    pub(super) cluster: Option<String>,
    /// The user of the kubeconfig
    #[arg(long, value_name = "NAME", help_heading = "Cluster")]
    pub(super) user: Option<String>,
    /// The address of the API server
    #[arg(long, value_name = "URL", help_heading = "Cluster")]
    pub(super) server: Option<String>,
    /// The namespace of pods and Services in the question [default: that of the context]
    #[arg(long, short = 'n', value_name = "NAME", help_heading = "Cluster")]
    pub(super) namespace: Option<String>,
    /// Ask as this user
    #[arg(long = "as", value_name = "USER", help_heading = "Cluster")]
    pub(super) as_user: Option<String>,
    /// With --as: as a member of this group; can be repeated
    #[arg(long, value_name = "GROUP", requires = "as_user", help_heading = "Cluster")]
    pub(super) as_group: Vec<String>,
    /// With --as: with this UID
    #[arg(long, value_name = "UID", requires = "as_user", help_heading = "Cluster")]
    pub(super) as_uid: Option<String>,
}

/// Everything that the plugin accepts.
pub(super) fn command() -> Command {
    let program = Cli::command();
    let known = COMMANDS.iter().filter_map(|name| program.find_subcommand(name));
    Command::new("kubectl-portolan")
        .bin_name("kubectl portolan")
        .about(ABOUT)
        .after_help(MORE)
        .version(env!("CARGO_PKG_VERSION"))
        .max_term_width(110)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .disable_help_subcommand(true)
        // A name that is none of these gets the list of them.
        .allow_external_subcommands(true)
        .subcommands(known.map(of_a_node))
}

/// A command of the program without the settings of manifests, which only a diff has, and with kubectl's flags.
fn of_a_node(command: &Command) -> Command {
    let name = command.get_name().to_owned();
    let settings = ids(SettingFlags::augment_args(Command::new("settings")));
    let command = command.clone().mut_args(move |argument| {
        let id = argument.get_id().as_str();
        let is_hidden = settings.iter().any(|it| it == id) && !(name == "diff" && id == MANIFESTS)
            || [OTHER_FILES, "control_socket"].contains(&id);
        if is_hidden { argument.hide(true) } else { argument }
    });
    let mut added = NodeFlags::augment_args(Command::new("added"));
    if EVERYWHERE.contains(&command.get_name()) {
        added = EverywhereFlags::augment_args(added);
    }
    let added: Vec<Arg> = AccessFlags::augment_args(added).get_arguments().cloned().collect();
    added.into_iter().fold(command, add)
}

/// A letter belongs to the command itself, if it has that letter.
fn add(command: Command, argument: Arg) -> Command {
    let is_taken =
        argument.get_short().is_some() && command.get_arguments().any(|it| it.get_short() == argument.get_short());
    let argument = if is_taken { argument.short(None) } else { argument };
    command.arg(argument)
}

pub(super) fn ids(command: Command) -> Vec<String> {
    command.get_arguments().map(|argument| argument.get_id().as_str().to_owned()).collect()
}

/// A name that is no command of the plugin.
pub(super) fn unknown(name: &str) -> clap::Error {
    let command = command();
    let list = COMMANDS.iter().filter_map(|name| command.find_subcommand(name));
    let list: Vec<String> = list
        .map(|it| format!("  {:<12} {}\n", it.get_name(), it.get_about().map(ToString::to_string).unwrap_or_default()))
        .collect();
    let local = Cli::command().find_subcommand(name).map(|_| format!("; `portolan {name}` runs on a node itself"));
    let message = format!(
        "kubectl portolan has no command {name:?}{}\n\nThe commands are:\n{}\nkubectl portolan --help says more.\n",
        local.unwrap_or_default(),
        list.concat()
    );
    clap::Error::raw(ErrorKind::InvalidSubcommand, message)
}
