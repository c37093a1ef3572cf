//! Paging beyond the rows of `paging.ins`: all rights against all accesses, what the TLB keeps, and
//! accesses over two pages.

use emu_x86::defs::{cr0, cr4, pf, rflags, vector};

use crate::world::{CODE, End, PAGE, PML4, PT, World};

const READ: [u8; 8] = [0x8a, 0x04, 0x25, 0, 0, 0x10, 0, 0xf4];
const WRITE: [u8; 8] = [0x88, 0x04, 0x25, 0, 0, 0x10, 0, 0xf4];
const NX: u64 = 1 << 63;
const RESERVED: u64 = 1 << 50;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Read,
    Write,
    Fetch,
}

#[derive(Clone, Copy, Debug)]
struct Case {
    kind: Kind,
    user: bool,
    entry: u64,
    wp: bool,
    smep: bool,
    smap: bool,
    ac: bool,
}

/// What the manual says, clause by clause: [SDM-3] "Determination of Access Rights".
fn expected(case: Case) -> Option<u32> {
    let Case { kind, user, entry, wp, smep, smap, ac } = case;
    let is_user_page = entry & 4 != 0;
    let is_writable = entry & 2 != 0;
    let base = match kind {
        Kind::Read => 0,
        Kind::Write => pf::W,
        Kind::Fetch => pf::I,
    } | if user { pf::U } else { 0 };
    if entry & 1 == 0 {
        return Some(base);
    }
    if entry & RESERVED != 0 {
        return Some(base | pf::P | pf::RSVD);
    }
    let allowed = match (user, kind) {
        (false, Kind::Read) => !is_user_page || !smap || ac,
        (false, Kind::Write) => (!is_user_page || !smap || ac) && (is_writable || !wp),
        (false, Kind::Fetch) => entry & NX == 0 && !(is_user_page && smep),
        (true, Kind::Read) => is_user_page,
        (true, Kind::Write) => is_user_page && is_writable,
        (true, Kind::Fetch) => is_user_page && entry & NX == 0,
    };
    (!allowed).then_some(base | pf::P)
}

fn world(case: Case) -> World {
    let code = if case.kind == Kind::Read { READ } else { WRITE };
    let mut world = World::long(&code);
    if case.user {
        world = world.user(&code);
    }
    // HLT is privileged: user code ends in #GP instead.
    world.port.put(PAGE, &[0xf4]);
    if case.kind == Kind::Fetch {
        world.cpu.state.rip = PAGE;
    }
    let state = &mut world.cpu.state;
    state.cr0 = state.cr0 & !cr0::WP | if case.wp { cr0::WP } else { 0 };
    state.cr4 |= if case.smep { cr4::SMEP } else { 0 } | if case.smap { cr4::SMAP } else { 0 };
    state.rflags |= if case.ac { rflags::AC } else { 0 };
    world.set_page(PAGE | case.entry);
    world.cpu.registers_changed();
    world
}

#[test]
fn every_right_against_every_access() {
    for bits in 0..1u64 << 9 {
        let bit = |n: u32| bits >> n & 1 != 0;
        let entry = bits & 7 | if bit(3) { NX } else { 0 } | if bit(4) { RESERVED } else { 0 };
        for kind in [Kind::Read, Kind::Write, Kind::Fetch] {
            for user in [false, true] {
                let (wp, smep, smap, ac) = (bit(5), bit(6), bit(7), bit(8));
                let case = Case { kind, user, entry, wp, smep, smap, ac };
                let mut world = world(case);
                let end = world.run_with_seeds(2);
                match expected(case) {
                    Some(code) => {
                        assert_eq!(end, End::Handler(vector::PF), "{case:?}");
                        assert_eq!(world.frame::<1>()[0], u64::from(code), "{case:?}");
                        assert_eq!(world.cpu.state.cr2, PAGE, "{case:?}");
                    }
                    None if user => assert_eq!(end, End::Handler(vector::GP), "{case:?}"),
                    None => assert!(matches!(end, End::Halt(_)), "{case:?}: {end:?}"),
                }
            }
        }
    }
}

#[test]
fn a_translation_stays_until_it_is_invalidated() {
    // mov al,[PAGE]; mov qword [PT entry],0; mov al,[PAGE]; invlpg [PAGE]; mov al,[PAGE]
    let mut code = READ[..7].to_vec();
    code.extend([0x48, 0xc7, 0x04, 0x25, 0x00, 0x48, 0x00, 0x00, 0, 0, 0, 0]);
    code.extend(&READ[..7]);
    code.extend([0x0f, 0x01, 0x3c, 0x25, 0, 0, 0x10, 0]);
    let last = CODE + code.len() as u64;
    code.extend(READ);
    let mut config = crate::world::config(emu_x86::defs::Vendor::Intel);
    config.tlb = emu_x86::tlb::TlbSizes::default();
    let mut world = World::long_with(config, &code);
    assert_eq!(world.run(), End::Handler(vector::PF));
    let [_, rip] = world.frame();
    assert_eq!(rip, last, "only the read behind INVLPG faults");
}

#[test]
fn an_access_over_two_pages_faults_at_the_second_before_it_writes() {
    // mov [PAGE - 4], rax with the second page not present.
    let mut world = World::long(&[0x48, 0x89, 0x04, 0x25, 0xfc, 0xff, 0x0f, 0x00, 0xf4]);
    world.set_page(0);
    world.cpu.state.gpr[0] = u64::MAX;
    assert_eq!(world.run(), End::Handler(vector::PF));
    assert_eq!(world.cpu.state.cr2, PAGE);
    assert_eq!(world.port.get(PAGE - 4, 4), 0);
    // And with it present: both halves, at any offset.
    for at in 1..8u32 {
        let low = 0x10_0000 - at;
        let mut code = vec![0x48, 0x89, 0x04, 0x25];
        code.extend(low.to_le_bytes());
        code.extend([0x48, 0x8b, 0x1c, 0x25]);
        code.extend(low.to_le_bytes());
        code.push(0xf4);
        let mut world = World::long(&code);
        world.cpu.state.gpr[0] = 0x1122_3344_5566_7788;
        assert!(matches!(world.run(), End::Halt(_)));
        assert_eq!(world.cpu.state.gpr[3], 0x1122_3344_5566_7788, "offset {at}");
        assert_eq!(world.get(u64::from(low)), 0x1122_3344_5566_7788);
    }
}

#[test]
fn pcids_keep_translations_apart() {
    // mov al,[PAGE]; mov cr3,rcx; mov al,[PAGE]; hlt, with another table for the second PCID that
    // does not map the page. rcx bit 63 asks to keep translations.
    let mut code = READ[..7].to_vec();
    code.extend([0x0f, 0x22, 0xd9]);
    code.extend(READ);
    for (pcid, keep, faults) in [(1u64, false, false), (1, true, false), (2, true, true)] {
        let mut config = crate::world::config(emu_x86::defs::Vendor::Intel);
        config.tlb = emu_x86::tlb::TlbSizes::default();
        let mut world = World::long_with(config, &code);
        world.cpu.state.cr4 |= cr4::PCIDE;
        world.cpu.state.cr3 = PML4 | 1;
        world.cpu.state.gpr[1] = PML4 | pcid | if keep { 1 << 63 } else { 0 };
        world.cpu.registers_changed();
        let entry = world.get(PT + 8 * (PAGE >> 12));
        // Make the page vanish behind the TLB's back.
        world.step();
        world.set_page(entry & !1);
        let end = world.run();
        let stale = keep && pcid == 1;
        if stale {
            assert_eq!(end, End::Halt(CODE + 17), "pcid {pcid} keep {keep}");
        } else {
            assert_eq!(end, End::Handler(vector::PF), "pcid {pcid} keep {keep} {faults}");
        }
    }
}

#[test]
fn global_pages_stay_over_a_load_of_cr3() {
    let mut code = READ[..7].to_vec();
    code.extend([0x0f, 0x22, 0xd9]);
    code.extend(READ);
    for (global, end) in [(0, End::Handler(vector::PF)), (0x100, End::Halt(CODE + 17))] {
        let mut config = crate::world::config(emu_x86::defs::Vendor::Intel);
        config.tlb = emu_x86::tlb::TlbSizes::default();
        let mut world = World::long_with(config, &code);
        world.set_page(PAGE | 3 | global);
        world.cpu.state.gpr[1] = PML4;
        world.step();
        world.set_page(0);
        assert_eq!(world.run(), end);
    }
}
