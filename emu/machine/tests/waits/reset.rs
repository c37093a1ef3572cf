//! INIT and start-up messages: whatever the cpu does, it starts again, and once.

use emu_observe::WakeCause;
use iced_x86::code_asm::*;

use crate::world::{LINE, Rig, Role, STARTUP, cluster, distances, word};

const INIT: u32 = 0x4500;

type Body = fn(&mut Role<'_>);

/// What the other cpu does when INIT comes, and whether that is a wait with an end on record.
const DOES: [(&str, bool, Body); 6] = [
    ("spins", false, |r| r.spin_until_set(word(7))),
    ("counts", false, |r| {
        let mut again = r.a.create_label();
        r.a.set_label(&mut again).unwrap();
        r.a.inc(qword_ptr(word(6))).unwrap();
        r.a.jmp(again).unwrap();
    }),
    ("flushes and misses", false, |r| {
        let mut again = r.a.create_label();
        r.a.set_label(&mut again).unwrap();
        r.a.clflush(byte_ptr(word(6))).unwrap();
        r.a.lock().inc(qword_ptr(word(6))).unwrap();
        r.a.jmp(again).unwrap();
    }),
    ("halts", true, |r| r.a.hlt().unwrap()),
    ("waits for a store", true, |r| {
        r.monitor(LINE);
        r.mwait(0, 0);
    }),
    ("sleeps deep", true, |r| {
        r.monitor(LINE);
        r.mwait(0x20, 0);
    }),
];

#[test]
fn init_and_two_start_ups_start_a_cpu_once() {
    let t = cluster();
    for (name, b) in distances(&t) {
        let apic_id = t.cpus[b as usize].apic_id;
        for (what, waits, body) in DOES {
            let role_a = |r: &mut Role<'_>| {
                r.spend(20_000);
                r.send(apic_id, INIT);
                r.spend(3000);
                r.send(apic_id, STARTUP);
                r.send(apic_id, STARTUP);
                r.spend(20_000);
                // It runs: one more start-up message says nothing to it.
                r.send(apic_id, STARTUP);
                r.spend(3000);
                r.a.mov(byte_ptr(LINE), 1).unwrap();
            };
            let role_b = |r: &mut Role<'_>| {
                let mut again = r.a.create_label();
                r.a.inc(qword_ptr(word(0))).unwrap();
                r.a.cmp(qword_ptr(word(0)), 1).unwrap();
                r.a.jne(again).unwrap();
                body(r);
                r.a.inc(qword_ptr(word(1))).unwrap();
                r.a.set_label(&mut again).unwrap();
            };
            let rig = Rig::new(&t, b, role_a, role_b);
            for delay in [0, 1, 2, 7, 50] {
                let run = rig.run(delay, 0);
                let case = format!("{what}, from {name}, delay {delay}");
                assert_eq!((run.word(word(0)), run.word(word(1))), (2, 0), "{case}");
                let resets =
                    run.exits(rig.b).iter().filter(|e| e.cause == WakeCause::Reset).count();
                // The wait for the start-up message ends by a reset too.
                assert_eq!(resets, 1 + usize::from(waits), "{case}: {:?}", run.exits(rig.b));
            }
        }
    }
}

#[test]
fn a_start_up_message_without_init_is_ignored() {
    let t = cluster();
    let apic_id = t.cpus[4].apic_id;
    let role_b = |r: &mut Role<'_>| {
        r.a.inc(qword_ptr(word(0))).unwrap();
        r.a.hlt().unwrap();
    };
    let rig = Rig::new(&t, 4, |r| r.send(apic_id, STARTUP), role_b);
    let run = rig.run(5000, 0);
    assert_eq!(run.word(word(0)), 1);
    assert_eq!(run.exits(rig.b), []);
}
