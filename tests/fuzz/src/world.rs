//! Machines for guest code of any kind: two cpus at a common start, in 64-bit mode.
//!
//! Both have a GDT with kernel and user segments, a call gate and a TSS each, an IDT whose
//! handlers go on one byte further and halt when there were too many exceptions, page tables with
//! every kind of page, SYSCALL, and an enabled APIC. The registers that they start with lie in a
//! table each, which a test fills: `Start`.

use emu_machine::{Image, Machine, Options, Stop, Until};
use emu_sim::SimTime;
use iced_x86::code_asm::*;
use iced_x86::{BlockEncoderOptions, Code, IcedError, Instruction};
use tests_litmus::x86::boot;

use crate::image::{self, segment};

const CODE: u64 = 0x10_0000;
const DATA: u64 = 0x20_0000;
const IDT: u64 = DATA;
const GDT: u64 = DATA + 0x1000;
const TSS: u64 = DATA + 0x1100;
const TSS_BYTES: u64 = 0x68;
/// Limit and base for LIDT and LGDT.
const IDTR: u64 = DATA + 0x1200;
const GDTR: u64 = DATA + 0x1210;
const READY: u64 = DATA + 0x1240;
const GO: u64 = DATA + 0x1280;
const FAULTS: u64 = DATA + 0x12c0;
/// Stacks of cpu 0: boot and ring 0, double faults, exceptions; those of cpu 1 lie behind.
const STACKS: u64 = DATA + 0x4000;
const STACK_BYTES: u64 = 0x1000;
const TABLES: u64 = 0x30_0000;
const APIC: u64 = 0xfee0_0000;
const TEST_DEVICE: u64 = 0xfed8_0000;
const REGION_BEGIN: i32 = 0x20;

/// Start tables, a page each.
const STARTS: u64 = DATA + 0x2000;
/// Code of each cpu, a page each; data pages follow.
pub(crate) const ARENA: u64 = 0x40_0000;
/// Pages of 4 KiB of sixteen kinds, over and over.
pub(crate) const SMALL_PAGES: u64 = 0x60_0000;
/// Exceptions after which a cpu halts, of both together.
const FAULTS_MAX: i32 = 24;

/// Registers of a cpu at its start.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Start {
    /// RAX, RCX, RDX, RBX, RBP, RSI, RDI, R8 to R15.
    pub(crate) gpr: [u64; 15],
    pub(crate) cs: u16,
    pub(crate) ss: u16,
    pub(crate) rflags: u64,
    pub(crate) rsp: u64,
}

impl Start {
    /// Where the code of a cpu begins.
    pub(crate) const fn code(cpu: usize) -> u64 {
        ARENA + cpu as u64 * 0x1000
    }

    /// Writes the table of a cpu.
    pub(crate) fn write(&self, machine: &mut Machine, cpu: usize) {
        let frame = [Start::code(cpu), self.cs.into(), self.rflags, self.rsp, u64::from(self.ss)];
        let bytes: Vec<u8> =
            self.gpr.iter().chain(&frame).flat_map(|word| word.to_le_bytes()).collect();
        machine.write_guest(STARTS + cpu as u64 * 0x1000, &bytes);
    }
}

/// Small caches and little memory make cheap forks.
pub(crate) fn small() -> [String; 5] {
    [
        "cache.l1i.size=4KiB",
        "cache.l1d.size=4KiB",
        "cache.l2.size=16KiB",
        "cache.l3.size=64KiB",
        "memory.per_node=16MiB",
    ]
    .map(str::to_owned)
}

/// Boots two cpus up to where they load their registers.
pub(crate) fn boot(options: Options) -> Machine {
    let topology = topology::Machine::load("duo", &small()).expect("a machine");
    let image = image(&topology).expect("it can be assembled");
    let mut machine = Machine::new(&topology, options).expect("it can be built");
    machine.load(&image, "").expect("it fits");
    let until = Until { time: SimTime::from_us(200), regions: true };
    let stop = machine.run(&until, &mut ());
    assert!(matches!(stop, Stop::Region { .. }), "both cpus start: {stop:?}");
    loop {
        let mut next = machine.clone();
        let time = next.now() + SimTime::from_ns(20);
        assert_eq!(next.run(&Until { time, regions: false }, &mut ()), Stop::TimeLimit);
        if next.read_guest_u64(GO) != 0 {
            return machine;
        }
        machine = next;
    }
}

/// An image for machines of any kind: cpu 0 stores, wakes all others, and waits; they halt.
pub(crate) fn wake_all() -> Result<Image, IcedError> {
    let mut a = CodeAssembler::new(64)?;
    a.mov(rdx, APIC)?;
    for (register, value) in [(0xf0, 0x1ff), (0x300, 0xc_4500), (0x300, 0xc_4680)] {
        a.mov(eax, value)?;
        a.mov(dword_ptr(rdx + register), eax)?;
        // The same in x2APIC mode, where the page is not there.
        a.mov(ecx, 0x800 + (register as u32 >> 4))?;
        a.mov(dword_ptr(DATA), eax)?;
        a.lock().inc(dword_ptr(DATA + 0x40))?;
    }
    a.mov(rax, DATA)?;
    a.xor(ecx, ecx)?;
    a.xor(edx, edx)?;
    a.monitor()?;
    a.xor(eax, eax)?;
    a.mwait()?;
    halt(&mut a)?;
    let code = a.assemble(CODE)?;
    Ok(image::image(
        topology::Isa::X86_64,
        CODE,
        vec![
            segment(boot::TRAMPOLINE, vec![0xf4, 0xeb, 0xfd]),
            segment(CODE, code),
            segment(DATA, vec![0; 0x100]),
        ],
    ))
}

fn image(topology: &topology::Machine) -> Result<Image, IcedError> {
    let is_x2apic = topology.apic.mode == topology::ApicMode::X2apic;
    let mut a = CodeAssembler::new(64)?;
    let mut labels: [CodeLabel; 8] = std::array::from_fn(|_| a.create_label());
    let [mut other, mut plain, mut coded, mut fatal, mut irq, mut call, mut syscall, mut end] =
        labels;
    boot::prepare(&mut a)?;
    boot::start(&mut a, topology.cpus[1].apic_id, is_x2apic, other, 1)?;
    common(&mut a, 0)?;
    let mut again = a.create_label();
    a.set_label(&mut again)?;
    a.cmp(dword_ptr(READY), 1)?;
    a.jne(again)?;
    a.mov(rdx, TEST_DEVICE)?;
    a.mov(qword_ptr(rdx + REGION_BEGIN), 1)?;
    // The mark stops the run a while after it is written.
    a.mov(ecx, 4000)?;
    let mut spend = a.create_label();
    a.set_label(&mut spend)?;
    a.dec(ecx)?;
    a.jne(spend)?;
    a.mov(qword_ptr(GO), 1)?;
    a.mfence()?;
    load_registers(&mut a, 0)?;
    a.set_label(&mut other)?;
    common(&mut a, 1)?;
    a.lock().inc(dword_ptr(READY))?;
    let mut wait = a.create_label();
    a.set_label(&mut wait)?;
    a.pause()?;
    a.cmp(qword_ptr(GO), 0)?;
    a.je(wait)?;
    load_registers(&mut a, 1)?;
    a.set_label(&mut plain)?;
    a.push(0)?;
    a.set_label(&mut coded)?;
    skip(&mut a, end)?;
    a.set_label(&mut fatal)?;
    a.nop()?;
    a.set_label(&mut end)?;
    halt(&mut a)?;
    a.set_label(&mut irq)?;
    end_interrupt(&mut a)?;
    a.set_label(&mut call)?;
    a.add_instruction(Instruction::with(Code::Retfq))?;
    a.set_label(&mut syscall)?;
    a.sysretq()?;
    labels = [other, plain, coded, fatal, irq, call, syscall, end];
    let options = BlockEncoderOptions::RETURN_NEW_INSTRUCTION_OFFSETS;
    let code = a.assemble_options(CODE, options)?;
    let mut at = [0; 8];
    for (at, label) in at.iter_mut().zip(&labels) {
        *at = code.label_ip(label)?;
    }
    let [_, plain, coded, fatal, irq, call, syscall, _] = at;
    let mut data = tables(&Handlers { plain, coded, fatal, irq, call });
    data[0x1300..0x1308].copy_from_slice(&syscall.to_le_bytes());
    Ok(image::image(
        topology::Isa::X86_64,
        CODE,
        vec![
            segment(boot::TRAMPOLINE, {
                let mut page = boot::trampoline()?;
                page.resize(0x1000, 0);
                page
            }),
            segment(CODE, code.inner.code_buffer),
            segment(DATA, data),
            segment(TABLES, page_tables()),
            segment(ARENA, vec![0xf4; 0x2000]),
        ],
    ))
}

/// Where SYSCALL goes is data, as code cannot name its own labels before it is assembled.
const LSTAR_VALUE: u64 = DATA + 0x1300;

/// What both cpus do: tables, TSS, SYSCALL, APIC, stack.
fn common(a: &mut CodeAssembler, cpu: u64) -> Result<(), IcedError> {
    a.mov(eax, 0x10)?;
    for segment in [ds, es, ss] {
        a.mov(segment, eax)?;
    }
    a.mov(rsp, stack_top(cpu, 0))?;
    a.mov(rax, TABLES)?;
    a.mov(cr3, rax)?;
    a.lgdt(ptr(GDTR))?;
    a.lidt(ptr(IDTR))?;
    a.mov(eax, 0x30 + 0x10 * cpu as u32)?;
    a.ltr(eax)?;
    // SYSCALL and no-execute, on top of what the hand-over sets.
    a.mov(ecx, 0xc000_0080_u32)?;
    a.rdmsr()?;
    a.or(eax, 0x801)?;
    a.wrmsr()?;
    a.mov(ecx, 0xc000_0081_u32)?;
    a.xor(eax, eax)?;
    a.mov(edx, 0x0018_0008)?;
    a.wrmsr()?;
    a.mov(ecx, 0xc000_0082_u32)?;
    a.mov(eax, dword_ptr(LSTAR_VALUE))?;
    a.xor(edx, edx)?;
    a.wrmsr()?;
    // OSFXSR, OSXMMEXCPT and XSAVE where it is there.
    a.mov(rdx, APIC)?;
    a.mov(dword_ptr(rdx + 0xf0), 0x1ff)
}

/// Loads all registers from the cpu's table, by IRETQ.
fn load_registers(a: &mut CodeAssembler, cpu: u64) -> Result<(), IcedError> {
    a.mov(rsp, STARTS + cpu * 0x1000)?;
    for register in [rax, rcx, rdx, rbx, rbp, rsi, rdi, r8, r9, r10, r11, r12, r13, r14, r15] {
        a.pop(register)?;
    }
    a.iretq()?;
    // An exception of IRETQ goes on here.
    halt(a)
}

/// Goes on a byte further, unless there were too many exceptions.
fn skip(a: &mut CodeAssembler, end: CodeLabel) -> Result<(), IcedError> {
    a.push(rax)?;
    a.lock().inc(dword_ptr(FAULTS))?;
    a.cmp(dword_ptr(FAULTS), FAULTS_MAX)?;
    a.ja(end)?;
    a.inc(qword_ptr(rsp + 16))?;
    a.pop(rax)?;
    a.add(rsp, 8)?;
    a.iretq()
}

fn end_interrupt(a: &mut CodeAssembler) -> Result<(), IcedError> {
    a.push(rdx)?;
    a.mov(rdx, APIC)?;
    a.mov(dword_ptr(rdx + 0xb0), 0)?;
    a.pop(rdx)?;
    a.iretq()
}

fn halt(a: &mut CodeAssembler) -> Result<(), IcedError> {
    let mut again = a.create_label();
    a.nop()?;
    a.set_label(&mut again)?;
    a.cli()?;
    a.hlt()?;
    a.jmp(again)
}

const fn stack_top(cpu: u64, n: u64) -> u64 {
    STACKS + (3 * cpu + n + 1) * STACK_BYTES
}

/// Addresses of the handlers.
struct Handlers {
    /// Exceptions without an error code.
    plain: u64,
    /// Those with one.
    coded: u64,
    /// Double fault.
    fatal: u64,
    /// Interrupts.
    irq: u64,
    /// Target of the call gate.
    call: u64,
}

/// Exceptions that push an error code.
const CODED: [usize; 7] = [10, 11, 12, 13, 14, 17, 21];

fn tables(to: &Handlers) -> Vec<u8> {
    let gate = |address: u64, kind: u64, ist: u64| {
        let low =
            address & 0xffff | 8 << 16 | ist << 32 | kind << 40 | (address >> 16 & 0xffff) << 48;
        [low, address >> 32]
    };
    let mut data = vec![0; (stack_top(1, 2) - DATA) as usize];
    let mut put = |at: u64, words: &[u64]| {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let at = (at - DATA) as usize;
        data[at..at + bytes.len()].copy_from_slice(&bytes);
    };
    for vector in 0..256 {
        let (address, ist) = match vector {
            8 => (to.fatal, 1),
            v if CODED.contains(&v) => (to.coded, 2),
            0..32 => (to.plain, 2),
            _ => (to.irq, 0),
        };
        // Breakpoint and overflow, and one interrupt, may be asked for by users.
        let kind = if matches!(vector, 3 | 4 | 0x80) { 0xee } else { 0x8e };
        put(IDT + 16 * vector as u64, &gate(address, kind, ist));
    }
    let tss = |cpu: u64| {
        let at = TSS + 0x80 * cpu;
        let low = (TSS_BYTES - 1) | (at & 0xff_ffff) << 16 | 0x89 << 40 | (at >> 24) << 56;
        [low, at >> 32]
    };
    let segments = [0, 0x00af_9b00_0000_ffff, 0x00cf_9300_0000_ffff];
    let user = [0x00cf_fb00_0000_ffff, 0x00cf_f300_0000_ffff, 0x00af_fb00_0000_ffff];
    // Then a 16-bit code segment, a data segment that expands down, and a call gate for users.
    let odd = [0x0000_9b00_0000_ffff, 0x0000_9700_0000_0fff];
    let call = gate(to.call, 0xec, 0);
    put(GDT, &[&segments[..], &user, &tss(0), &tss(1), &odd, &call].concat());
    for cpu in 0..2 {
        let mut words = [0; TSS_BYTES as usize / 4];
        let mut set = |at: usize, value: u64| {
            words[at / 4..at / 4 + 2].copy_from_slice(&[value & 0xffff_ffff, value >> 32])
        };
        set(4, stack_top(cpu, 0));
        set(0x24, stack_top(cpu, 1));
        set(0x2c, stack_top(cpu, 2));
        // No I/O map: its offset lies behind the limit.
        words[0x64 / 4] = TSS_BYTES << 16;
        let pairs: Vec<u64> = words.chunks(2).map(|w| w[0] | w[1] << 32).collect();
        put(TSS + 0x80 * cpu, &pairs);
    }
    put(IDTR, &[0xfff | IDT << 16, IDT >> 48]);
    put(GDTR, &[0x6f | GDT << 16, GDT >> 48]);
    data
}

/// Root, pointers, directory of the first GiB, directory of the devices, table of small pages.
fn page_tables() -> Vec<u8> {
    const PRESENT: u64 = 1;
    const WRITABLE: u64 = 2;
    const USER: u64 = 4;
    const UNCACHED: u64 = 0x18;
    const LARGE: u64 = 0x80;
    const RESERVED: u64 = 1 << 51;
    const NO_EXECUTE: u64 = 1 << 63;
    let all = PRESENT | WRITABLE | USER;
    let mut pages = [[0u64; 512]; 5];
    let table = |n: u64| TABLES + 0x1000 * n;
    pages[0][0] = table(1) | all;
    pages[1][0] = table(2) | all;
    pages[1][3] = table(3) | all;
    for (n, entry) in pages[2].iter_mut().take(8).enumerate() {
        // The tables above are the kernel's.
        let access = if n == 1 { PRESENT | WRITABLE } else { all };
        *entry = (n as u64) << 21 | LARGE | access;
    }
    pages[2][(SMALL_PAGES >> 21) as usize] = table(4) | all;
    for at in [0x1f6, 0x1f7] {
        pages[3][at] = 3 << 30 | (at as u64) << 21 | LARGE | UNCACHED | all;
    }
    for (n, entry) in pages[4].iter_mut().enumerate() {
        let page = SMALL_PAGES + 0x1000 * n as u64;
        *entry = match n % 16 {
            0..8 => page | (n as u64 & 7),
            8 => page | all | NO_EXECUTE,
            9 => page | all | RESERVED,
            10 => page | all | UNCACHED,
            11 => page | PRESENT | USER | NO_EXECUTE,
            // Two addresses of one page, and of the table itself.
            12 => (page - 0x1000) | all,
            13 => table(4) | all,
            14 => 1 << 40 | all,
            _ => page | all | 0x60,
        };
    }
    pages.iter().flatten().flat_map(|entry| entry.to_le_bytes()).collect()
}
