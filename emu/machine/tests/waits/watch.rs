//! Monitors: no store to the watched line is missed, and nothing else ends the wait.

use emu_observe::WakeCause;
use emu_sim::CpuId;
use iced_x86::code_asm::*;

use crate::world::{LINE, Rig, Role, cluster, distances, word};

const WATCHER: CpuId = CpuId(0);
/// Both roles see their start within so many cycles.
const LEAD: u64 = 1500;

/// Waits for a store to `LINE`; then counts in `word(0)`.
fn watch(r: &mut Role<'_>) {
    r.monitor(LINE);
    // What a guest would look at before it sleeps.
    r.a.mov(rbx, qword_ptr(LINE)).unwrap();
    r.mwait(0, 0);
    r.a.inc(qword_ptr(word(0))).unwrap();
}

/// Stores `size` bytes of the value in `word(2)` to the address in `word(1)`.
fn store_bytes(r: &mut Role<'_>, size: u32) {
    r.a.mov(rdi, qword_ptr(word(1))).unwrap();
    r.a.mov(rax, qword_ptr(word(2))).unwrap();
    match size {
        1 => r.a.mov(byte_ptr(rdi), al).unwrap(),
        2 => r.a.mov(word_ptr(rdi), ax).unwrap(),
        4 => r.a.mov(dword_ptr(rdi), eax).unwrap(),
        8 => r.a.mov(qword_ptr(rdi), rax).unwrap(),
        _ => {
            r.a.mov(ecx, size).unwrap();
            r.a.rep().stosb().unwrap();
        }
    }
}

#[test]
fn a_store_wakes_exactly_when_a_byte_lies_in_the_line() {
    let t = cluster();
    for (name, b) in distances(&t) {
        for size in 1..=8u32 {
            let rig = Rig::new(&t, b, watch, |r| store_bytes(r, size));
            for offset in -8..=71i64 {
                let run = rig.run_with(0, LEAD, |m| {
                    m.write_guest(word(1), &LINE.wrapping_add_signed(offset).to_le_bytes());
                    // Every other store leaves the value as it is.
                    m.write_guest(word(2), &(offset & 1).to_le_bytes());
                });
                let is_inside = offset < 64 && offset + i64::from(size) > 0;
                let case = format!("{size} bytes at {offset} from {name}");
                assert_eq!(run.word(word(0)), u64::from(is_inside), "{case}");
                let exits = run.exits(WATCHER);
                assert_eq!(exits.len(), usize::from(is_inside), "{case}: {exits:?}");
                assert!(exits.iter().all(|e| e.cause == WakeCause::MonitorStore), "{case}");
            }
        }
    }
}

/// Something another cpu does to the line.
type Act = fn(&mut Role<'_>);

const ACTS: [(&str, bool, Act); 10] = [
    ("xchg", true, |r| r.a.xchg(qword_ptr(LINE), rbx).unwrap()),
    ("lock or 0", true, |r| r.a.lock().or(dword_ptr(LINE), 0).unwrap()),
    ("lock cmpxchg that fails", true, |r| {
        r.a.mov(eax, 77).unwrap();
        r.a.lock().cmpxchg(dword_ptr(LINE), ebx).unwrap();
    }),
    ("16 bytes", true, |r| r.a.movups(xmmword_ptr(LINE + 48), xmm0).unwrap()),
    ("load", false, |r| r.a.mov(rbx, qword_ptr(LINE)).unwrap()),
    ("prefetch", false, |r| r.a.prefetcht0(byte_ptr(LINE)).unwrap()),
    ("monitor of its own", false, |r| r.monitor(LINE)),
    ("flush", false, |r| {
        r.a.clflush(byte_ptr(LINE)).unwrap();
        r.a.mfence().unwrap();
    }),
    ("two flushes", false, |r| {
        for _ in 0..2 {
            r.a.clflush(byte_ptr(LINE)).unwrap();
        }
        r.a.mfence().unwrap();
    }),
    ("atomic next door", false, |r| r.a.lock().inc(qword_ptr(LINE + 64)).unwrap()),
];

#[test]
fn what_wakes_and_what_leaves_the_watch() {
    let t = cluster();
    for (name, b) in distances(&t) {
        for (act, wakes, body) in ACTS {
            let rig = Rig::new(&t, b, watch, |r| {
                body(r);
                r.spend(3000);
                r.a.inc(qword_ptr(word(1))).unwrap();
                r.a.mfence().unwrap();
                // Whatever was done to it, the watch still stands.
                r.a.mov(byte_ptr(LINE + 63), 1).unwrap();
            });
            let run = rig.run(0, LEAD);
            let case = format!("{act} from {name}");
            let exits = run.exits(WATCHER);
            assert_eq!((run.word(word(0)), run.word(word(1)), exits.len()), (1, 1, 1), "{case}");
            assert_eq!(exits[0].cause, WakeCause::MonitorStore, "{case}");
            let begun = run.begins(rig.b);
            let late = begun + rig.cycles(3000);
            assert_eq!(exits[0].at < late, wakes, "{case}: {exits:?}, begun {begun:?}");
        }
    }
}

#[test]
fn a_watch_outlives_the_line_in_the_caches() {
    // Lines that fall into the same set of L1 and L2 push the watched one out before MWAIT.
    let t = cluster();
    let l2 = t.cores[0].l2.as_ref().expect("an L2");
    let stride = l2.size / u64::from(l2.ways);
    for (name, b) in distances(&t) {
        for is_dirty in [false, true] {
            let role_a = |r: &mut Role<'_>| {
                if is_dirty {
                    r.a.inc(qword_ptr(LINE)).unwrap();
                    r.a.mfence().unwrap();
                }
                r.monitor(LINE);
                r.a.mov(rdi, LINE + 16 * stride).unwrap();
                for _ in 0..2 * l2.ways {
                    r.a.add(rdi, i32::try_from(stride).unwrap()).unwrap();
                    r.a.mov(rbx, qword_ptr(rdi)).unwrap();
                    r.a.add(rax, rbx).unwrap();
                }
                r.a.lfence().unwrap();
                r.mwait(0, 0);
                r.a.inc(qword_ptr(word(0))).unwrap();
            };
            let rig = Rig::new(&t, b, role_a, |r| r.a.mov(byte_ptr(LINE + 9), 1).unwrap());
            let run = rig.run(0, 40_000);
            let case = format!("{name}, dirty {is_dirty}");
            let exits = run.exits(WATCHER);
            assert_eq!((run.word(word(0)), exits.len()), (1, 1), "{case}: {exits:?}");
            assert!(exits[0].at >= run.begins(rig.b), "{case}: {exits:?}");
        }
    }
}

#[test]
fn an_own_store_or_none_leaves_the_wait_as_it_is() {
    let t = cluster();
    // Without arming, MWAIT falls through; after an own store, it waits for the other's.
    let rig = Rig::new(
        &t,
        4,
        |r| {
            r.mwait(0, 0);
            r.a.inc(qword_ptr(word(1))).unwrap();
            r.monitor(LINE);
            r.a.mov(byte_ptr(LINE), 7).unwrap();
            r.mwait(0, 0);
            r.a.inc(qword_ptr(word(0))).unwrap();
            r.mwait(0, 0);
            r.a.inc(qword_ptr(word(0))).unwrap();
        },
        |r| {
            r.spend(3000);
            r.a.mov(byte_ptr(LINE), 8).unwrap();
        },
    );
    let run = rig.run(0, LEAD);
    let exits = run.exits(WATCHER);
    assert_eq!((run.word(word(1)), run.word(word(0)), exits.len()), (1, 2, 1), "{exits:?}");
    assert!(exits[0].at > run.begins(rig.b) + rig.cycles(2900), "{exits:?}");
}

#[test]
fn a_watch_outlives_the_line_in_the_llc() {
    // The LLC that gives up the watched line may end the wait, and must not lose the store.
    let t = cluster();
    let llc = t.llcs[0].cache.as_ref().expect("an LLC");
    let stride = llc.size / u64::from(llc.ways);
    for (name, b) in distances(&t) {
        let role_a = |r: &mut Role<'_>| {
            let mut again = r.a.create_label();
            r.a.set_label(&mut again).unwrap();
            r.monitor(LINE);
            r.a.inc(qword_ptr(word(1))).unwrap();
            r.a.cmp(byte_ptr(LINE + 9), 0).unwrap();
            let mut done = r.a.create_label();
            r.a.jne(done).unwrap();
            r.mwait(0, 0);
            r.a.jmp(again).unwrap();
            r.a.set_label(&mut done).unwrap();
            r.a.inc(qword_ptr(word(0))).unwrap();
        };
        let role_b = |r: &mut Role<'_>| {
            r.a.mov(rdi, LINE + 16 * stride).unwrap();
            for _ in 0..3 * llc.ways {
                r.a.add(rdi, i32::try_from(stride).unwrap()).unwrap();
                r.a.lock().inc(qword_ptr(rdi)).unwrap();
            }
            r.a.mov(byte_ptr(LINE + 9), 1).unwrap();
        };
        let rig = Rig::new(&t, b, role_a, role_b);
        for delay in [LEAD, LEAD + 13, 3 * LEAD] {
            let run = rig.run(0, delay);
            assert_eq!(run.word(word(0)), 1, "{name}, delay {delay}: lost");
            let (looks, exits) = (run.word(word(1)), run.exits(WATCHER).len() as u64);
            assert!(looks <= 3 && exits <= 2, "{name}: {looks} looks, {exits} ends");
        }
    }
}
