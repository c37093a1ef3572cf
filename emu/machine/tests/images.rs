//! The freestanding guests build with the compilers of the host system, load, and run: good ones
//! on 1 to 384 CPUs, and bad ones to an end that says what was wrong.

#[path = "common/guest.rs"]
mod guest;

use std::path::Path;

use emu_machine::load::{Image, LoadError};
use emu_machine::{Options, Stop, Until, fdt, handover};
use emu_observe::{Event, Observer, Record, Wanted};
use emu_sim::{CpuId, SimTime};
use topology::{Isa, Machine};

const GUESTS: [&str; 10] =
    ["smp", "hello", "nowhere", "triple", "halt", "print", "unmapped", "hole", "spin", "umwait"];

#[test]
fn every_guest_builds_loads_and_fits_beside_the_handover() {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let machine = Machine::load("epyc-9654-2s", &[]).expect("a shipped machine");
    let tree = fdt::build(&machine, machine.cpus.len(), "").expect("a device tree");
    for toolchain in guest::toolchains() {
        for name in GUESTS {
            let what = format!("{name} by {}", toolchain.name());
            let elf = toolchain.build(name, &[], out);
            let image = Image::from_elf(&elf, Some(Isa::X86_64)).expect(&what);
            assert_eq!(image.symbols.describe(image.entry.0), "start", "{what}");
            assert!(image.symbols.find("run").is_some(), "{what}");
            let state = handover::x86(&machine, image.entry, tree.clone()).expect(&what);
            image.check_placement(&machine.ram(), &state.reserved).expect(&what);
        }
    }
}

#[test]
fn flags_reach_the_compiler() {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR"));
    for toolchain in guest::toolchains() {
        let codes = ["-DEXIT_CODE=0", "-DEXIT_CODE=7"];
        let [pass, fail] = codes.map(|code| toolchain.build("hello", &[code], out));
        assert_ne!(pass, fail);
    }
}

#[test]
fn a_32_bit_guest_is_refused() {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR"));
    for toolchain in guest::toolchains() {
        let elf = toolchain.build_32(out);
        let found = Image::from_elf(&elf, Some(Isa::X86_64)).map(|_| ());
        assert_eq!(found, Err(LoadError::Class { found: 1 }));
    }
}

/// Keeps what is reported to people: no wakes, no lines.
#[derive(Default)]
struct Reports(Vec<Event>);

impl Observer for Reports {
    fn wanted(&self) -> Wanted {
        Wanted::default()
    }
    fn record(&mut self, r: &Record) {
        let is_report = matches!(
            r.event,
            Event::UnknownRegister { .. } | Event::Unimplemented { .. } | Event::Shutdown { .. }
        );
        if is_report {
            self.0.push(r.event);
        }
    }
}

struct Run {
    stop: Stop,
    console: String,
    reports: Vec<Event>,
    machine: emu_machine::Machine,
    image: Image,
}

fn load(machine: &str) -> Machine {
    Machine::load(machine, &[]).expect("a shipped or generated machine")
}

/// Builds and runs one guest; whatever comes out, the machine's laws hold.
fn run(by: &guest::Toolchain, topology: &Machine, name: &str, flags: &[&str], us: u64) -> Run {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let elf = by.build(name, flags, out);
    let image = Image::from_elf(&elf, Some(Isa::X86_64)).expect(name);
    let options = Options { max_output: 1000, ..Options::default() };
    let mut machine = emu_machine::Machine::new(topology, options).expect("a machine");
    machine.load(&image, "").expect("the image fits");
    let mut reports = Reports::default();
    let until = Until { time: SimTime::from_us(us), regions: false };
    let stop = machine.run(&until, &mut reports);
    assert_eq!(machine.check_laws(), Ok(()));
    let console = String::from_utf8(machine.console().to_vec()).expect("text");
    Run { stop, console, reports: reports.0, machine, image }
}

/// Ends of guests by name, flags, machine and time limit in us.
fn check_end(
    name: &str,
    flags: &[&str],
    (machine, us): (&str, u64),
    mut check: impl FnMut(&Run, &str),
) {
    for toolchain in guest::toolchains() {
        let r = run(&toolchain, &load(machine), name, flags, us);
        let case = format!("{name} by {} on {machine}: {:?}", toolchain.name(), r.stop);
        check(&r, &case);
    }
}

#[test]
fn the_exit_code_is_the_guests() {
    for (flag, code) in [("-DEXIT_CODE=0", 0), ("-DEXIT_CODE=7", 7), ("-DEXIT_CODE=300", 300)] {
        check_end("hello", &[flag], ("duo", 1_000), |r, case| {
            assert_eq!(r.stop, Stop::Exit { code }, "{case}");
            assert_eq!(r.console, "hello from com1\nhello from the test device\n", "{case}");
        });
    }
}

#[test]
fn a_fault_without_handler_names_its_cpu_and_place() {
    // (guest, address at which it shuts down, or `None`: in `run`)
    for (name, at) in [("nowhere", Some(0x1234_5678_9000)), ("triple", None), ("unmapped", None)] {
        check_end(name, &[], ("quad", 1_000), |r, case| {
            let Stop::GuestFault { cpu, pc, what } = &r.stop else { panic!("{case}") };
            assert_eq!(*cpu, CpuId(0), "{case}");
            match at {
                Some(at) => assert_eq!(*pc, at, "{case}"),
                None => {
                    let place = r.image.symbols.describe(*pc);
                    assert!(place.starts_with("run") || place.starts_with("start"), "{place}");
                }
            }
            assert!(what.contains("triple fault"), "{case}");
            assert_eq!(r.reports, [Event::Shutdown { pc: *pc }], "{case}");
        });
    }
}

#[test]
fn guests_that_never_end_are_ended() {
    check_end("halt", &[], ("quad", 1_000), |r, case| {
        assert_eq!(r.stop, Stop::Stalled, "{case}");
        assert_eq!(r.console, "halting\n", "{case}");
        let now = r.machine.now();
        assert!(now > SimTime::ZERO && now < SimTime::from_us(1_000), "{case}: {now:?}");
    });
    check_end("print", &[], ("duo", 1_000_000), |r, case| {
        assert_eq!(r.stop, Stop::OutputLimit, "{case}");
        // What is written before the stop takes effect is beyond the limit.
        assert_eq!(r.console.len(), 1000, "{case}");
    });
    check_end("spin", &[], ("duo", 10_000_000), |r, case| {
        assert_eq!(r.stop, Stop::TimeLimit, "{case}");
        assert_eq!(r.machine.now(), SimTime::from_us(10_000_000), "{case}");
        let c = r.machine.counters(CpuId(0));
        assert!(c.elided > 100_000_000 && c.instructions - c.elided < 100_000, "{case}: {c:?}");
    });
}

#[test]
fn accesses_that_nobody_answers_are_reported_once() {
    check_end("hole", &[], ("duo", 1_000), |r, case| {
        assert_eq!(r.stop, Stop::Exit { code: 0 }, "{case}");
        let unknown = |addr: u64, write: bool| Event::UnknownRegister { addr, write };
        let (hole, register) = (0xd000_0000, 0xfed8_0ff0);
        let wanted = [
            unknown(hole, true),
            unknown(hole, false),
            unknown(register, true),
            unknown(register, false),
        ];
        assert_eq!(r.reports, wanted, "{case}");
    });
}

#[test]
fn user_waits_work_where_the_machine_has_them() {
    for (machine, code) in [("duo", 0), ("epyc-7763-2s", 9)] {
        check_end("umwait", &[], (machine, 10_000), |r, case| {
            assert_eq!(r.stop, Stop::Exit { code }, "{case}: {}", r.console);
        });
    }
}

#[test]
fn an_image_that_does_not_fit_says_why() {
    // A machine without memory where the image wants to be: its message names both.
    let out = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let set = ["memory.per_node=16MiB".to_owned()];
    for toolchain in guest::toolchains() {
        let elf = toolchain.build("hello", &[], out);
        let mut image = Image::from_elf(&elf, Some(Isa::X86_64)).expect("hello");
        let last = image.segments.last_mut().expect("a segment");
        last.base = emu_sim::PhysAddr(0x2000_0000);
        let topology = Machine::load("duo", &set).expect("a small machine");
        let mut machine =
            emu_machine::Machine::new(&topology, Options::default()).expect("a machine");
        let error = machine.load(&image, "").expect_err("it cannot fit");
        let text = format!("{error}: {}", std::error::Error::source(&error).expect("a reason"));
        assert!(text.contains("0x20000000"), "{text}");
    }
}
