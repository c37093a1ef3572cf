//! Interrupts and timers against waits: at every cycle around the entry, none is lost, and the
//! handler returns behind the wait.

use emu_observe::WakeCause;
use emu_sim::CpuId;
use iced_x86::code_asm::*;

use crate::world::{
    IRQ_RIP, IRQS, LINE, NMIS, Rig, Role, VECTOR, cluster, distances, sweep_around, word,
};

const SLEEPER: CpuId = CpuId(0);
const FIXED: u32 = 0x4000;
const NMI: u32 = 0x4400;
/// Role `a` starts so late that role `b` may come before it.
const LEAD: u64 = 3500;

type Wait = fn(&mut Role<'_>);

/// Waits that an interrupt ends; it is taken at `after`, and nowhere before.
const WAITS: [(&str, Wait); 3] = [
    ("sti; hlt", |r| {
        r.a.sti().unwrap();
        r.a.hlt().unwrap();
        r.mark("after");
    }),
    ("monitor; sti; mwait", |r| {
        r.monitor(LINE);
        r.a.mov(eax, 0).unwrap();
        r.a.sti().unwrap();
        r.a.mwait().unwrap();
        r.mark("after");
    }),
    ("monitor; mwait that masked interrupts end; sti", |r| {
        r.monitor(LINE);
        r.mwait(0, 1);
        r.a.inc(qword_ptr(word(1))).unwrap();
        r.a.sti().unwrap();
        r.a.nop().unwrap();
        r.mark("after");
    }),
];

fn sleep(r: &mut Role<'_>, wait: Wait) {
    wait(r);
    r.a.inc(qword_ptr(word(0))).unwrap();
}

#[test]
fn an_ipi_at_any_cycle_around_the_entry_ends_the_wait() {
    let t = cluster();
    let apic_id = t.cpus[0].apic_id;
    for (name, b) in distances(&t) {
        for (wait, body) in WAITS {
            let role_b = |r: &mut Role<'_>| r.send(apic_id, FIXED | VECTOR);
            let role_a = |r: &mut Role<'_>| {
                r.warm();
                sleep(r, body);
            };
            let rig = Rig::new(&t, b, role_a, role_b);
            let outcome = |delay: u64| {
                let run = rig.run(LEAD, delay);
                let case = format!("{wait}, {name}, delay {delay}");
                assert_eq!((run.word(word(0)), run.word(IRQS)), (1, 1), "{case}");
                assert_eq!(run.word(IRQ_RIP), rig.address("after"), "{case}");
                let exits = run.exits(SLEEPER);
                assert!(exits.iter().all(|e| e.cause == WakeCause::Interrupt), "{case}: {exits:?}");
                exits.len() == 1
            };
            let changes = sweep_around(0..2 * LEAD, 61, outcome);
            assert_eq!(changes, 1, "{wait}, {name}: it comes before the wait, or into it");
        }
    }
}

#[test]
fn a_timer_at_any_cycle_around_the_entry_ends_the_wait() {
    let t = topology::Machine::load("duo", &[]).unwrap();
    for (wait, body) in WAITS {
        let role_a = |r: &mut Role<'_>| {
            r.warm();
            // 60 ticks of 30 cycles, once.
            r.apic(0x3e0, 0b1011);
            r.apic(0x320, VECTOR);
            r.apic(0x380, 60);
            let mut again = r.a.create_label();
            r.a.mov(rbx, qword_ptr(word(2))).unwrap();
            r.a.set_label(&mut again).unwrap();
            r.a.dec(rbx).unwrap();
            r.a.jne(again).unwrap();
            sleep(r, body);
        };
        let rig = Rig::new(&t, 1, role_a, |_| {});
        let mut waited = [0, 0];
        for spent in 900..1900u64 {
            let run = rig.run_with(0, 0, |m| m.write_guest(word(2), &spent.to_le_bytes()));
            let case = format!("{wait}, {spent}");
            assert_eq!((run.word(word(0)), run.word(IRQS)), (1, 1), "{case}");
            assert_eq!(run.word(IRQ_RIP), rig.address("after"), "{case}");
            let exits = run.exits(SLEEPER);
            assert!(exits.iter().all(|e| e.cause == WakeCause::Interrupt), "{case}: {exits:?}");
            waited[exits.len()] += 1;
        }
        assert!(waited[0] > 10 && waited[1] > 10, "{wait}: one side only, {waited:?}");
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
