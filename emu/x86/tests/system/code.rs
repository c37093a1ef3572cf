//! Where instructions come from: lines, pages, and code that changes.

use emu_x86::defs::vector;

use crate::world::{CODE, End, PAGE, PT, World};

#[test]
fn an_instruction_may_cross_a_line_and_a_page() {
    // mov eax, imm32 at each offset around the end of a line and of the page.
    let code = [0xb8, 0x44, 0x33, 0x22, 0x11, 0xf4];
    for at in (56..66).chain(0xff8..0x1002) {
        let mut world = World::long(&[]);
        world.port.put(PAGE + at, &code);
        world.cpu.state.rip = PAGE + at;
        assert_eq!(world.run(), End::Halt(PAGE + at + 5), "at {at:#x}");
        assert_eq!(world.cpu.state.gpr[0], 0x1122_3344);
    }
}

#[test]
fn the_second_page_of_an_instruction_may_be_elsewhere_or_absent() {
    let next = PT + 8 * ((PAGE >> 12) + 1);
    let mut world = World::long(&[]);
    world.port.put(PAGE + 0xffe, &[0xb8, 0x44]);
    world.port.put(0x18_0000, &[0x33, 0x22, 0x11, 0xf4]);
    world.put(next, 0x18_0003);
    world.cpu.state.rip = PAGE + 0xffe;
    assert_eq!(world.run(), End::Halt(PAGE + 0x1003));
    assert_eq!(world.cpu.state.gpr[0], 0x1122_3344);

    let mut world = World::long(&[]);
    world.port.put(PAGE + 0xffe, &[0xb8, 0x44]);
    world.put(next, 0);
    world.cpu.state.rip = PAGE + 0xffe;
    assert_eq!(world.run(), End::Handler(vector::PF));
    assert_eq!(world.cpu.state.cr2, PAGE + 0x1000);
    assert_eq!(world.frame::<2>()[1], PAGE + 0xffe);
}

#[test]
fn code_that_writes_the_next_instruction_runs_the_new_one() {
    // mov byte [here + 8], 0x40 (then `inc`-like REX of the next); at +8: mov al, 1 becomes
    // mov al, 7 by writing its immediate.
    let mut code = vec![0xc6, 0x04, 0x25];
    code.extend((CODE as u32 + 9).to_le_bytes());
    code.push(7);
    code.extend([0xb0, 1, 0xf4]);
    let mut world = World::long(&code);
    assert_eq!(world.run(), End::Halt(CODE + 10));
    assert_eq!(world.cpu.state.gpr[0], 7);
}

#[test]
fn a_loop_that_writes_itself_sees_each_value() {
    // rbx counts; top: inc byte [imm of add]; add eax, imm8; dec ebx; jnz top; hlt
    let imm = CODE as u32 + 7 + 2;
    let mut code = vec![0xfe, 0x04, 0x25];
    code.extend(imm.to_le_bytes());
    code.extend([0x83, 0xc0, 0, 0xff, 0xcb, 0x75, 0xf2, 0xf4]);
    let mut world = World::long(&code);
    world.cpu.state.gpr[3] = 10;
    assert_eq!(world.run(), End::Halt(CODE + 14));
    assert_eq!(world.cpu.state.gpr[0], 55);
}

#[test]
fn a_page_under_two_addresses_is_decoded_for_both() {
    // lea rax, [rip]; hlt at PAGE, and the same page 4 KiB on.
    let mut world = World::long(&[0xe8, 0xfb, 0xff, 0x0e, 0x00, 0xf4]);
    world.port.put(PAGE, &[0x48, 0x8d, 0x05, 0, 0, 0, 0, 0xc3]);
    world.put(PT + 8 * ((PAGE >> 12) + 1), PAGE | 3);
    assert_eq!(world.run(), End::Halt(CODE + 5));
    assert_eq!(world.cpu.state.gpr[0], PAGE + 7);
    // The blocks that were decoded for the first address are there.
    let mut fresh = World::long(&[0xe8, 0xfb, 0x0f, 0x0f, 0x00, 0xf4]);
    fresh.port = world.port.clone();
    fresh.port.put(CODE, &[0xe8, 0xfb, 0x0f, 0x0f, 0x00, 0xf4]);
    fresh.unit = world.unit.clone();
    assert_eq!(fresh.run(), End::Halt(CODE + 5));
    assert_eq!(fresh.cpu.state.gpr[0], PAGE + 0x1007);
}

#[test]
fn a_long_run_without_jumps_passes_lines_and_pages() {
    let mut world = World::long(&[]);
    let bytes: Vec<u8> = [0x48, 0xff, 0xc0].repeat(400).into_iter().chain([0xf4]).collect();
    let at = PAGE + 0xe00;
    world.port.put(at, &bytes);
    world.cpu.state.rip = at;
    assert_eq!(world.run(), End::Halt(at + 1200));
    assert_eq!(world.cpu.state.gpr[0], 400);
}

#[test]
fn a_jump_to_nowhere_faults() {
    // jmp rax
    let mut world = World::long(&[0xff, 0xe0]);
    world.cpu.state.gpr[0] = 1 << 50;
    assert_eq!(world.run(), End::Handler(vector::GP));
    assert_eq!(world.frame::<2>(), [0, CODE]);
    // Into a device.
    let mut world = World::long(&[0xff, 0xe0]);
    world.put(0x2000 + 24, 0xc000_0083);
    world.cpu.state.gpr[0] = 0xfed8_0000;
    assert_eq!(world.run(), End::Handler(vector::UD));
}
