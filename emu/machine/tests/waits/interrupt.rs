//! Interrupts against waits, as far as the tables of `table` do not say it.

use emu_observe::{Event, WakeCause};
use emu_sim::CpuId;
use iced_x86::code_asm::*;

use crate::world::{IRQS, LINE, NMIS, Rig, Role, VECTOR, cluster, distances, sweep_around, word};

const SLEEPER: CpuId = CpuId(0);
const FIXED: u32 = 0x4000;
const NMI: u32 = 0x4400;
/// Role `a` starts so late that role `b` may come before it.
const LEAD: u64 = 3500;

type Wait = fn(&mut Role<'_>);

fn sleep(r: &mut Role<'_>, wait: Wait) {
    wait(r);
    r.a.inc(qword_ptr(word(0))).unwrap();
}

#[test]
fn a_store_and_an_ipi_together_end_the_wait_once() {
    let t = cluster();
    let apic_id = t.cpus[0].apic_id;
    for (name, b) in distances(&t) {
        let role_a = |r: &mut Role<'_>| {
            r.warm();
            r.monitor(LINE);
            r.a.mov(eax, 0).unwrap();
            r.a.sti().unwrap();
            r.a.mwait().unwrap();
            r.a.inc(qword_ptr(word(0))).unwrap();
            r.spend(6000);
        };
        let role_b = |r: &mut Role<'_>| {
            r.send(apic_id, FIXED | VECTOR);
            // The store leaves at every cycle around the arrival of the interrupt.
            let mut again = r.a.create_label();
            r.a.mov(rbx, qword_ptr(word(2))).unwrap();
            r.a.set_label(&mut again).unwrap();
            r.a.dec(rbx).unwrap();
            r.a.jne(again).unwrap();
            r.a.mov(byte_ptr(LINE), 1).unwrap();
        };
        let rig = Rig::new(&t, b, role_a, role_b);
        let is_interrupt = |spent: u64| {
            let run = rig.run_with(0, LEAD, |m| m.write_guest(word(2), &spent.to_le_bytes()));
            let exits = run.exits(SLEEPER);
            let case = format!("{name}, {spent}: {exits:?}");
            assert_eq!((run.word(word(0)), run.word(IRQS), exits.len()), (1, 1, 1), "{case}");
            let first = |is_it: fn(&Event) -> bool| {
                let mut own = run.log.0.iter().filter(|r| r.cpu == SLEEPER);
                own.find(|r| is_it(&r.event)).map(|r| r.time)
            };
            let accepted = first(|e| matches!(e, Event::IpiAccepted { .. })).expect("it arrives");
            let is_lost =
                |e: &Event| matches!(e, Event::LineLost { line, .. } if line.base().0 == LINE);
            let lost = first(is_lost);
            // Whichever came first is the cause; on one edge, the line goes first (K2).
            match exits[0].cause {
                WakeCause::Interrupt => {
                    assert_eq!(exits[0].at, accepted, "{case}");
                    assert!(lost.is_none_or(|lost| lost > accepted), "{case}");
                }
                _ => assert!(lost.is_none_or(|at| at == exits[0].at && at <= accepted), "{case}"),
            }
            exits[0].cause == WakeCause::Interrupt
        };
        assert!(is_interrupt(4000), "{name}");
        let changes = sweep_around(1..3000, 67, is_interrupt);
        // Inside a package but not a core, a store overtakes an IPI that left first.
        assert!(changes > 0 || !name.starts_with("same"), "{name}: {changes}");
    }
}

#[test]
fn a_masked_interrupt_ends_no_wait_that_did_not_ask_for_it() {
    let t = cluster();
    let apic_id = t.cpus[0].apic_id;
    for (name, b) in distances(&t) {
        let role_a = |r: &mut Role<'_>| {
            r.monitor(LINE);
            r.mwait(0, 0);
            r.a.inc(qword_ptr(word(0))).unwrap();
        };
        let role_b = |r: &mut Role<'_>| {
            r.send(apic_id, FIXED | VECTOR);
            r.spend(4000);
            r.a.mov(byte_ptr(LINE), 1).unwrap();
        };
        let rig = Rig::new(&t, b, role_a, role_b);
        let run = rig.run(0, LEAD);
        let exits = run.exits(SLEEPER);
        assert_eq!((run.word(word(0)), run.word(IRQS), exits.len()), (1, 0, 1), "{name}");
        assert_eq!(exits[0].cause, WakeCause::MonitorStore, "{name}");
        assert!(exits[0].at > run.begins(rig.b) + rig.cycles(4000), "{name}");
        assert_eq!(run.machine.counters(SLEEPER).ipi_pending, 1, "{name}");
    }
}

#[test]
fn an_nmi_ends_every_wait_with_interrupts_off() {
    let t = cluster();
    let waits: [(&str, Wait); 3] = [
        ("hlt", |r| r.a.hlt().unwrap()),
        ("mwait", |r| {
            r.monitor(LINE);
            r.mwait(0, 0);
        }),
        ("deep mwait", |r| {
            r.monitor(LINE);
            r.mwait(0x20, 0);
        }),
    ];
    let apic_id = t.cpus[0].apic_id;
    for (name, b) in distances(&t) {
        for (wait, body) in waits {
            let rig = Rig::new(&t, b, |r| sleep(r, body), |r| r.send(apic_id, NMI));
            let run = rig.run(0, LEAD);
            let exits = run.exits(SLEEPER);
            assert_eq!((run.word(word(0)), run.word(NMIS)), (1, 1), "{wait}, {name}");
            assert_eq!(exits.len(), 1, "{wait}, {name}: {exits:?}");
            assert_eq!(exits[0].cause, WakeCause::Nmi, "{wait}, {name}");
        }
    }
}
