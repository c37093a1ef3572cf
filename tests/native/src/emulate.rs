//! One case on the emulator.

use emu_cpu::flat::FlatPort;
use emu_x86::ctx::{Exception, Trap};
use emu_x86::decode::{Kind, Mode, Op, decode_block};
use emu_x86::defs::Vendor;
use emu_x86::exec::Next;
use emu_x86::exec::run_body;
use emu_x86::flat_user::{CODE, PAGES, user_world};
use emu_x86::state::SegReg;
use emu_x86::{X86Cpu, state::State};

use crate::case::{CLEAR_FLAGS, Case, End, Outcome};

/// Most iterations of a repeated string instruction.
const REPEATS_MAX: u32 = 0x4000;
const PAGE: usize = 0x1000;

/// What the emulator makes of bytes: the first instruction.
#[must_use]
pub fn decode(code: &[u8]) -> Op {
    // What follows is never executed, but iced reads on before it calls bytes invalid.
    let mut padded = [0xcc; 24];
    padded[..code.len()].copy_from_slice(code);
    let block = decode_block(&padded, CODE, Mode { bits: 64 });
    let invalid = Op { kind: Kind::Invalid, ..Op::default() };
    block.ops.first().copied().unwrap_or(invalid)
}

/// An emulated cpu that runs cases one by one.
#[derive(Debug)]
pub struct Emulator {
    cpu: X86Cpu,
    port: FlatPort,
    clean: State,
}

impl Emulator {
    /// A cpu of a vendor; with `la57`, linear addresses of 57 bits.
    #[must_use]
    pub fn new(vendor: Vendor, la57: bool) -> Self {
        let (cpu, port) = user_world(vendor, la57);
        let clean = cpu.state.clone();
        Emulator { cpu, port, clean }
    }

    /// Runs one case.
    pub fn run(&mut self, case: &Case) -> Outcome {
        self.load(case);
        let before: Vec<Vec<u8>> = PAGES.iter().map(|page| self.page(page.0).to_vec()).collect();
        let op = decode(&case.code);
        let end = self.execute(&op, case);
        let mut memory = Vec::new();
        for ((page, ..), before) in PAGES.iter().zip(&before) {
            let after = self.page(*page);
            if after != before.as_slice() {
                let pairs = before.iter().zip(after).enumerate();
                let changed = pairs.filter(|(_, (old, new))| old != new);
                memory.extend(changed.map(|(i, (_, new))| (page + i as u64, *new)));
            }
        }
        self.outcome(end, memory)
    }

    fn page(&self, page: u64) -> &[u8] {
        &self.port.memory[page as usize..page as usize + PAGE]
    }

    fn load(&mut self, case: &Case) {
        let Emulator { cpu, port, clean } = self;
        cpu.state = clean.clone();
        let state = &mut cpu.state;
        state.gpr = case.gpr;
        state.rflags = CLEAR_FLAGS | case.flags;
        state.fp.xmm = case.xmm;
        state.fp.mxcsr = case.mxcsr;
        (state.fp.fcw, state.fp.fsw, state.fp.ftw) = (case.fcw, case.fsw, case.ftw);
        cpu.registers_changed();
        for (page, _, is_code) in PAGES {
            let fill = if is_code { 0xcc } else { 0 };
            port.memory[page as usize..page as usize + PAGE].fill(fill);
        }
        port.memory[CODE as usize..CODE as usize + case.code.len()].copy_from_slice(&case.code);
        for (at, bytes) in &case.memory {
            let at = *at as usize;
            port.memory[at..at + bytes.len()].copy_from_slice(bytes);
        }
        port.fences.clear();
        port.notes.clear();
        port.device_log.clear();
        port.unimplemented.clear();
    }

    fn execute(&mut self, op: &Op, case: &Case) -> End {
        for _ in 0..REPEATS_MAX {
            return match run_body(&mut self.cpu, &mut self.port, op) {
                Ok(Next::Repeat) => continue,
                Ok(Next::Seq) if usize::from(op.len) == case.code.len() => End::At(case.next()),
                Ok(Next::Jump(target)) => End::At(target),
                Ok(_) | Err(Trap::Wait) => End::Stuck,
                Err(Trap::Fault(Exception { vector, code, cr2 })) => {
                    End::Fault(vector, code.unwrap_or(0), cr2)
                }
            };
        }
        End::Stuck
    }

    fn outcome(&self, end: End, memory: Vec<(u64, u8)>) -> Outcome {
        let state = &self.cpu.state;
        let segment = |seg: SegReg| state.seg[seg as usize];
        let selectors = [SegReg::Ds, SegReg::Es, SegReg::Fs, SegReg::Gs];
        let top = usize::from(state.fp.fsw >> 11 & 7);
        Outcome {
            end,
            gpr: state.gpr,
            rflags: state.rflags,
            xmm: state.fp.xmm,
            mxcsr: state.fp.mxcsr,
            fcw: state.fp.fcw,
            fsw: state.fp.fsw,
            ftw: state.fp.ftw,
            st: std::array::from_fn(|i| state.fp.st[(top + i) & 7]),
            bases: [segment(SegReg::Fs).base, segment(SegReg::Gs).base],
            selectors: selectors.map(|seg| segment(seg).selector),
            memory,
        }
    }
}
