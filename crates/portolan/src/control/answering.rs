//! The answers of the daemon.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use anyhow::{Context, anyhow, bail};
use portolan_dataplane::Listeners;
use portolan_dataplane::connections::{Load, OpenConnections, Wanted};
use portolan_dataplane::mode::ModeView;
use portolan_dns::environment::variables;
use portolan_explain::top::TopQuestion;
use portolan_explain::{
    ChangesAnswer, ConnectionAnswer, ConnectionsAnswer, Names, PathAnswer, PathQuestion, VerifyAnswer,
    connection_answer, connections_answer, difference, explain_packet, load_answer, services, verify_answer,
};
use portolan_kernel::conntrack::Conntrack;
use portolan_plan::Plan;
use portolan_source::{Options, State};

use super::{Answer, LookUpNode, Published, Question};
use crate::offline::load;
use crate::settings::Settings;

/// Which objects a packet is traced through.
const KERNEL: &str = "the kernel's tables";

/// Connections in one answer, whatever the client asks for.
const MOST_CONNECTIONS: usize = 100_000;

/// What the daemon publishes, at the time of a question.
pub(crate) struct Current {
    pub(crate) plan: Plan,
    pub(crate) settings: Settings,
    view: Box<dyn ModeView>,
    listeners: Option<Arc<Listeners>>,
    node: LookUpNode,
}

impl Current {
    /// Copies what an answer needs out of the lock, so that a long answer never delays a sync.
    pub(crate) fn of(published: &Mutex<Published>) -> anyhow::Result<Self> {
        let (plan, settings, listeners, node) = {
            let published = published.lock().map_err(|_| anyhow!("the daemon has failed"))?;
            let plan = published.plan.clone().context("nothing is programmed yet: see the daemon's log")?;
            (plan, published.settings.clone(), published.listeners.clone(), published.node.clone())
        };
        let view = settings.traffic.mode.view(&settings.traffic.mode_settings, listeners.clone());
        Ok(Self { plan, settings, view, listeners, node })
    }

    fn names<'a>(&'a self, domain: &'a str) -> Names<'a> {
        Names { plan: &self.plan, domain, node: &*self.node }
    }

    pub(crate) fn path(&self, question: &PathQuestion) -> anyhow::Result<PathAnswer> {
        let domain = self.settings.domain();
        let paths = question.paths(&self.names(&domain)).map_err(|mistake| anyhow!(mistake))?;
        let met = self.view.trace_kernel_all(&self.plan, &paths.packets())?;
        // The rules that were read are free by now.
        portolan_kernel::release_unused_memory();
        Ok(PathAnswer::of(&self.plan, &paths, &met, KERNEL))
    }

    pub(crate) fn verify(&self) -> anyhow::Result<VerifyAnswer> {
        let answer = verify_answer(self.settings.traffic.mode.name(), &self.view.verify(&self.plan)?);
        // As above.
        portolan_kernel::release_unused_memory();
        Ok(answer)
    }

    fn connection(&self, question: &PathQuestion) -> anyhow::Result<ConnectionAnswer> {
        let domain = self.settings.domain();
        let (named, port) = question.connection(&self.names(&domain)).map_err(|mistake| anyhow!(mistake))?;
        let packet = &named.packet;
        let client = SocketAddr::new(packet.source, port);
        let server = SocketAddr::new(packet.destination, packet.port);
        let tuple = (packet.protocol, client, server);
        let open = OpenConnections::find(&mut Conntrack::open()?, &self.plan, self.listeners.as_deref(), tuple)?;
        let asked = format!("{client} -> {server}/{}", packet.protocol);
        Ok(connection_answer(&self.plan, asked, packet, open.as_ref()))
    }

    pub(crate) fn connections(&self, service: Option<&str>, most: usize) -> anyhow::Result<ConnectionsAnswer> {
        let domain = self.settings.domain();
        let named = service.map(|text| self.names(&domain).service(text).map_err(|mistake| anyhow!(mistake)));
        let (service, port) = named.transpose()?.map_or((None, None), |named| (Some(named.service), named.port));
        let wanted = Wanted { service, port, most: most.min(MOST_CONNECTIONS) };
        let open = OpenConnections::read(&mut Conntrack::open()?, &self.plan, self.listeners.as_deref(), &wanted)?;
        Ok(connections_answer(&self.plan, &open))
    }
}

fn top(question: &TopQuestion, published: &Mutex<Published>) -> anyhow::Result<Answer> {
    let answer = published.lock().map_err(|_| anyhow!("the daemon has failed"))?.top.clone();
    let answer = answer.context("nothing is counted here")?;
    Ok(Answer::Top(answer(question)?))
}

fn page(question: &portolan_page::Question, published: &Mutex<Published>) -> anyhow::Result<Answer> {
    let ask = published.lock().map_err(|_| anyhow!("the daemon has failed"))?.page.clone();
    let ask = ask.context("the daemon is starting")?;
    Ok(Answer::Page(ask(question)))
}

/// Also before the first sync, whose failures are changes.
fn changes(published: &Mutex<Published>, after: u64, most: usize) -> anyhow::Result<ChangesAnswer> {
    let history = published.lock().map_err(|_| anyhow!("the daemon has failed"))?.history.clone();
    let history = history.lock().map_err(|_| anyhow!("the daemon has failed"))?;
    Ok(history.after(after, most))
}

pub(super) fn answer(question: &Question, published: &Mutex<Published>) -> anyhow::Result<Answer> {
    // These need no view of the kernel's rules.
    match question {
        Question::Changes { after, most } => return Ok(Answer::Changes(changes(published, *after, *most)?)),
        Question::Top(question) => return top(question, published),
        Question::Page(question) => return page(question, published),
        _ => {}
    }
    let current = Current::of(published)?;
    let Current { plan, settings, view, .. } = &current;
    Ok(match question {
        Question::Replace | Question::ReplaceAndConfirm => bail!("a replacement is answered with sockets"),
        Question::Changes { .. } | Question::Page(_) | Question::Top(_) => bail!("this is answered without a plan"),
        Question::Services => Answer::Services(services(plan)),
        Question::Load => Answer::Load(load_answer(plan, &Load::read(&mut Conntrack::open()?, plan)?)),
        Question::Environment { namespace, links } => Answer::Environment(variables(plan.facts(), namespace, *links)),
        Question::Verify => Answer::Verify(current.verify()?),
        Question::Packet(packet) => {
            let packet = packet.packet(plan).map_err(|mistake| anyhow!(mistake))?;
            let met = view.trace_kernel(plan, &packet)?;
            Answer::Packet(Box::new(explain_packet(plan, &packet, &met, KERNEL)))
        }
        Question::Path(question) => Answer::Path(current.path(question)?),
        Question::Connection(question) => Answer::Connection(Box::new(current.connection(question)?)),
        Question::Connections { service, most } => Answer::Connections(current.connections(service.as_deref(), *most)?),
        Question::Difference { manifests } => {
            let options = settings.facts.manifest_options();
            let state = match options.state {
                State::ReadWrite(directory) => State::ReadOnly(directory),
                other => other,
            };
            // Those that the API server has, in a cluster.
            let service_ranges = plan.facts().service_ranges.to_vec();
            let options = Options { paths: manifests.clone(), state, service_ranges, ..options };
            let other = load(options, &settings.traffic.plan, settings.bind_address)?;
            Answer::Difference(difference(plan, &other, &view.difference(plan, &other)))
        }
    })
}
