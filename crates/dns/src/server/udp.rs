//! One thread per socket. Queries for cluster names are answered at once; the rest is handed to the runtime.
//!
//! A thread that falls behind drops queries of the clients that send most, before it looks at them: the kernel would
//! drop those of all clients alike.

use std::io;
use std::net::{IpAddr, UdpSocket};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use tokio::runtime::Handle;

use crate::published::{Published, Reader};
use crate::resolve::{Client, Deferred, Handled, PanicGuard, Resolver, ThreadState};
use crate::system::datagrams::{self, Batch, Received};

/// Queries are short; a longer datagram is truncated, and rejected as malformed.
const MAX_QUERY: usize = 2048;
/// Datagrams that are received at once.
const BATCH: usize = 64;
/// After so many full batches in a row the queue is nearly full: the thread is behind.
const BEHIND: usize = 4;
/// The datagrams of one client in one batch that are served while the thread is behind.
const SHARE: usize = 4;
const STACK: usize = 256 * 1024;

pub(super) fn serve(
    socket: UdpSocket,
    current: Arc<Published<Resolver>>,
    runtime: Handle,
    stop: Arc<AtomicBool>,
) -> io::Result<JoinHandle<()>> {
    let work = move || {
        if let Some(resolver) = current.current() {
            Worker::new(socket, resolver, Reader::new(current), runtime).work(&stop);
        }
    };
    thread::Builder::new().name("dns".into()).stack_size(STACK).spawn(work)
}

struct Worker {
    socket: Arc<UdpSocket>,
    resolver: Arc<Resolver>,
    current: Reader<Resolver>,
    runtime: Handle,
    state: ThreadState,
    answer: Vec<u8>,
}

impl Worker {
    fn new(socket: UdpSocket, resolver: Arc<Resolver>, current: Reader<Resolver>, runtime: Handle) -> Self {
        let state = resolver.thread_state();
        Self { socket: Arc::new(socket), resolver, current, runtime, state, answer: Vec::with_capacity(MAX_QUERY) }
    }

    fn work(&mut self, stop: &AtomicBool) {
        let mut batch = Batch::<BATCH, MAX_QUERY>::default();
        let mut full_batches = 0;
        while !stop.load(Ordering::Relaxed) {
            // An error is a receive timeout, or an ICMP error for an earlier response.
            let received = batch.receive(&self.socket).unwrap_or(0);
            follow(&mut self.current, &mut self.resolver, &mut self.state);
            full_batches = if received == BATCH { full_batches + 1 } else { 0 };
            self.serve_batch(&batch, received, full_batches > BEHIND);
        }
    }

    fn serve_batch(&mut self, batch: &Batch<BATCH, MAX_QUERY>, received: usize, is_behind: bool) {
        let mut served: Vec<(IpAddr, usize)> = Vec::new();
        for (message, received) in (0..received).filter_map(|index| batch.get(index).ok()) {
            if is_behind && !has_share(&mut served, received.from.ip()) {
                self.resolver.note_shed();
                continue;
            }
            self.handle_safely(message, received);
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
            Handled::Deferred(deferred) => self.defer(deferred, received),
        }
    }

    fn defer(&self, mut deferred: Box<Deferred>, received: Received) {
        let (socket, resolver) = (self.socket.clone(), self.resolver.clone());
        self.runtime.spawn(async move {
            let _guard = PanicGuard(resolver.clone());
            let answer = resolver.finish(&mut deferred).await;
            send(&socket, &answer, received);
        });
    }
}

/// Uses the resolver with the settings in force.
pub(super) fn follow(current: &mut Reader<Resolver>, resolver: &mut Arc<Resolver>, state: &mut ThreadState) {
    match current.value() {
        Some(newest) if !Arc::ptr_eq(newest, resolver) => {
            *resolver = newest.clone();
            resolver.adopt(state);
        }
        _ => {}
    }
}

/// Whether the client has had less than its share of this batch.
fn has_share(served: &mut Vec<(IpAddr, usize)>, client: IpAddr) -> bool {
    match served.iter_mut().find(|(known, _)| *known == client) {
        Some((_, count)) => {
            *count += 1;
            *count <= SHARE
        }
        None => {
            served.push((client, 1));
            true
        }
    }
}

/// The response is sent from the address that the query was sent to. A client that is unreachable is not an error.
fn send(socket: &UdpSocket, answer: &[u8], received: Received) {
    if let Err(error) = datagrams::send(socket, answer, received) {
        tracing::debug!("answering {}: {error}", received.from);
    }
}
