//! One thread per socket. Queries for cluster names are answered at once; the rest is handed to the runtime.

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use portolan_kernel::datagram::{self, Received};
use tokio::runtime::Handle;

use crate::resolve::{Client, Handled, Resolver, ThreadState};

/// Queries are short; a longer datagram is truncated, and rejected as malformed.
const MAX_QUERY: usize = 4096;
const STACK: usize = 256 * 1024;

pub(super) fn serve(
    socket: UdpSocket,
    resolver: Arc<Resolver>,
    runtime: Handle,
    stop: Arc<AtomicBool>,
) -> io::Result<JoinHandle<()>> {
    let work = move || Worker::new(socket, resolver, runtime).work(&stop);
    thread::Builder::new().name("dns".into()).stack_size(STACK).spawn(work)
}

struct Worker {
    socket: Arc<UdpSocket>,
    resolver: Arc<Resolver>,
    runtime: Handle,
    state: ThreadState,
    answer: Vec<u8>,
}

impl Worker {
    fn new(socket: UdpSocket, resolver: Arc<Resolver>, runtime: Handle) -> Self {
        let state = resolver.thread_state();
        Self { socket: Arc::new(socket), resolver, runtime, state, answer: Vec::with_capacity(MAX_QUERY) }
    }

    fn work(&mut self, stop: &AtomicBool) {
        let mut buffer = [0; MAX_QUERY];
        while !stop.load(Ordering::Relaxed) {
            // An error is a receive timeout, or an ICMP error for an earlier response.
            let Ok(received) = datagram::receive(self.socket.as_fd(), &mut buffer) else { continue };
            self.handle_safely(&buffer[..received.length], received);
        }
    }

    /// A query that causes a panic must not affect other queries.
    fn handle_safely(&mut self, message: &[u8], received: Received) {
        let handled = catch_unwind(AssertUnwindSafe(|| self.handle(message, received)));
        if handled.is_err() {
            self.resolver.note_panic(message);
        }
    }

    fn handle(&mut self, message: &[u8], received: Received) {
        let client = Client { address: received.from, is_tcp: false };
        match self.resolver.handle(&mut self.state, message, client, &mut self.answer) {
            Handled::Answered => send(&self.socket, &self.answer, received),
            Handled::Ignored => {}
            Handled::Deferred => self.defer(message.to_vec(), client, received),
        }
    }

    fn defer(&self, message: Vec<u8>, client: Client, received: Received) {
        let (socket, resolver) = (self.socket.clone(), self.resolver.clone());
        self.runtime.spawn(async move {
            let answer = resolver.finish(&mut resolver.task_state(), &message, client).await;
            send(&socket, &answer, received);
        });
    }
}

/// The response is sent from the address that the query was sent to. A client that is unreachable is not an error.
fn send(socket: &UdpSocket, answer: &[u8], received: Received) {
    if let Err(error) = datagram::send(socket.as_fd(), answer, received.from, received.at) {
        tracing::debug!("answering {}: {error}", received.from);
    }
}
