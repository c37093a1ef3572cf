//! `bench=sysbench`: transactions of a database as messages and time.
//!
//! A transaction is 16 requests, as the read-only mix has them (begin, 10 selects of a row, 4 of
//! ranges, commit). The server of the client works on each for a time of exponential distribution
//! around `think_ns`, then answers. A unit is a transaction. Not modelled: data, locks, disks.

use guests_sched::exponential;

use super::clients::{self, Pair, Side};
use crate::rng::Rng;
use crate::sock::Kind;
use crate::start::config;
use crate::{testdev, work};

/// Requests of a transaction.
const REQUESTS: u64 = 16;
/// Bytes of a request; assumed, a short statement.
const REQUEST_BYTES: usize = 64;
/// Bytes of a response; assumed, a row.
const RESPONSE_BYTES: usize = 256;

/// Runs the benchmark; returns the exit code.
pub(super) fn run() -> u64 {
    clients::run(Kind::Stream, transact, serve)
}

extern "C" fn transact(pair: &'static Pair) {
    let transaction = |side: &Side| {
        for _ in 0..REQUESTS {
            side.sock.send(&side.buffer[..REQUEST_BYTES]);
            side.sock.recv_all(&side.buffer[..RESPONSE_BYTES]);
        }
        1
    };
    pair.be_client(transaction, REQUESTS, |side| {
        side.sock.send(&side.buffer[..REQUEST_BYTES]);
    });
}

extern "C" fn serve(pair: &'static Pair) {
    let mut rng = None;
    pair.be_server(|side| {
        side.sock.recv_all(&side.buffer[..REQUEST_BYTES]);
        // The seed can be read since the region has begun.
        let rng = rng.get_or_insert_with(|| Rng::new(testdev::seed(), pair.id));
        let uniform = rng.up_to(u64::from(u32::MAX)) as u32;
        let think_ns = exponential::sample(uniform, config().messages.think_ns);
        side.goes_on() && {
            work::for_ns(think_ns);
            side.sock.send(&side.buffer[..RESPONSE_BYTES])
        }
    });
}
