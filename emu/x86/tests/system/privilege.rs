//! Which instruction is for which privilege level.

use emu_x86::defs::{cr4, vector};

use crate::world::{CODE, End, USER_CODE, World};

/// Instructions of CPL 0: name, bytes, exception at CPL 3.
const PRIVILEGED: [(&str, &[u8], u8); 25] = [
    ("hlt", &[0xf4], vector::GP),
    ("cli", &[0xfa], vector::GP),
    ("sti", &[0xfb], vector::GP),
    ("lgdt", &[0x0f, 0x01, 0x13], vector::GP),
    ("lidt", &[0x0f, 0x01, 0x1b], vector::GP),
    ("lldt", &[0x0f, 0x00, 0xd0], vector::GP),
    ("ltr", &[0x0f, 0x00, 0xd8], vector::GP),
    ("lmsw", &[0x0f, 0x01, 0xf0], vector::GP),
    ("clts", &[0x0f, 0x06], vector::GP),
    ("mov cr0", &[0x0f, 0x22, 0xc0], vector::GP),
    ("mov from cr3", &[0x0f, 0x20, 0xd8], vector::GP),
    ("mov dr7", &[0x0f, 0x23, 0xf8], vector::GP),
    ("mov cr1 is no register", &[0x0f, 0x22, 0xc8], vector::UD),
    ("invlpg", &[0x0f, 0x01, 0x3b], vector::GP),
    ("invpcid", &[0x66, 0x0f, 0x38, 0x82, 0x03], vector::GP),
    ("rdmsr", &[0x0f, 0x32], vector::GP),
    ("wrmsr", &[0x0f, 0x30], vector::GP),
    ("rdpmc", &[0x0f, 0x33], vector::GP),
    ("invd", &[0x0f, 0x08], vector::GP),
    ("wbinvd", &[0x0f, 0x09], vector::GP),
    ("swapgs", &[0x0f, 0x01, 0xf8], vector::GP),
    ("monitor", &[0x0f, 0x01, 0xc8], vector::UD),
    ("mwait", &[0x0f, 0x01, 0xc9], vector::UD),
    ("stac", &[0x0f, 0x01, 0xcb], vector::UD),
    ("in al, dx", &[0xec], vector::GP),
];

#[test]
fn users_may_not() {
    for (name, bytes, expected) in PRIVILEGED {
        let mut world = World::long(&[]).user(bytes);
        assert_eq!(world.run(), End::Handler(expected), "{name}");
        if expected == vector::GP {
            let [code, rip] = world.frame();
            assert_eq!((code, rip), (0, USER_CODE), "{name}");
        }
    }
}

#[test]
fn what_control_registers_allow_users() {
    // Bytes, CR4 bit, outcome with the bit clear and set.
    let fine = End::Handler(vector::BR);
    let ud = End::Handler(vector::UD);
    let gp = End::Handler(vector::GP);
    let table: [(&str, &[u8], u64, End, End); 6] = [
        ("rdtsc", &[0x0f, 0x31], cr4::TSD, fine, gp),
        ("rdpmc", &[0x0f, 0x33], cr4::PCE, gp, fine),
        ("sgdt", &[0x0f, 0x01, 0x04, 0x24], cr4::UMIP, fine, gp),
        ("str", &[0x0f, 0x00, 0xc8], cr4::UMIP, fine, gp),
        ("rdfsbase", &[0xf3, 0x48, 0x0f, 0xae, 0xc0], cr4::FSGSBASE, ud, fine),
        ("xgetbv", &[0x0f, 0x01, 0xd0], cr4::OSXSAVE, ud, fine),
    ];
    for (name, bytes, bit, clear, set) in table {
        for (is_set, expected) in [(false, clear), (true, set)] {
            let mut code = bytes.to_vec();
            // INT 5: the end of a run without fault.
            code.extend([0xcd, vector::BR]);
            let mut world = World::long(&[]).user(&code);
            let at = crate::world::HANDLERS + 16 * u64::from(vector::BR);
            let gate = crate::world::gate(crate::world::KERNEL_CS, at, 14, 3, 0);
            world.set_gate(vector::BR, gate);
            world.cpu.state.gpr[4] -= 0x40;
            if is_set {
                world.cpu.state.cr4 |= bit;
            }
            assert_eq!(world.run(), expected, "{name} {is_set}");
        }
    }
}

#[test]
fn the_permission_map_opens_ports() {
    // in al, 0x60; int 5
    for (bit, expected) in [(0u8, vector::BR), (1, vector::GP)] {
        let mut world = World::long(&[]).user(&[0xe4, 0x60, 0xcd, vector::BR]);
        let at = crate::world::HANDLERS + 16 * u64::from(vector::BR);
        world.set_gate(vector::BR, crate::world::gate(crate::world::KERNEL_CS, at, 14, 3, 0));
        world.cpu.state.tr.limit = 0x80;
        world.port.put(crate::world::TSS + 0x66, &[0x68, 0]);
        world.port.put(crate::world::TSS + 0x68 + 0xc, &[bit, 0]);
        assert_eq!(world.run(), End::Handler(expected));
    }
}

/// MOV to a control register at CPL 0: register, value, whether it is legal.
#[test]
fn control_registers_refuse_reserved_bits() {
    let pe_pg = 1 | 1 << 31;
    let table: [(u8, u64, bool); 13] = [
        (0, pe_pg | 1 << 16, true),
        (0, 1 << 31, false),
        (0, pe_pg | 1 << 29, false),
        (0, pe_pg | 1 << 32, false),
        (0, 1, false),
        (3, 0x1000, true),
        (3, 0x1000 | 1 << 46, false),
        (4, cr4::PAE | cr4::OSFXSR, true),
        (4, 0, false),
        (4, cr4::PAE | 1 << 15, false),
        (4, cr4::PAE | cr4::LA57, false),
        (8, 15, true),
        (8, 16, false),
    ];
    for (register, value, is_legal) in table {
        // mov crN, rax; hlt
        let (rex, n) = if register == 8 { (0x44, 0) } else { (0x40, register) };
        let mut world = World::long(&[rex, 0x0f, 0x22, 0xc0 | n << 3, 0xf4]);
        world.cpu.state.gpr[0] = value;
        let end = world.run();
        let expected = if is_legal { End::Halt(CODE + 4) } else { End::Handler(vector::GP) };
        assert_eq!(end, expected, "cr{register} = {value:#x}");
    }
}

#[test]
fn model_specific_registers() {
    // Number, value written, whether it is legal, value read back.
    let table: [(u32, u64, bool, u64); 14] = [
        (0xc000_0081, 0x0123_4567_89ab_cdef, true, 0x0123_4567_89ab_cdef),
        (0xc000_0082, 0x7fff_ffff_ffff, true, 0x7fff_ffff_ffff),
        (0xc000_0082, 1 << 47, false, 0),
        (0xc000_0084, 1 << 32 | 7, true, 7),
        (0xc000_0080, 0xd01, true, 0xd01),
        (0xc000_0080, 0xd01 | 1 << 20, false, 0),
        (0xc000_0080, 0xc01, false, 0),
        (0xc000_0103, 5, true, 5),
        (0x277, 0x0007_0406_0007_0406, true, 0x0007_0406_0007_0406),
        (0x277, 2, false, 0),
        (0xe1, 0xfffd, true, 0xfffd),
        (0xe1, 2, false, 0),
        (0x2ff, 0xc06, true, 0xc06),
        (0x1234_5678, 0, false, 0),
    ];
    for (number, value, is_legal, back) in table {
        // wrmsr; xor eax,eax; xor edx,edx; rdmsr; hlt
        let mut world = World::long(&[0x0f, 0x30, 0x31, 0xc0, 0x31, 0xd2, 0x0f, 0x32, 0xf4]);
        world.cpu.state.gpr[0] = value & 0xffff_ffff;
        world.cpu.state.gpr[2] = value >> 32;
        world.cpu.state.gpr[1] = u64::from(number);
        let end = world.run();
        if is_legal {
            assert_eq!(end, End::Halt(CODE + 8), "{number:#x} = {value:#x}");
            let read = world.cpu.state.gpr[2] << 32 | world.cpu.state.gpr[0];
            assert_eq!(read, back, "{number:#x}");
        } else {
            assert_eq!(end, End::Handler(vector::GP), "{number:#x} = {value:#x}");
        }
    }
}

#[test]
fn an_unknown_msr_is_reported() {
    let mut world = World::long(&[0x0f, 0x32]);
    world.cpu.state.gpr[1] = 0xdead;
    assert_eq!(world.run(), End::Handler(vector::GP));
    assert_eq!(world.port.unimplemented, [CODE]);
}
