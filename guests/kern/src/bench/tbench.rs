//! `bench=tbench`: a file server's traffic over streams, without the files.
//!
//! Requests and responses of the sizes of a mix, one after the other; a unit is a byte of either.
//! The mix is assumed, after what dbench plays back: mostly queries and opens of some hundred
//! bytes, some reads and writes of 4 KiB, a read of 64 KiB now and then. A request begins with a
//! byte that ends the connection or does not, and the sizes of itself and of the response.

use super::clients::{self, BUFFER_BYTES, Pair, Side};
use crate::arch::atomic::{AtomicU8, Ordering::Relaxed};
use crate::sock::Kind;

/// Bytes of requests and responses.
const MIX: [(usize, usize); 16] = [
    (104, 136),
    (88, 107),
    (76, 84),
    (88, 107),
    (104, 136),
    (63, 4160),
    (76, 84),
    (88, 107),
    (4160, 51),
    (88, 107),
    (104, 136),
    (45, 39),
    (63, BUFFER_BYTES),
    (76, 84),
    (4160, 51),
    (45, 39),
];

/// Bytes of the head of a request: end, bytes of the request, bytes of the response.
const HEAD_BYTES: usize = 9;

/// Runs the benchmark; returns the exit code.
pub(super) fn run() -> u64 {
    clients::run(Kind::Stream, request, respond)
}

extern "C" fn request(pair: &'static Pair) {
    let mut at = 0;
    let transact = |side: &Side| {
        let (request, response) = MIX[at % MIX.len()];
        at += 1;
        put_number(&side.buffer[1..], request);
        put_number(&side.buffer[5..], response);
        side.buffer[0].store(0, Relaxed);
        side.sock.send(&side.buffer[..request]);
        side.sock.recv_all(&side.buffer[..response]);
        (request + response) as u64
    };
    pair.be_client(transact, 1, |side| {
        put_number(&side.buffer[1..], HEAD_BYTES);
        side.sock.send(&side.buffer[..HEAD_BYTES]);
    });
}

extern "C" fn respond(pair: &'static Pair) {
    pair.be_server(|side| {
        side.sock.recv_all(&side.buffer[..HEAD_BYTES]);
        let [request, response] = [1, 5].map(|at| get_number(&side.buffer[at..]));
        side.sock.recv_all(&side.buffer[HEAD_BYTES..request]);
        side.goes_on() && side.sock.send(&side.buffer[..response])
    });
}

fn put_number(bytes: &[AtomicU8], number: usize) {
    for (byte, value) in bytes.iter().zip((number as u32).to_le_bytes()) {
        byte.store(value, Relaxed);
    }
}

fn get_number(bytes: &[AtomicU8]) -> usize {
    (0..4).fold(0, |number, at| number | usize::from(bytes[at].load(Relaxed)) << (8 * at))
}
