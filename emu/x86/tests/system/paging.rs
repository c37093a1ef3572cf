//! Page faults: rights of pages against kinds of access, reserved bits, accessed and dirty bits.

use emu_x86::defs::{cr0, cr4, efer, pf, rflags, vector};

use crate::world::{CODE, End, HANDLERS, PAGE, PML4, PT, World};

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
fn rights_of_upper_levels_count() {
    // Entry of the level, cleared bit or NX, access, error code.
    for level in [PML4, 0x2000, 0x3000] {
        for (clear, set, kind, code) in [
            (1, 0, Kind::Read, pf::U),
            (4, 0, Kind::Read, pf::U | pf::P),
            (2, 0, Kind::Write, pf::U | pf::P | pf::W),
            (0, NX, Kind::Fetch, pf::U | pf::P | pf::I),
            (0, RESERVED, Kind::Read, pf::U | pf::P | pf::RSVD),
        ] {
            let entry = 7;
            let (wp, smep, smap, ac) = (true, false, false, false);
            let case = Case { kind, user: true, entry, wp, smep, smap, ac };
            // A second way to the page, 512 GiB, 1 GiB or 2 MiB up, so that only it is affected.
            let (shift, other) = match level {
                PML4 => (39, 0x2000),
                0x2000 => (30, 0x3000),
                _ => (21, PT),
            };
            let mut world = world(case);
            world.put(level + 8, (other | 7) & !clear | set);
            let at = PAGE + (1 << shift);
            world.cpu.state.gpr[3] = at;
            match kind {
                Kind::Fetch => world.cpu.state.rip = at,
                Kind::Read => world.port.put(world.cpu.state.rip, &[0x8a, 0x03]),
                Kind::Write => world.port.put(world.cpu.state.rip, &[0x88, 0x03]),
            }
            assert_eq!(world.run(), End::Handler(vector::PF), "{level:#x} {kind:?}");
            assert_eq!(world.frame::<1>()[0], u64::from(code), "{level:#x} {kind:?}");
            assert_eq!(world.cpu.state.cr2, at);
        }
    }
}

#[test]
fn accessed_and_dirty_bits_are_set_by_need() {
    for (code, wanted) in [(READ, 0x20), (WRITE, 0x60)] {
        let mut world = World::long(&code);
        assert_eq!(world.run(), End::Halt(CODE + 7));
        assert_eq!(world.get(PT + 8 * (PAGE >> 12)) & 0x60, wanted);
        for table in [PML4, 0x2000, 0x3000] {
            assert_eq!(world.get(table) & 0x60, 0x20);
        }
    }
    // A read, then a write: the TLB entry is there, the dirty bit is not.
    let mut both = READ[..7].to_vec();
    both.extend(WRITE);
    let mut world = World::long(&both);
    assert_eq!(world.run(), End::Halt(CODE + 14));
    assert_eq!(world.get(PT + 8 * (PAGE >> 12)) & 0x60, 0x60);
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
fn large_pages_map_and_reserve() {
    // PD entry of 2 MiB at linear 2 MiB; PDPT entry of 1 GiB at linear 1 GiB.
    for (table, lin, entry, code) in [
        (0x3000, 0x20_0000u64, 0x83, None),
        (0x3000, 0x20_0000, 0x83 | 1 << 13, Some(pf::P | pf::RSVD)),
        (0x2000, 0x4000_0000, 0x83, None),
        (0x2000, 0x4000_0000, 0x83 | 1 << 20, Some(pf::P | pf::RSVD)),
        (PML4, 1 << 39, 0x83, Some(pf::P | pf::RSVD)),
    ] {
        let mut world = World::long(&[0x8b, 0x03, 0xf4]);
        world.put(table + 8, entry);
        world.cpu.state.gpr[3] = lin + 0x8000;
        world.put(0x8000, 0x1234_5678);
        let end = world.run();
        match code {
            None => {
                assert_eq!(end, End::Halt(CODE + 2));
                assert_eq!(world.cpu.state.gpr[0], 0x1234_5678);
            }
            Some(code) => {
                assert_eq!(end, End::Handler(vector::PF), "{entry:#x}");
                assert_eq!(world.frame::<1>()[0], u64::from(code));
            }
        }
    }
}

#[test]
fn the_fetch_bit_shows_only_where_a_fetch_can_be_forbidden() {
    for (nxe, smep, bit) in [(false, false, 0), (true, false, pf::I), (false, true, pf::I)] {
        let mut world = World::long(&[]);
        world.cpu.state.rip = PAGE;
        world.set_page(0);
        if !nxe {
            world.cpu.state.efer &= !efer::NXE;
        }
        if smep {
            world.cpu.state.cr4 |= cr4::SMEP;
        }
        world.cpu.registers_changed();
        assert_eq!(world.run(), End::Handler(vector::PF));
        assert_eq!(world.frame::<1>()[0], u64::from(bit), "NXE {nxe} SMEP {smep}");
    }
}

#[test]
fn addresses_that_are_not_canonical_fault_by_segment() {
    // mov al,[rbx]; mov al,[rsp].
    for (code, vector) in [(vec![0x8a, 0x03], vector::GP), (vec![0x8a, 0x04, 0x24], vector::SS)] {
        let mut world = World::long(&code);
        world.set_gate(vector, {
            let at = HANDLERS + u64::from(vector) * 16;
            crate::world::gate(crate::world::KERNEL_CS, at, 14, 0, 1)
        });
        world.cpu.state.gpr[3] = 1 << 47;
        world.cpu.state.gpr[4] = 1 << 47;
        assert_eq!(world.run(), End::Handler(vector));
        assert_eq!(world.frame::<1>()[0], 0);
    }
}

/// mov eax,[0x00c00000 + 0x4000]; hlt in 32-bit code, read from physical 0x8000.
fn world_32(pae: bool, put: impl Fn(&mut World)) -> World {
    let mut world = World::long(&[0xa1, 0, 0x40, 0xc0, 0, 0xf4]);
    let state = &mut world.cpu.state;
    state.efer = if pae { efer::NXE } else { 0 };
    state.cr4 = if pae { cr4::PAE } else { cr4::PSE };
    state.cr3 = 0x8_0000;
    for segment in &mut state.seg {
        segment.rights = segment.rights & 0xff | 0xc000;
    }
    world.port.put(0x8000, &0x1234_5678u32.to_le_bytes());
    put(&mut world);
    world.cpu.registers_changed();
    world
}

#[test]
fn two_level_paging_walks_and_has_4_mib_pages() {
    // PDE 0: 4 MiB identity; PDE 3: a table that maps page 4 to 0x8000, or a 4 MiB page.
    for (entry, value) in
        [(0x8_1003u32, 0x1234_5678), (0x0000_0083, 0), (0x0000_0083 | 1 << 13, u64::MAX)]
    {
        let mut world = world_32(false, |world| {
            world.port.put(0x8_0000, &0x83u32.to_le_bytes());
            world.port.put(0x8_0000 + 12, &entry.to_le_bytes());
            world.port.put(0x8_1000 + 16, &0x8003u32.to_le_bytes());
        });
        // A 4 MiB page shows physical 0x4000: the page table of the long-mode tables.
        let expected = if value == 0 { 3 | 0x20 } else { value };
        let _ = world.cpu.state.idtr;
        world.cpu.state.idtr.limit = 0;
        let end = world.run();
        if value == u64::MAX {
            assert_eq!(end, End::Shutdown, "reserved bit");
            assert_eq!(world.cpu.state.cr2, 0xc0_4000);
        } else {
            assert_eq!(end, End::Halt(CODE + 5), "{entry:#x}");
            assert_eq!(world.cpu.state.gpr[0] & !0x20, expected & !0x20, "{entry:#x}");
        }
        let pde = world.port.get(0x8_0000 + 12, 4) as u32;
        assert_eq!(pde & 0x20 != 0, value != u64::MAX, "accessed");
    }
}

#[test]
fn pae_paging_walks_three_levels() {
    let mut world = world_32(true, |world| {
        world.put(0x8_0000, 0x8_1001);
        world.put(0x8_1000, 0x83);
        world.put(0x8_1000 + 8 * 6, 0x8_2003);
        world.put(0x8_2000 + 8 * 4, 0x8003);
    });
    assert_eq!(world.run(), End::Halt(CODE + 5));
    assert_eq!(world.cpu.state.gpr[0], 0x1234_5678);
    assert_eq!(world.get(0x8_0000) & 0x20, 0, "PDPT entries have no accessed bit");
    assert_eq!(world.get(0x8_2000 + 8 * 4) & 0x20, 0x20);
}

#[test]
fn five_level_paging_needs_its_feature_and_reaches_bit_56() {
    let mut config = crate::world::config(emu_x86::defs::Vendor::Intel);
    config.features |= emu_x86::defs::Features::LA57;
    let mut world = World::long_with(config, &[0x8b, 0x03, 0xf4]);
    world.cpu.state.cr4 |= cr4::LA57;
    world.cpu.state.cr3 = 0x8_0000;
    world.put(0x8_0000, PML4 | 7);
    world.put(0x8_0000 + 8 * 255, PML4 | 7);
    world.cpu.state.gpr[3] = 255 << 48 | 0x8000;
    world.put(0x8000, 0x1234_5678);
    world.cpu.registers_changed();
    assert_eq!(world.run(), End::Halt(CODE + 2));
    assert_eq!(world.cpu.state.gpr[0], 0x1234_5678);
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
