//! The stall report says of every cpu what it waits for, what is pending, and what last reached it.

use emu_machine::{PointAction, PointRule, Stop, Until};
use emu_observe::{StallReport, StalledCpu, Waiting};
use emu_sim::{CpuId, LineAddr, PhysAddr, SimTime};
use iced_x86::code_asm::*;

use crate::world::{LINE, Rig, VECTOR, cluster, distances};

fn find(report: &StallReport, cpu: CpuId) -> &StalledCpu {
    assert_eq!(report.busy_lines, [], "{report}");
    &report.cpus[cpu.index()]
}

/// The last event, which came before the end.
fn last(report: &StallReport, cpu: CpuId) -> &str {
    let (time, text) = find(report, cpu).last_wake.as_ref().expect("an event");
    assert!(*time > SimTime::ZERO && *time <= report.time, "{report}");
    text
}

#[test]
fn cpus_halt_with_interrupts_pending() {
    let t = cluster();
    for (name, b) in distances(&t) {
        let apic_id = t.cpus[b as usize].apic_id;
        let role_a = |r: &mut crate::world::Role<'_>| {
            r.spend(20_000);
            r.send(apic_id, 0x4000 | (VECTOR + 0x20));
            r.send(apic_id, 0x4000 | VECTOR);
            r.send(apic_id, 0x4000 | VECTOR);
        };
        let rig = Rig::new(&t, b, role_a, |r| r.apic(0xf0, 0x1ff));
        let report = rig.run(0, 0).machine.stall_report();
        let (a, b) = (find(&report, CpuId(0)), find(&report, rig.b));
        for cpu in [a, b] {
            assert_eq!(cpu.waiting, Waiting::Hlt, "{name}: {report}");
            assert!(!cpu.interrupts_enabled, "{name}: {report}");
            assert!(cpu.since > SimTime::ZERO && cpu.since <= report.time, "{name}: {report}");
        }
        assert_eq!((a.pending.as_slice(), a.last_wake.as_ref()), (&[][..], None), "{name}");
        assert_eq!(b.pending, [VECTOR as u8, VECTOR as u8 + 0x20], "{name}: {report}");
        let wanted = "interrupt 0x41 from cpu0, which was pending already";
        assert_eq!(last(&report, rig.b), wanted, "{name}");
        let others = report.cpus.iter().filter(|c| c.cpu != CpuId(0) && c.cpu != rig.b);
        assert!(
            others.clone().count() == 14 && others.clone().all(|c| c.waiting == Waiting::Start)
        );
    }
}

#[test]
fn every_cpu_waits_for_its_line() {
    let t = cluster();
    let watch = |r: &mut crate::world::Role<'_>| {
        r.monitor(LINE);
        r.mwait(0, 0);
        // The last store ended the first wait.
        r.monitor(LINE + 64);
        r.mwait(0, 0);
    };
    let role_a = |r: &mut crate::world::Role<'_>| {
        r.spend(20_000);
        r.a.mov(byte_ptr(LINE), 1).unwrap();
        r.monitor(LINE + 64);
        r.mwait(0, 0);
    };
    let rig = Rig::with_all(&t, role_a, watch);
    let report = rig.run(0, 0).machine.stall_report();
    let line = |address: u64| PhysAddr(address).line();
    let waiting = |line: LineAddr| Waiting::Mwait { line: Some(line) };
    for cpu in &report.cpus {
        assert_eq!(cpu.waiting, waiting(line(LINE + 64)), "{report}");
        if cpu.cpu != CpuId(0) {
            assert_eq!(last(&report, cpu.cpu), format!("store to line {LINE:#x}"), "{report}");
        }
    }
}

#[test]
fn a_cpu_is_held_by_a_rule() {
    let t = cluster();
    for (name, b) in distances(&t) {
        let rig = Rig::new(&t, b, |_| {}, |_| {});
        let mut machine = rig.machine.clone();
        let action = PointAction::HoldUntil { cpu: None, point: "a".to_owned(), times: 2 };
        machine.set_rules(&[PointRule { cpu: None, point: "b".to_owned(), action }]).unwrap();
        let until = Until { time: SimTime::from_us(500), regions: false };
        assert_eq!(machine.run(&until, &mut ()), Stop::Stalled, "{name}");
        let report = machine.stall_report();
        let held = find(&report, rig.b);
        assert_eq!(held.waiting, Waiting::Held { point: "b".to_owned() }, "{name}: {report}");
        assert_eq!(held.pc, rig.address("b"), "{name}");
        assert_eq!(find(&report, CpuId(0)).waiting, Waiting::Hlt, "{name}: {report}");
        assert_eq!(last(&report, rig.b), "start-up message from cpu0", "{name}");
    }
}
