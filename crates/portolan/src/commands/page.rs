//! The page, beside a running daemon or from manifests.

use std::path::PathBuf;
use std::sync::Arc;

use portolan_page::{Ask, Question as PageQuestion, Reply};

use super::write_out;
use crate::control::{Answer, Question, query};
use crate::daemon::runtime;
use crate::flags::PageFlags;
use crate::page::Followed;
use crate::settings::{PageSettings, QuestionSettings};

/// Serves until the process is stopped.
pub fn page(flags: &PageFlags) -> anyhow::Result<u8> {
    let settings = PageSettings::new(flags.listen, flags.token_file.as_deref())?;
    let ask = match flags.settings.manifests.manifests.is_empty() {
        true => beside(flags.control.control_socket.clone())?,
        false => Followed::start(QuestionSettings::read(&flags.settings)?)?.ask(),
    };
    let page = settings.open_now(ask, &runtime::start()?)?;
    let address = page.address().unwrap_or(flags.listen);
    let token = if flags.token_file.is_some() { "?token=TOKEN" } else { "" };
    write_out(&format!("the page is at http://{address}/{token} (end with Ctrl-C)\n"))?;
    loop {
        std::thread::park();
    }
}

/// A daemon that does not answer is an error at the start. Later it may be restarting.
fn beside(control_socket: PathBuf) -> anyhow::Result<Ask> {
    query(&control_socket, &Question::Page(PageQuestion::Overview))?;
    Ok(Arc::new(move |question| match query(&control_socket, &Question::Page(question.clone())) {
        Ok(Answer::Page(reply)) => reply,
        Ok(_) => Reply::error(502, "the daemon is of another version"),
        Err(error) => Reply::error(502, &format!("{error:#}")),
    }))
}
