//! `litmus`: the text of a litmus test, or lines of a corpus of them.
//!
//! A test that is read is enumerated, if it is small, and assembled.

use tests_litmus::guest::{Seats, build};
use tests_litmus::tso::{Partial, allowed};
use tests_litmus::{corpus, plan, syntax};

use crate::read_error;

/// Largest test that is enumerated, in instructions; states grow exponentially with them.
const OPS_MAX: usize = 6;
/// Iterations of the image.
const ITERATIONS: usize = 2;

pub(crate) fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if text.starts_with('{') {
        if let Err(message) = corpus::corpus(text) {
            assert!(!message.is_empty());
        }
        return;
    }
    let test = match syntax::parse(text) {
        Ok(test) => test,
        Err(error) => return read_error(&error),
    };
    if test.threads.iter().map(Vec::len).sum::<usize>() <= OPS_MAX {
        let outcomes = allowed(&test, Partial::Merge);
        assert!(outcomes.is_superset(&allowed(&test, Partial::Drain)), "{text}");
        assert!(outcomes.iter().all(|outcome| !test.text(outcome).is_empty()), "{text}");
    }
    let plan = plan::draw(&test, &[0x1000_0000], 1, ITERATIONS);
    let seats = (0..test.threads.len()).map(|n| (n, n as u32)).collect();
    build(&test, &plan, &Seats { seats, is_x2apic: true }).expect("a test can be assembled");
}
