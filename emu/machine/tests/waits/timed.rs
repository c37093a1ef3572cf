//! Waits with a deadline: UMWAIT, TPAUSE, MWAITX, on the machine that has them all.

use emu_observe::WakeCause;
use emu_sim::{CpuId, Freq};
use iced_x86::code_asm::*;

use crate::world::{LINE, Rig, Role, word};

const SLEEPER: CpuId = CpuId(0);
/// Deadlines, in TSC cycles after a reading.
const LIMITS: [u32; 6] = [1, 40, 41, 100, 2_000, 20_000];

/// Leaves TSC + `word(1)` in rsi and EDX:EAX.
fn deadline(r: &mut Role<'_>) {
    r.a.rdtscp().unwrap();
    r.a.shl(rdx, 32).unwrap();
    r.a.or(rax, rdx).unwrap();
    r.a.add(rax, qword_ptr(word(1))).unwrap();
    r.a.mov(rsi, rax).unwrap();
    r.a.mov(rdx, rax).unwrap();
    r.a.shr(rdx, 32).unwrap();
    r.a.mov(eax, eax).unwrap();
}

/// Carry in `word(2)`, TSC after the wait less the deadline in `word(3)`.
fn report(r: &mut Role<'_>) {
    r.a.setb(bl).unwrap();
    r.a.rdtscp().unwrap();
    r.a.shl(rdx, 32).unwrap();
    r.a.or(rax, rdx).unwrap();
    r.a.sub(rax, rsi).unwrap();
    r.a.mov(qword_ptr(word(3)), rax).unwrap();
    r.a.mov(byte_ptr(word(2)), bl).unwrap();
    r.a.inc(qword_ptr(word(0))).unwrap();
}

fn limit_of_system(r: &mut Role<'_>, cycles: u32) {
    r.a.mov(ecx, 0xe1).unwrap();
    r.a.mov(eax, cycles & !3).unwrap();
    r.a.xor(edx, edx).unwrap();
    r.a.wrmsr().unwrap();
}

type Wait = fn(&mut Role<'_>);

const TPAUSE: Wait = |r| r.a.tpause(ecx).unwrap();
const UMWAIT: Wait = |r| {
    r.a.mov(edi, LINE as u32).unwrap();
    r.a.umonitor(rdi).unwrap();
    r.a.umwait(ecx).unwrap();
};

fn rig(wait: Wait, os_limit: u32, role_b: impl FnOnce(&mut Role<'_>)) -> Rig {
    let t = topology::Machine::load("duo", &[]).unwrap();
    let role_a = |r: &mut Role<'_>| {
        r.warm();
        limit_of_system(r, os_limit);
        deadline(r);
        r.a.mov(ecx, 1).unwrap();
        wait(r);
        report(r);
    };
    Rig::new(&t, 1, role_a, role_b)
}

#[test]
fn a_deadline_ends_the_wait_at_its_edge() {
    let tsc = Freq::from_khz(topology::Machine::load("duo", &[]).unwrap().clocks.tsc_khz);
    for (name, wait) in [("tpause", TPAUSE), ("umwait", UMWAIT)] {
        let rig = rig(wait, 0, |_| {});
        for limit in LIMITS {
            let prepare = |m: &mut emu_machine::Machine| {
                m.write_guest(word(1), &u64::from(limit).to_le_bytes());
            };
            let run = rig.run_with(0, 0, prepare);
            let case = format!("{name} {limit}");
            let exits = run.exits(SLEEPER);
            assert_eq!((run.word(word(0)), run.word(word(2))), (1, 0), "{case}: {exits:?}");
            let over = run.word(word(3)) as i64;
            assert!(over >= 0, "{case}: {over} cycles beyond the deadline");
            if limit >= 2_000 {
                assert_eq!(exits.len(), 1, "{case}");
                assert_eq!(exits[0].cause, WakeCause::Timeout, "{case}");
                // Not before the deadline, and at the first edge of the core behind it.
                let end = run.machine.x86(SLEEPER).state.gpr[6];
                let edge = tsc.edge(end);
                let late = exits[0].at - edge;
                assert!(late < rig.cycles(1), "{case}: {late:?} behind the edge");
            }
        }
    }
}

#[test]
fn the_limit_of_the_system_sets_carry() {
    for (name, wait) in [("tpause", TPAUSE), ("umwait", UMWAIT)] {
        let rig = rig(wait, 4_000, |_| {});
        for (limit, carry) in [(2_000u64, 0), (100_000, 1)] {
            let run = rig.run_with(0, 0, |m| m.write_guest(word(1), &limit.to_le_bytes()));
            let exits = run.exits(SLEEPER);
            assert_eq!((run.word(word(0)), exits.len()), (1, 1), "{name} {limit}: {exits:?}");
            assert_eq!(run.word(word(2)), carry, "{name} {limit}: {exits:?}");
        }
    }
}

#[test]
fn a_store_at_any_cycle_around_a_deadline_ends_umwait_once() {
    let role_b = |r: &mut Role<'_>| r.a.mov(byte_ptr(LINE + 1), 1).unwrap();
    let rig = rig(UMWAIT, 0, role_b);
    let mut causes = [0, 0];
    for delay in (1_000..4_500).step_by(3) {
        let run = rig.run_with(800, delay, |m| m.write_guest(word(1), &1_500u64.to_le_bytes()));
        let exits = run.exits(SLEEPER);
        assert_eq!(run.word(word(0)), 1, "delay {delay}");
        assert!(exits.len() <= 1, "delay {delay}: {exits:?}");
        for e in exits {
            assert_eq!(run.word(word(2)), 0, "delay {delay}: carry");
            match e.cause {
                WakeCause::MonitorStore => causes[0] += 1,
                WakeCause::Timeout => causes[1] += 1,
                other => panic!("delay {delay}: {other:?}"),
            }
        }
    }
    assert!(causes[0] > 50 && causes[1] > 50, "stores and deadlines: {causes:?}");
}

#[test]
fn mwaitx_ends_by_its_timer_or_by_a_store() {
    let t = topology::Machine::load("duo", &[]).unwrap();
    let role_a = |r: &mut Role<'_>| {
        deadline(r);
        r.a.mov(rax, LINE).unwrap();
        r.a.xor(ecx, ecx).unwrap();
        r.a.xor(edx, edx).unwrap();
        r.a.monitorx().unwrap();
        r.a.mov(ebx, dword_ptr(word(1))).unwrap();
        r.a.mov(eax, 0).unwrap();
        r.a.mov(ecx, 2).unwrap();
        r.a.mwaitx().unwrap();
        report(r);
    };
    let rig = Rig::new(&t, 1, role_a, |r| r.a.mov(byte_ptr(LINE), 1).unwrap());
    for (limit, delay, cause) in [
        (3_000u64, 60_000, WakeCause::Timeout),
        (3_000, 2_000, WakeCause::MonitorStore),
        (0, 60_000, WakeCause::MonitorStore),
    ] {
        let run = rig.run_with(0, delay, |m| m.write_guest(word(1), &limit.to_le_bytes()));
        let exits = run.exits(SLEEPER);
        assert_eq!((run.word(word(0)), exits.len()), (1, 1), "{limit}, {delay}: {exits:?}");
        assert_eq!(exits[0].cause, cause, "{limit}, {delay}");
        if cause == WakeCause::Timeout {
            assert!((run.word(word(3)) as i64) >= 0, "{limit}: before its time");
        }
    }
}
