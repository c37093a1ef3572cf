//! Clients, each with a server of its own: what `netperf`, `tbench` and `sysbench` have in common.
//!
//! Each pair has one connection. A client makes transactions for `duration_us`; a unit is what the
//! bench counts. Its last message says that it is over, and the server checks that it has served
//! as many requests as the client has made.

use guests_abi::block::SampleKind;
use guests_abi::class::LineClass;
use guests_sched::preempt::Class;

use super::gate::Crowd;
use crate::arch::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use crate::console::die;
use crate::samples::{Series, SeriesTable};
use crate::sock::{self, Kind, Sock};
use crate::start::config;
use crate::{machine, memory, task, testdev};

/// First byte of the message that ends a connection; of all others it is 0.
pub(super) const OVER: u8 = 1;

/// Bytes of the buffer of a thread, and so of its longest message.
pub(super) const BUFFER_BYTES: usize = 65_536;

/// A client and its server.
pub(super) struct Pair {
    crowd: &'static Crowd,
    /// Number of the pair.
    pub(super) id: usize,
    client: Sock,
    server: Sock,
    buffers: [&'static [AtomicU8]; 2],
    series: Series,
    /// Requests that the client has made.
    requests: AtomicU64,
}

/// One side of a pair, as its thread sees it.
pub(super) struct Side {
    pub(super) sock: Sock,
    pub(super) buffer: &'static [AtomicU8],
}

type Thread = extern "C" fn(&'static Pair);

/// Runs clients and servers; returns the exit code.
pub(super) fn run(kind: Kind, client: Thread, server: Thread) -> u64 {
    let messages = config().messages;
    let clients = match messages.clients {
        0 => (machine::cpu_count() * messages.load_percent / 100).max(1),
        clients => clients,
    };
    let crowd = Crowd::new(2 * clients);
    let table = SeriesTable::publish(clients);
    for id in 0..clients {
        let cpu = task::idlest_cpu();
        let node = machine::node(cpu);
        let [client_sock, server_sock] = sock::pair(kind, node, messages.window);
        let pair = Pair {
            crowd,
            id,
            client: client_sock,
            server: server_sock,
            buffers: [(); 2].map(|()| new_buffer(node)),
            series: table.define(id, SampleKind::Units, cpu, cpu, 1),
            requests: AtomicU64::new(0),
        };
        let pair = memory::alloc_value(node, pair);
        task::kthread_run_unbound(cpu, Class::Normal, client, pair);
        task::kthread_run_unbound(task::idlest_cpu(), Class::Normal, server, pair);
    }
    crowd.run_for(config().duration_us);
    guests_abi::exit::PASS
}

fn new_buffer(node: usize) -> &'static [AtomicU8] {
    let buffer = memory::alloc_bytes(node, BUFFER_BYTES, 64);
    testdev::declare_lines(buffer.as_ptr() as u64, BUFFER_BYTES, LineClass::Bench);
    buffer
}

impl Pair {
    /// Makes transactions until the time is over, then `finish` tells the server. `transact`
    /// returns how many units it has done.
    pub(super) fn be_client(
        &self,
        mut transact: impl FnMut(&Side) -> u64,
        requests_each: u64,
        finish: impl FnOnce(&Side),
    ) {
        let side = Side { sock: self.client, buffer: self.buffers[0] };
        self.series.touch();
        self.series.finish(1);
        self.crowd.enter();
        let (mut units, mut requests) = (0, 0);
        side.buffer[0].store(0, Relaxed);
        while !self.crowd.is_over() {
            units += transact(&side);
            requests += requests_each;
            self.series.record(0, units);
        }
        self.requests.store(requests, Relaxed);
        side.buffer[0].store(OVER, Relaxed);
        finish(&side);
        self.crowd.leave();
    }

    /// Serves requests until `serve` returns that it was told that they are over.
    pub(super) fn be_server(&self, mut serve: impl FnMut(&Side) -> bool) {
        let side = Side { sock: self.server, buffer: self.buffers[1] };
        self.crowd.enter();
        let mut served = 0;
        while serve(&side) {
            served += 1;
        }
        // The message that has ended it came behind what the client has stored.
        let requests = self.requests.load(Relaxed);
        if served != requests {
            die!(FAIL, "client {}: {requests} requests, {served} served", self.id);
        }
        self.crowd.leave();
    }
}

impl Side {
    /// Whether the message in the buffer is not the one that ends the connection.
    pub(super) fn goes_on(&self) -> bool {
        self.buffer[0].load(Relaxed) != OVER
    }
}
