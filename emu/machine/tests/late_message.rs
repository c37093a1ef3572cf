//! The late-message assertion (`engine.md` K3): at the window W it never fires, and one picosecond
//! beyond it does. That is what shows that the bounds of H1 and H2 are tight, and watched.

#[path = "common/laws.rs"]
mod laws;

use std::panic::{AssertUnwindSafe, catch_unwind};

use emu_machine::{Image, Machine, Options, Stop, Until};
use emu_sim::SimTime;

const STORM: &str = "bench=ipistorm numipi=40 warmup=5 cpulist=0 offset=1";

/// Runs the kernel's storm on a machine whose LLC answers at once, so that the legs alone bound
/// the window, with a window of W and `beyond` picoseconds. The panic's text, if it ends so.
fn storm(beyond: u64, shuffle_host: Option<u64>) -> Result<Stop, String> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../guests/images/x86_64/kern.elf");
    let image = Image::from_elf(&std::fs::read(path).expect("an image"), None).expect("a good one");
    let mut topology = topology::Machine::load("quad", &[]).expect("a machine");
    topology.latency.llc_service = 0;
    let options = Options { mutant_window_ps: beyond, shuffle_host, ..Options::default() };
    let mut machine = Machine::new(&topology, options).expect("it is built");
    machine.load(&image, STORM).expect("the kernel fits");
    let until = Until { time: SimTime::from_us(5_000), regions: false };
    let run = AssertUnwindSafe(|| machine.run(&until, &mut ()));
    let stop = catch_unwind(run);
    if stop.is_ok() {
        laws::check(&machine);
    }
    stop.map_err(|panic| *panic.downcast::<String>().expect("a formatted message"))
}

#[test]
fn no_message_is_late_within_the_window() {
    for shuffle_host in [None, Some(1), Some(2)] {
        assert_eq!(storm(0, shuffle_host), Ok(Stop::Exit { code: 0 }), "{shuffle_host:?}");
    }
}

#[test]
fn a_window_one_picosecond_wider_is_caught() {
    for beyond in [1, 1_000, 20_000] {
        let text = storm(beyond, None).expect_err("a window that is too wide passed");
        assert!(text.contains("late message"), "{beyond}: {text}");
    }
}
