//! The model's side: one cpu over flat memory.

use std::sync::Arc;

use emu_arm64::cpu::{ArmCpu, CpuConfig, CpuIdentity, Gic};
use emu_arm64::ctx::{Next, Trap};
use emu_arm64::decode::decode;
use emu_arm64::defs::{Ec, Features};
use emu_arm64::exec::execute;
use emu_arm64::sysreg::Cell;
use emu_arm64::tlb::TlbSizes;
use emu_cpu::flat::{FlakyPort, FlatPort};
use emu_cpu::port::{Port, Wait};
use emu_sim::Freq;

use crate::case::{CODE, Case, MEMORY, MEMORY_BYTES, Outcome, TAKEN};

/// Address of the translation table.
const TABLE: u64 = 0x1000;

/// A cpu and its memory.
#[derive(Clone, Debug)]
pub struct World {
    cpu: ArmCpu,
    port: FlatPort,
}

impl Default for World {
    fn default() -> Self {
        let config = CpuConfig {
            features: Features::LSE | Features::CRC32 | Features::LRCPC,
            ids: Arc::from([]),
            ccsidr: Vec::new(),
            tlb: TlbSizes::default(),
            cycle: Freq::from_khz(1_000_000),
            phys_addr_bits: 48,
            mmio: Vec::new(),
            counter: Freq::from_khz(100_000),
            gic: Gic::V3,
            entry_level: 1,
            event_at_reset: false,
            wfi_state: None,
            suspend_states: Vec::new(),
        };
        let identity = CpuIdentity {
            mpidr: 0,
            midr: 0,
            is_boot: true,
            gic_frame: None,
            number: 0,
            is_last: true,
        };
        let mut cpu = ArmCpu::new(Arc::new(config), identity);
        let mut port = FlatPort::new((MEMORY as usize) + MEMORY_BYTES);
        // One block of 1 GiB, normal memory, open to LDTR: without translation every unaligned
        // access faults.
        port.put(TABLE, &(1u64 | 1 << 6 | 1 << 10).to_le_bytes());
        cpu.sys[Cell::TcrEl1] = 25 | 25 << 16 | 5 << 32;
        cpu.sys[Cell::Ttbr0El1] = TABLE;
        cpu.sys[Cell::MairEl1] = 0xff;
        cpu.sys[Cell::SctlrEl1] |= 1;
        cpu.sys[Cell::CpacrEl1] = 3 << 20;
        World { cpu, port }
    }
}

fn step<P: Port>(cpu: &mut ArmCpu, port: &mut P, word: u32) -> Result<Outcome, Wait> {
    let before = cpu.state.clone();
    let op = decode(word);
    let result = cpu.run_body(port, |ctx| execute(ctx, &op));
    if result.is_err() {
        assert_eq!(cpu.state, before, "{word:08x} changed registers and did not end");
    }
    Ok(match result {
        Ok(Next::Seq) => Outcome::GoesOn,
        Ok(Next::Jump(TAKEN)) => Outcome::Jumps,
        Ok(_) => Outcome::Faults,
        Err(Trap::Fault(exception)) if exception.class == Ec::Unknown => Outcome::Undefined,
        Err(Trap::Fault(_)) => Outcome::Faults,
        Err(Trap::Wait) => return Err(Wait),
    })
}

impl World {
    fn load(&mut self, case: &Case) {
        let state = &mut self.cpu.state;
        state.x = case.x;
        state.sp[1] = case.sp;
        state.pstate.nzcv = case.nzcv as u32;
        state.fpsr = case.fpsr as u32;
        state.v = case.v;
        self.port.put(MEMORY, &case.memory);
        self.port.monitor = emu_cpu::wait::MonitorState::Unarmed;
    }

    fn store(&self, words: [u32; 2], outcome: Outcome) -> Case {
        let state = &self.cpu.state;
        let mut memory = [0; MEMORY_BYTES];
        memory.copy_from_slice(&self.port.memory[MEMORY as usize..]);
        Case {
            words,
            outcome,
            x: state.x,
            sp: state.sp[1],
            nzcv: u64::from(state.pstate.nzcv),
            fpsr: u64::from(state.fpsr),
            v: state.v,
            memory,
        }
    }

    /// Runs a record; with a seed, requests wait and instructions run again.
    ///
    /// # Panics
    /// When an instruction breaks the restart rule.
    pub fn run(&mut self, case: &Case, seed: Option<u64>) -> Case {
        self.load(case);
        let mut outcome = Outcome::GoesOn;
        for (n, word) in case.words.into_iter().enumerate() {
            self.cpu.state.pc = CODE + 4 * n as u64;
            let cpu = &mut self.cpu;
            outcome = if let Some(seed) = seed {
                let inner = std::mem::replace(&mut self.port, FlatPort::new(0));
                let mut port = FlakyPort::new(inner, seed);
                let outcome = port.run(|port| step(cpu, port, word));
                self.port = port.inner;
                outcome
            } else {
                step(cpu, &mut self.port, word).unwrap_or(Outcome::Faults)
            };
            if outcome != Outcome::GoesOn {
                break;
            }
        }
        self.store(case.words, outcome)
    }
}
