//! Images that the lab brings along: the guest kernel, and a loop of a few instructions.

use guests_abi::note::{HASH_BYTES, OWNER};
use topology::Isa;

/// Returns the guest kernel for an instruction set; `cargo xtask guests` builds it.
#[must_use]
pub const fn kernel(isa: Isa) -> &'static [u8] {
    match isa {
        Isa::X86_64 => include_bytes!("../../../guests/images/x86_64/kern.elf"),
        Isa::Aarch64 => include_bytes!("../../../guests/images/aarch64/kern.elf"),
    }
}

/// Hash of the sources of both guest kernels, as text: results depend on them.
#[must_use]
pub(crate) fn hashes() -> String {
    let hash = |isa| {
        let image = kernel(isa);
        let found = image.windows(OWNER.len()).position(|bytes| bytes == OWNER);
        // The name is padded to words; the hash is what follows.
        let at = found.map_or(0, |at| at + OWNER.len().next_multiple_of(4));
        let bytes = image.get(at..at + HASH_BYTES / 4).unwrap_or_default();
        bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    hash(Isa::X86_64)
}

const LOAD_ADDRESS: u64 = 0x10_0000;
const LOAD_ADDRESS_ARM64: u64 = 0x8008_0000;
const HEADERS_BYTES: u64 = 64 + 56;

/// Returns a freestanding ELF64 for x86-64 that executes `turns` turns of an integer loop on one
/// cpu and then exits with code 0.
///
/// The loop has loads and stores to one line, a multiplication and dependent and independent
/// additions, twelve instructions a turn, and no loop that could be skipped: its counter counts.
#[must_use]
pub fn alu_loop(turns: u32) -> Vec<u8> {
    #[rustfmt::skip]
    let mut code = vec![
        0x48, 0x8d, 0x5c, 0x24, 0x80,             // lea rbx, [rsp-0x80]
        0x31, 0xc0,                               // xor eax, eax
        0x31, 0xd2,                               // xor edx, edx
        0xbe, 0x07, 0x00, 0x00, 0x00,             // mov esi, 7
    ];
    code.push(0xb9); // mov ecx, turns
    code.extend(turns.to_le_bytes());
    #[rustfmt::skip]
    let body = [
        0x48, 0x01, 0xf0,                         // add rax, rsi
        0x48, 0x31, 0xc2,                         // xor rdx, rax
        0x48, 0x89, 0x03,                         // mov [rbx], rax
        0x4c, 0x8b, 0x03,                         // mov r8, [rbx]
        0x4d, 0x01, 0xc1,                         // add r9, r8
        0x49, 0xd1, 0xc1,                         // rol r9, 1
        0x4c, 0x0f, 0xaf, 0xd6,                   // imul r10, rsi
        0x4d, 0x8d, 0x14, 0x12,                   // lea r10, [r10+rdx]
        0x4d, 0x85, 0xd2,                         // test r10, r10
        0x4c, 0x0f, 0x45, 0xda,                   // cmovne r11, rdx
    ];
    code.extend(body);
    code.extend([0xff, 0xc9]); // dec ecx
    let back = -(i8::try_from(body.len() + 4).unwrap_or(0));
    code.extend([0x75, back.to_le_bytes()[0]]); // jnz
    code.extend([0xb8]); // mov eax, exit register
    code.extend(0xfed8_0018u32.to_le_bytes());
    code.extend([0x31, 0xd2]); // xor edx, edx
    code.extend([0x48, 0x89, 0x10]); // mov [rax], rdx
    code.extend([0xf4, 0xeb, 0xfd]); // hlt; jmp back
    elf(62, LOAD_ADDRESS, &code)
}

/// The same for arm64: twelve instructions a turn that do the same.
#[must_use]
pub fn alu_loop_arm64(turns: u32) -> Vec<u8> {
    #[rustfmt::skip]
    let words = [
        0xd102_03e3,                              // sub x3, sp, #0x80
        0xd280_00e6,                              // mov x6, #7
        0x5280_0005 | (turns & 0xffff) << 5,      // mov w5, turns
        0x72a0_0005 | turns >> 16 << 5,
        0x8b06_0000,                              // add x0, x0, x6
        0xca00_0042,                              // eor x2, x2, x0
        0xf900_0060,                              // str x0, [x3]
        0xf940_0068,                              // ldr x8, [x3]
        0x8b08_0129,                              // add x9, x9, x8
        0x93c9_fd29,                              // ror x9, x9, #63
        0x9b06_7d4a,                              // mul x10, x10, x6
        0x8b02_014a,                              // add x10, x10, x2
        0xea0a_015f,                              // tst x10, x10
        0x9a8b_104b,                              // csel x11, x2, x11, ne
        0x7100_04a5,                              // subs w5, w5, #1
        0x54ff_fea1,                              // b.ne -44
        0xd2a1_2009,                              // mov x9, #0x9000000
        0xf900_0d3f,                              // str xzr, [x9, #0x18]
        0xd503_207f,                              // wfi
        0x17ff_ffff,                              // b -4
    ];
    let code: Vec<u8> = words.iter().flat_map(|word: &u32| word.to_le_bytes()).collect();
    elf(183, LOAD_ADDRESS_ARM64, &code)
}

/// Wraps code into an executable with one segment that begins with the headers.
fn elf(machine: u16, address: u64, code: &[u8]) -> Vec<u8> {
    let entry = address + HEADERS_BYTES;
    let mut file = vec![0x7f, b'E', b'L', b'F', 2, 1, 1];
    file.resize(16, 0);
    let half = |file: &mut Vec<u8>, value: u16| file.extend(value.to_le_bytes());
    half(&mut file, 2); // ET_EXEC
    half(&mut file, machine);
    file.extend(1u32.to_le_bytes());
    for value in [entry, 64, 0] {
        file.extend(value.to_le_bytes());
    }
    file.extend(0u32.to_le_bytes());
    for value in [64, 56, 1, 0, 0, 0] {
        half(&mut file, value);
    }
    file.extend(1u32.to_le_bytes()); // PT_LOAD
    file.extend(7u32.to_le_bytes());
    let size = HEADERS_BYTES + code.len() as u64;
    for value in [0, address, address, size, size, 4096] {
        file.extend(value.to_le_bytes());
    }
    file.extend(code);
    file
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rig::{Program, Rig};
    use emu_machine::{Machine, Options, Stop, Until};
    use emu_sim::{CpuId, SimTime};

    #[test]
    fn the_loop_is_a_whole_executable() {
        let file = alu_loop(1000);
        assert_eq!(&file[..4], b"\x7fELF");
        assert_eq!(file[120..].len() as u64 + HEADERS_BYTES, file.len() as u64);
        let end = file.len();
        assert_eq!(file[end - 3..], [0xf4, 0xeb, 0xfd]);
        // The backward jump lands on the first instruction of the turn.
        let jump = end - 3 - 3 - 2 - 5 - 2;
        let to = jump + 2 - usize::from(file[jump + 1].wrapping_neg());
        assert_eq!(file[to..to + 3], [0x48, 0x01, 0xf0]);
    }

    #[test]
    fn the_loop_runs_on_a_machine_and_passes() {
        for (name, image) in [("duo", alu_loop(1000)), ("duo-arm", alu_loop_arm64(1000))] {
            let topology = crate::machines::load(name, &[]).expect("machine");
            let mut machine =
                <Machine as Rig>::build(&topology, Options::default(), &Program::new(&image, ""))
                    .expect(name);
            let until = Until { time: SimTime::from_us(1000), regions: false };
            assert_eq!(machine.run(&until, &mut ()), Stop::Exit { code: 0 });
            let counters = machine.counters(CpuId(0));
            // The stop takes a while to arrive; the loop after the exit may begin.
            assert!((12_006..12_100).contains(&counters.instructions), "{name}: {counters:?}");
        }
    }
}
