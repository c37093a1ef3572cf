//! Idle states: each exit costs what the machine file says, caches are lost where it says so, and
//! idle cpus cost the host nothing.

use emu_machine::{Machine, Stop, Until};
use emu_observe::{Event, WakeCause};
use emu_sim::{CpuId, PhysAddr, SimTime};
use iced_x86::code_asm::*;

use crate::world::{IRQS, LINE, Rig, Role, Run, VECTOR, cluster, distances, word};

const SLEEPER: CpuId = CpuId(0);
const FIXED: u32 = 0x4000;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Enter {
    Hlt,
    Mwait(u32),
    /// A read of this port.
    Port(u32),
}

/// Sleeps with interrupts on, and reads `word(3)` before and after.
fn sleep(r: &mut Role<'_>, enter: Enter) {
    r.a.mov(rbx, qword_ptr(word(3))).unwrap();
    r.a.lfence().unwrap();
    match enter {
        Enter::Hlt => {
            r.a.sti().unwrap();
            r.a.hlt().unwrap();
        }
        Enter::Mwait(hint) => {
            r.monitor(LINE);
            r.a.mov(eax, hint).unwrap();
            r.a.sti().unwrap();
            r.a.mwait().unwrap();
        }
        Enter::Port(port) => {
            r.a.mov(edx, port).unwrap();
            r.a.sti().unwrap();
            r.a.in_(al, dx).unwrap();
        }
    }
    r.a.inc(qword_ptr(word(0))).unwrap();
    r.a.mov(rbx, qword_ptr(word(3))).unwrap();
    r.a.lfence().unwrap();
}

struct Row {
    machine: &'static str,
    state: &'static str,
    enter: Enter,
    cause: WakeCause,
    exit_ns: u64,
    /// What is left of an entry that cannot be aborted is paid: entry in ns.
    entry_ns: Option<u64>,
}

const fn row(
    machine: &'static str,
    state: &'static str,
    enter: Enter,
    cause: WakeCause,
    exit_ns: u64,
    entry_ns: Option<u64>,
) -> Row {
    Row { machine, state, enter, cause, exit_ns, entry_ns }
}

use WakeCause::{Interrupt, MonitorStore};

#[rustfmt::skip]
const ROWS: [Row; 9] = [
    row("duo",          "hlt", Enter::Hlt,         Interrupt,    800,    None),
    row("duo",          "c1",  Enter::Mwait(0),    MonitorStore, 80,     None),
    row("duo",          "c1",  Enter::Mwait(0),    Interrupt,    400,    None),
    row("duo",          "c6",  Enter::Mwait(0x20), MonitorStore, 40_000, Some(5_000)),
    row("duo",          "c6",  Enter::Mwait(0x20), Interrupt,    40_000, Some(5_000)),
    row("epyc-7763-2s", "hlt", Enter::Hlt,         Interrupt,    900,    None),
    row("epyc-7763-2s", "c1",  Enter::Mwait(0),    MonitorStore, 84,     None),
    row("epyc-7763-2s", "c1",  Enter::Mwait(0),    Interrupt,    400,    None),
    row("epyc-7763-2s", "c2",  Enter::Port(0x814), Interrupt,    22_000, Some(1_000)),
];

fn load(machine: &str) -> topology::Machine {
    let set = if machine == "duo" { vec![] } else { vec!["idle.c2.enabled=true".to_owned()] };
    topology::Machine::load(machine, &set).unwrap()
}

/// Misses of cpu 0 on the line that it reads before and after the wait, after its end.
fn misses_after(run: &Run, exit: SimTime) -> usize {
    let line = PhysAddr(word(3)).line();
    let is_miss = |event: &Event| matches!(event, Event::LineRequest { line: l, .. } if *l == line);
    let late = run.log.0.iter().filter(|r| r.cpu == SLEEPER && r.time >= exit);
    late.filter(|r| is_miss(&r.event)).count()
}

#[test]
fn an_exit_costs_what_the_machine_file_says() {
    for r in ROWS {
        let t = load(r.machine);
        let apic_id = t.cpus[0].apic_id;
        let role_b = |role: &mut Role<'_>| match r.cause {
            Interrupt => role.send(apic_id, FIXED | VECTOR),
            _ => role.a.mov(byte_ptr(LINE), 1).unwrap(),
        };
        let rig = Rig::new(&t, 1, |role| sleep(role, r.enter), role_b);
        let index = t.idle.iter().position(|s| s.name == r.state).expect("a state") as u8;
        // Soon: within the entry. Late: long after it.
        for delay in [1_200, 1_250, 1_300, 60_000] {
            let run = rig.run(0, delay);
            let case = format!("{} {} {:?}, delay {delay}", r.machine, r.state, r.cause);
            let exits = run.exits(SLEEPER);
            assert_eq!((run.word(word(0)), exits.len()), (1, 1), "{case}: {exits:?}");
            let e = exits[0];
            assert_eq!((e.cause, e.state), (r.cause, Some(index)), "{case}");
            assert_eq!(run.word(IRQS), u64::from(r.cause == Interrupt), "{case}");
            let from = match r.entry_ns {
                Some(entry) => e.at.max(e.since + SimTime::from_ns(entry)),
                None => e.at.max(e.since),
            };
            let paid = e.resumes - from;
            let cycle = rig.cycles(1).ps();
            let off = paid.ps().abs_diff(SimTime::from_ns(r.exit_ns).ps());
            // On duo a nanosecond is three cycles; elsewhere it is rounded to the next edge.
            let is_exact = off < if r.machine == "duo" { 1 } else { 2 * cycle };
            assert!(is_exact, "{case}: paid {paid:?} from {from:?}: {e:?}");
            let flushes = t.idle[usize::from(index)].flushes.l2;
            assert_eq!(misses_after(&run, e.at), usize::from(flushes), "{case}: misses");
        }
    }
}

#[test]
fn a_deep_wait_with_a_busy_sibling_is_left_at_once() {
    let t = cluster();
    // The sibling stores itself, so it is up; or it was never started, and another core stores.
    let [sibling, neighbour, ..] = distances(&t);
    for ((name, b), exit_ns) in [(sibling, 80), (neighbour, 40_000)] {
        let role_b = |r: &mut Role<'_>| {
            r.a.mov(byte_ptr(LINE), 1).unwrap();
            r.spend(3000);
        };
        let rig = Rig::new(&t, b, |r| sleep(r, Enter::Mwait(0x20)), role_b);
        let run = rig.run(0, 40_000);
        let e = run.exits(SLEEPER)[0];
        assert_eq!(e.resumes - e.at, SimTime::from_ns(exit_ns), "{name}: {e:?}");
        assert_eq!(misses_after(&run, e.at), usize::from(exit_ns > 80), "{name}");
    }
}

/// Both cpus of an LLC ask for the package; a timer wakes the first.
#[test]
fn a_package_that_goes_down_costs_its_exit_and_its_llc() {
    let run = |flushes: &str, is_sibling_up: bool| {
        let set = ["smp.llc_width=2", "idle.c6.scope=package", flushes];
        let t = topology::Machine::load("smp-4", &set.map(str::to_owned)).unwrap();
        let role_a = |r: &mut Role<'_>| {
            r.apic(0x3e0, 0b1011);
            r.apic(0x320, VECTOR);
            r.apic(0x380, 20_000);
            sleep(r, Enter::Mwait(0x20));
        };
        let role_b = |r: &mut Role<'_>| match is_sibling_up {
            true => r.spend(900_000),
            false => sleep(r, Enter::Mwait(0x20)),
        };
        let run = Rig::new(&t, 1, role_a, role_b).run(0, 0);
        let e = run.exits(SLEEPER)[0];
        assert_eq!(e.cause, Interrupt);
        (e.resumes - e.at, run.machine.line_counters().0[0].up_requests)
    };
    let (kept, all) =
        ("idle.c6.flushes=[\"l1\", \"l2\"]", "idle.c6.flushes=[\"l1\", \"l2\", \"l3\"]");
    let whole = SimTime::from_ns(40_000);
    let ((alone, _), (exit, with_llc), (same, without)) =
        (run(kept, true), run(kept, false), run(all, false));
    assert_eq!((alone, exit, same), (SimTime::from_ns(400), whole, whole));
    assert!(without > with_llc, "{without} lines asked for, {with_llc} with the LLC");
}

#[test]
fn sleeping_cpus_do_nothing_for_a_second() {
    let t = topology::Machine::load("epyc-9654-2s", &[]).unwrap();
    let wait = |r: &mut Role<'_>| {
        let mut again = r.a.create_label();
        r.a.set_label(&mut again).unwrap();
        r.monitor(LINE);
        r.a.mov(eax, 0).unwrap();
        r.a.sti().unwrap();
        r.a.mwait().unwrap();
        r.a.jmp(again).unwrap();
    };
    let role_a = |r: &mut Role<'_>| {
        // A tick every 10 ms keeps the machine from ending as stalled.
        r.apic(0x3e0, 0b1011);
        r.apic(0x320, VECTOR | 1 << 17);
        r.apic(0x380, 1_000_000);
        wait(r);
    };
    let mut machine: Machine = Rig::with_all(&t, role_a, wait).machine;
    let begun = machine.now();
    let settled = Until { time: begun + SimTime::from_us(100), regions: false };
    assert_eq!(machine.run(&settled, &mut ()), Stop::TimeLimit);
    let count = |m: &Machine| -> Vec<u64> {
        (0..m.cpus() as u32).map(|c| m.counters(CpuId(c)).instructions).collect()
    };
    let before = count(&machine);
    let until = Until { time: begun + SimTime::from_us(1_000_000), regions: false };
    assert_eq!(machine.run(&until, &mut ()), Stop::TimeLimit);
    let after = count(&machine);
    assert_eq!(before[1..], after[1..], "cpus that sleep run");
    let ticks = machine.read_guest_u64(IRQS);
    assert!((90..=110).contains(&ticks), "{ticks} ticks");
    assert!(after[0] - before[0] < 40 * ticks, "{} instructions", after[0] - before[0]);
    assert_eq!(machine.check_laws(), Ok(()));
}
