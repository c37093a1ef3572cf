//! `bench=netperf`: request and response by datagrams or streams, or a stream one way.
//!
//! The tool's UDP_RR and TCP_RR: a byte goes to the server and a byte comes back; a unit is such a
//! transaction. TCP_STREAM: writes of 16 KiB that wait for the window only; a unit is a byte.

use super::clients::{self, Pair, Side};
use crate::config::NetperfTest;
use crate::sock::Kind;
use crate::start::config;

/// Bytes of a write of TCP_STREAM.
const WRITE_BYTES: usize = 16 * 1024;

/// Runs the benchmark; returns the exit code.
pub(super) fn run() -> u64 {
    match config().messages.netperf_test {
        NetperfTest::UdpRr => clients::run(Kind::Datagram, request, respond),
        NetperfTest::TcpRr => clients::run(Kind::Stream, request, respond),
        NetperfTest::TcpStream => clients::run(Kind::Stream, write, read),
    }
}

extern "C" fn request(pair: &'static Pair) {
    let transact = |side: &Side| {
        side.sock.send(&side.buffer[..1]);
        side.sock.recv(&side.buffer[..1]);
        1
    };
    pair.be_client(transact, 1, |side| {
        side.sock.send(&side.buffer[..1]);
    });
}

extern "C" fn respond(pair: &'static Pair) {
    pair.be_server(|side| {
        side.sock.recv(&side.buffer[..1]);
        side.goes_on() && side.sock.send(&side.buffer[..1])
    });
}

extern "C" fn write(pair: &'static Pair) {
    let transact = |side: &Side| {
        side.sock.send(&side.buffer[..WRITE_BYTES]);
        WRITE_BYTES as u64
    };
    pair.be_client(transact, 1, |side| {
        side.sock.send(&side.buffer[..WRITE_BYTES]);
    });
}

extern "C" fn read(pair: &'static Pair) {
    pair.be_server(|side| {
        side.sock.recv_all(&side.buffer[..WRITE_BYTES]);
        side.goes_on()
    });
}
