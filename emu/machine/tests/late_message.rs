//! The late-message assertion (`engine.md` K3): at the window W it never fires, on a machine whose
//! LLC answers at once, so that the legs alone bound the window. That it fires one picosecond
//! beyond, and so is watched and tight, is shown by `mutants`.

#[path = "common/trace.rs"]
mod common;

use common::{STORM, difference};
use emu_machine::Options;

#[test]
fn no_message_is_late_within_the_window() {
    let mut topology = common::topology("quad");
    topology.latency.llc_service = 0;
    let run = |shuffle_host| {
        common::trace(&topology, STORM, Options { shuffle_host, ..Options::default() })
    };
    for shuffle_host in [Some(1), Some(2)] {
        assert_eq!(difference(&run(None), &run(shuffle_host)), None, "{shuffle_host:?}");
    }
}
