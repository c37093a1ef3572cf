//! WFE, WFI and kin.

use emu_arm64::code::CodeCache;
use emu_arm64::ctx::{Hint, Next};
use emu_arm64::defs::{Ec, Features, sctlr};
use emu_arm64::sysreg::Cell;
use emu_cpu::isa::{Isa, Received};
use emu_cpu::port::{Space, Target};
use emu_cpu::wait::{Signal, WaitReason, WakeCause};
use emu_sim::SimTime;

use crate::world::*;

fn request(next: Next) -> emu_cpu::wait::WaitRequest {
    match next {
        Next::Sleep(request) => request,
        other => panic!("{other:?} is no wait"),
    }
}

/// Opens the GIC to SGIs; makes one pending.
fn interrupt(world: &mut World) {
    world.cpu.gic.redistributor.write(0x14, 4, 0);
    world.cpu.gic.redistributor.write(0x1_0080, 4, u64::MAX);
    world.cpu.gic.redistributor.write(0x1_0100, 4, u64::MAX);
    world.cpu.gic.write(emu_arm64::gic::IccReg::Igrpen(1), 1);
    world.cpu.gic.write(emu_arm64::gic::IccReg::Pmr, 0xf0);
    let signal = Signal::Interrupt { vector: 1, level: false, logical: None };
    world.cpu.receive(signal, SimTime::ZERO);
}

#[test]
fn an_event_makes_one_wait_fall_through() {
    for hint in [Hint::Sev, Hint::Sevl] {
        let mut world = World::new();
        world.run(&Hinted { hint }).unwrap();
        assert_eq!(world.run(&Hinted { hint: Hint::Wfe }), Ok(Next::Seq));
        let wait = request(world.run(&Hinted { hint: Hint::Wfe }).unwrap());
        assert_eq!((wait.reason, wait.state, wait.wake_on_masked), (WaitReason::Halt, None, false));
    }
}

#[test]
fn a_reserved_line_is_what_is_waited_for() {
    let mut world = World::new();
    world.run(&LoadExclusive { va: PAGE, size: 8 }).unwrap();
    let wait = request(world.run(&Hinted { hint: Hint::Wfe }).unwrap());
    assert_eq!(wait.reason, WaitReason::Monitor);
}

#[test]
fn masked_interrupts_end_wfi_and_not_wfe() {
    let mut world = World::new();
    world.cpu.state.pstate.daif = 0x80;
    let wfi = request(world.run(&Hinted { hint: Hint::Wfi }).unwrap());
    assert_eq!((wfi.reason, wfi.state), (WaitReason::Halt, Some(1)));
    let wfe = request(world.run(&Hinted { hint: Hint::Wfe }).unwrap());
    assert_eq!(world.cpu.wake_cause(&wfi), None);
    interrupt(&mut world);
    assert_eq!(world.cpu.wake_cause(&wfi), Some(WakeCause::Interrupt));
    assert_eq!(world.cpu.wake_cause(&wfe), None);
    world.cpu.state.pstate.daif = 0;
    assert_eq!(world.cpu.wake_cause(&wfe), Some(WakeCause::Interrupt));
    assert_eq!(world.run(&Hinted { hint: Hint::Wfi }), Ok(Next::Seq), "pending already");
}

#[test]
fn limits_and_the_event_stream_are_deadlines() {
    let mut world = World::new();
    world.port.time_step = SimTime(0);
    world.port.now = SimTime::from_us(1);
    // 25 counts by now; X5 is 100 counts.
    world.cpu.state.x[5] = 100;
    let wfit = request(world.run(&Hinted { hint: Hint::Wfit(5) }).unwrap());
    assert_eq!(wfit.deadline, Some(SimTime::from_us(4)));
    // Event stream on bit 4, rising: counts 16, 48, ...
    world.cpu.sys[Cell::CntkctlEl1] = 4 << 4 | 1 << 2;
    assert_eq!(world.run(&Hinted { hint: Hint::Wfet(5) }), Ok(Next::Seq), "one was at 16");
    let wfet = request(world.run(&Hinted { hint: Hint::Wfet(5) }).unwrap());
    assert_eq!(wfet.deadline, Some(SimTime(48 * 40_000)), "the stream is first");
    world.port.now = SimTime::from_us(4);
    assert_eq!(world.run(&Hinted { hint: Hint::Wfit(5) }), Ok(Next::Seq), "over");
}

#[test]
fn without_the_feature_a_wait_with_a_time_is_undefined() {
    for hint in [Hint::Wfet(5), Hint::Wfit(5)] {
        let mut world = World::with(Features::all() - Features::WFXT, 1);
        assert_eq!(world.run(&Hinted { hint }).unwrap_err().class, Ec::Unknown, "{hint:?}");
    }
}

#[test]
fn el0_traps_unless_it_is_allowed() {
    for (hint, bit, ti) in [
        (Hint::Wfi, sctlr::NTWI, 0),
        (Hint::Wfe, sctlr::NTWE, 1),
        (Hint::Wfit(5), sctlr::NTWI, 2 | 5 << 5 | 1 << 2),
        (Hint::Wfet(5), sctlr::NTWE, 3 | 5 << 5 | 1 << 2),
    ] {
        let mut world = World::new();
        world.cpu.state.x[5] = 1 << 40;
        world.at_level(0);
        let trap = world.run(&Hinted { hint }).unwrap_err();
        assert_eq!((trap.class, trap.iss, trap.level), (Ec::Wfx, 0x1e0_0000 | ti, 1), "{hint:?}");
        world.cpu.sys[Cell::SctlrEl1] |= bit;
        assert!(matches!(world.run(&Hinted { hint }), Ok(Next::Sleep(_))), "{hint:?}");
    }
}

#[test]
fn timers_assert_their_interrupts() {
    use emu_arm64::defs::SysReg;
    let virt = |op2| SysReg::new(3, 3, 14, 3, op2);
    let mut world = World::new();
    world.port.time_step = SimTime(0);
    world.run(&Msr { reg: virt(2), value: 100 }).unwrap();
    world.run(&Msr { reg: virt(1), value: 1 }).unwrap();
    assert_eq!(world.port.timer, Some(SimTime::from_us(4)));
    assert_eq!(world.cpu.gic.redistributor.pending(), 0);
    assert_eq!(world.cpu.timer(SimTime::from_us(4)), None);
    assert_eq!(world.cpu.gic.redistributor.pending(), 1 << 27);
    world.port.now = SimTime::from_us(5);
    world.run(&Msr { reg: virt(1), value: 3 }).unwrap();
    assert_eq!(world.cpu.gic.redistributor.pending(), 0, "masked: the level falls");
}

#[test]
fn firmware_answers_and_suspends() {
    use emu_arm64::ctx::Call;
    let call = Do { call: Call::Hvc(0) };
    let mut world = World::new();
    world.cpu.state.x[0] = 0x8400_0000;
    assert_eq!(world.run(&call), Ok(Next::Seq));
    assert_eq!(world.cpu.state.x[0], 0x1_0001);
    // CPU_SUSPEND: original format, and coordinated by the platform only: no PSCI_SET_SUSPEND_MODE.
    for (asked, answer) in [([0x8400_000a, 0xc400_0001], 0), ([0x8400_000f, 1], u64::MAX)] {
        world.cpu.state.x[..2].copy_from_slice(&asked);
        assert_eq!(world.run(&call), Ok(Next::Seq));
        assert_eq!(world.cpu.state.x[0], answer, "{asked:x?}");
    }
    world.cpu.state.x[..4].copy_from_slice(&[0xc400_0001, 0x1_0002, PAGE, 7]);
    let wait = request(world.run(&call).unwrap());
    assert_eq!((wait.reason, wait.state), (WaitReason::Power, Some(2)));
    world.cpu.step(&mut CodeCache::default(), &mut world.port).expect("flat memory");
    assert_eq!((world.cpu.state.pc, world.cpu.state.x[0]), (PAGE, 7), "wakes at its entry");
    assert_eq!(world.cpu.sys[Cell::SctlrEl1] & 1, 0, "translation off");
}

/// As Linux suspends with one security state: groups off, redistributor asleep, CPU_SUSPEND.
#[test]
fn interrupts_wake_a_cpu_whose_redistributor_sleeps() {
    use emu_arm64::ctx::Call;
    use emu_arm64::gic::IccReg;
    let sgi = Signal::Interrupt { vector: 1, level: false, logical: None };
    let spi = Signal::Forward { intid: 40, priority: 0x80, group: 1 };
    for signal in [sgi, spi] {
        let mut world = World::new();
        world.cpu.gic.redistributor.write(0x1_0080, 4, u64::MAX);
        world.cpu.gic.redistributor.write(0x1_0100, 4, u64::MAX);
        world.cpu.gic.write(IccReg::Pmr, 0xf0);
        world.cpu.gic.redistributor.write(0x14, 4, 2);
        let wfi = request(world.run(&Hinted { hint: Hint::Wfi }).unwrap());
        world.cpu.state.x[..4].copy_from_slice(&[0xc400_0001, 0x1_0002, PAGE, 7]);
        let down = request(world.run(&Do { call: Call::Smc(0) }).unwrap());
        assert_eq!(world.cpu.wake_cause(&down), None);
        world.cpu.receive(signal, SimTime::ZERO);
        assert_eq!(world.cpu.wake_cause(&down), Some(WakeCause::Interrupt), "{signal:?}");
        assert_eq!(world.cpu.wake_cause(&wfi), None, "held at the redistributor");
        world.cpu.step(&mut CodeCache::default(), &mut world.port).expect("flat memory");
        assert_eq!(world.cpu.state.pc, PAGE);
        world.cpu.gic.write(IccReg::Igrpen(1), 1);
        world.cpu.gic.redistributor.write(0x14, 4, 0);
        assert!(world.cpu.gic.pending().is_some(), "{signal:?} is there still");
    }
}

#[test]
fn an_event_of_another_cpu_ends_one_wait() {
    let mut world = World::new();
    world.run(&Hinted { hint: Hint::Sev }).unwrap();
    assert_eq!(world.port.signals, [(Target::AllButSelf, Signal::Event, false)]);
    world.run(&Hinted { hint: Hint::Wfe }).unwrap();
    let wait = request(world.run(&Hinted { hint: Hint::Wfe }).unwrap());
    assert_eq!(world.cpu.wake_cause(&wait), None);
    assert_eq!(world.cpu.receive(Signal::Event, SimTime::ZERO), Received::Accepted);
    assert_eq!(world.cpu.receive(Signal::Event, SimTime::ZERO), Received::Merged);
    assert_eq!(world.cpu.wake_cause(&wait), Some(WakeCause::Event));
    // The wake has used it up.
    world.put(0x2000, 0);
    world.cpu.step(&mut CodeCache::default(), &mut world.port).expect("flat memory");
    assert!(matches!(world.run(&Hinted { hint: Hint::Wfe }), Ok(Next::Sleep(_))));
}

#[test]
fn firmware_starts_and_stops_cpus_at_the_machine() {
    use emu_arm64::ctx::Call;
    use emu_arm64::psci::mailbox::{ARGUMENT, CPU_OFF, CPU_ON, access};
    let call = Do { call: Call::Smc(0) };
    let mut world = World::new();
    world.port.device_value = -4i64 as u64;
    world.cpu.state.x[..4].copy_from_slice(&[0xc400_0003, 0x1_0000_0203, PAGE, 7]);
    assert_eq!(world.run(&call), Ok(Next::Seq));
    assert_eq!(world.cpu.state.x[0] as i64, -4, "the mailbox's answer");
    let asked = [
        access(ARGUMENT, 0, Some(PAGE)),
        access(ARGUMENT, 8, Some(7)),
        access(CPU_ON, 0x0100_0203, None),
    ];
    assert_eq!(world.port.device_log, asked);
    let on = Signal::PowerOn { entry: PAGE, context: 9 };
    assert_eq!(world.cpu.receive(on, SimTime::ZERO), Received::Ignored, "it is on");
    world.cpu.state.x[0] = 0x8400_0002;
    let wait = request(world.run(&call).unwrap());
    assert_eq!(world.port.device_log[3..], [access(CPU_OFF, 0, Some(0))]);
    assert_eq!((wait.reason, world.cpu.wake_cause(&wait)), (WaitReason::Startup, None));
    assert_eq!(world.cpu.receive(on, SimTime::ZERO), Received::Accepted);
    assert_eq!(world.cpu.wake_cause(&wait), Some(WakeCause::Reset));
    assert_eq!((world.cpu.state.pc, world.cpu.state.x[0]), (PAGE, 9));
}

#[test]
fn shared_interrupts_come_from_the_distributor_and_are_told_back() {
    use emu_arm64::defs::SysReg;
    let mut world = World::new();
    interrupt(&mut world);
    let forward = |intid| Signal::Forward { intid, priority: 0x80, group: 1 };
    for signal in [forward(300), forward(40), Signal::Retract { intid: 40, answer: None }] {
        world.cpu.receive(signal, SimTime::ZERO);
    }
    // The SGI of `interrupt` has priority 0.
    let (iar, eoir) = (SysReg::new(3, 0, 12, 12, 0), SysReg::new(3, 0, 12, 12, 1));
    for intid in [1, 1023] {
        assert_eq!(world.run(&Mrs { reg: iar }), Ok(intid));
    }
    assert!(world.port.device_log.is_empty());
    for (intid, kind) in [(1, None), (300, Some(0)), (300, Some(1))] {
        match kind {
            Some(0) => assert_eq!(world.run(&Mrs { reg: iar }), Ok(intid)),
            _ => world.run(&Msr { reg: eoir, value: intid }).unwrap(),
        }
        let told = world.port.device_log.pop().map(|a| (a.space, a.addr));
        assert_eq!(told, kind.map(|kind| (Space::Gicd, kind << 16 | intid)));
    }
}
