//! `litmus`: the text of a litmus test, or lines of a corpus of them.
//!
//! A test that is read is enumerated, if it is small, and assembled.

use tests_litmus::guest::{Seats, build};
use tests_litmus::judge::Allowed;
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
    if test.program.instructions() <= OPS_MAX {
        match Allowed::of(&test) {
            Ok(allowed) => {
                assert!(allowed.ruled_out.is_subset(&allowed.states), "{text}");
                assert!(allowed.states.iter().all(|o| !test.text(o).is_empty()), "{text}");
            }
            Err(message) => assert!(!message.is_empty()),
        }
    }
    let plan = plan::draw(&test, &[0x1000_0000], 1, ITERATIONS);
    let seats = (0..test.program.threads()).map(|n| (n, n as u64)).collect();
    build(&test, &plan, &Seats { seats, ram: 0, is_x2apic: true })
        .expect("a test can be assembled");
}
