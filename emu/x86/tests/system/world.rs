//! A small machine for tests: 64-bit mode with paging, descriptor tables, and a handler that halts
//! for each vector.
//!
//! | address | what |
//! |---|---|
//! | 0x1000 | PML4, PDPT (0x2000), PD (0x3000), PT of the first 2 MiB (0x4000) |
//! | 0x5000 | GDT |
//! | 0x6000 | IDT |
//! | 0x7000 | TSS |
//! | 0x10000 | supervisor code, 0x11000 user code |
//! | 0x20000 | stacks: CPL 0 ends at 0x21000, IST1 at 0x22000, RSP0 at 0x23000, CPL 3 at 0x24000 |
//! | 0x40000 | handlers, 16 bytes each: HLT |
//! | 0x100000 | the page that tests play with |
//!
//! All is identity-mapped; user code and its stack are user pages.

use std::sync::Arc;

use emu_cpu::flat::{FlakyPort, FlatPort};
use emu_cpu::isa::{Flow, Isa};
use emu_cpu::wait::WaitReason;
use emu_sim::{ApicId, Freq};
use emu_x86::code::CodeCache;
use emu_x86::defs::{Features, Vendor, cr0, cr4, efer, rights};
use emu_x86::state::{SegReg, Segment, TableReg, gpr};
use emu_x86::tlb::TlbSizes;
use emu_x86::{CpuConfig, CpuIdentity, CpuidRow, IdleTable, X86Cpu};

pub(crate) const PML4: u64 = 0x1000;
pub(crate) const PT: u64 = 0x4000;
pub(crate) const GDT: u64 = 0x5000;
pub(crate) const IDT: u64 = 0x6000;
pub(crate) const TSS: u64 = 0x7000;
pub(crate) const CODE: u64 = 0x10000;
pub(crate) const USER_CODE: u64 = 0x11000;
pub(crate) const STACK: u64 = 0x21000;
pub(crate) const IST1: u64 = 0x22000;
pub(crate) const RSP0: u64 = 0x23000;
pub(crate) const USER_STACK: u64 = 0x24000;
pub(crate) const HANDLERS: u64 = 0x40000;
pub(crate) const PAGE: u64 = 0x10_0000;
const MEMORY: usize = 0x18_1000;

/// Selectors of the GDT; from 0x40 on tests fill it.
pub(crate) const KERNEL_CS: u16 = 0x08;
pub(crate) const KERNEL_DS: u16 = 0x10;
pub(crate) const USER_CS32: u16 = 0x1b;
pub(crate) const USER_DS: u16 = 0x23;
pub(crate) const USER_CS: u16 = 0x2b;
pub(crate) const TSS_SELECTOR: u16 = 0x30;

const STEPS_MAX: u32 = 2_000;

/// A machine, before or after a run.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) cpu: X86Cpu,
    pub(crate) port: FlatPort,
    pub(crate) unit: CodeCache,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// In the handler of this vector.
    Handler(u8),
    /// HLT elsewhere.
    Halt(u64),
    /// Another wait.
    Sleep(WaitReason),
    /// Triple fault.
    Shutdown,
    /// Still running.
    Running,
}

pub(crate) fn config(vendor: Vendor) -> CpuConfig {
    CpuConfig {
        vendor,
        features: Features::all() - Features::LA57,
        phys_addr_bits: 46,
        mmio: vec![0xc000_0000..0x1_0000_0000, 1 << 44..1 << 52],
        tlb: TlbSizes { data: (2, 2), code: (2, 2), second: (4, 2), second_latency: 7 },
        tsc: Freq::from_khz(2_000_000),
        apic_timer: Freq::from_khz(100_000),
        idle: IdleTable {
            hlt: Some(1),
            mwait: vec![(0, 2), (0x10, 3)],
            ports: vec![(0x414, 4)],
            umwait: [Some(5), Some(6)],
        },
        icr_ordered: true,
        starts_in_x2apic: false,
    }
}

pub(crate) fn cpu(config: CpuConfig) -> X86Cpu {
    let cpuid = [
        CpuidRow { leaf: 0, subleaf: None, regs: [5, 0, 0, 0] },
        CpuidRow { leaf: 1, subleaf: None, regs: [0x00a0_0f11, 0x00ff_0800, 0, 1 << 9] },
        CpuidRow { leaf: 5, subleaf: None, regs: [64, 64, 3, 0] },
    ];
    let identity = CpuIdentity { apic_id: ApicId(7), is_bsp: true, cpuid: Arc::from(cpuid) };
    X86Cpu::new(Arc::new(config), identity)
}

/// A descriptor of code, data or a system segment.
pub(crate) fn descriptor(base: u64, limit: u32, rights: u16) -> u64 {
    u64::from(limit & 0xffff)
        | (base & 0x00ff_ffff) << 16
        | u64::from(rights & 0xf0ff) << 40
        | u64::from(limit >> 16 & 0xf) << 48
        | (base >> 24 & 0xff) << 56
}

/// A gate of a 64-bit IDT.
pub(crate) fn gate(selector: u16, offset: u64, kind: u16, dpl: u16, ist: u16) -> [u64; 2] {
    let rights = u64::from(kind | dpl << 5 | rights::P);
    let low = offset & 0xffff | u64::from(selector) << 16 | u64::from(ist) << 32 | rights << 40;
    [low | (offset >> 16 & 0xffff) << 48, offset >> 32]
}

impl World {
    /// A cpu at CPL 0 in 64-bit mode with `code` at `CODE`.
    pub(crate) fn long(code: &[u8]) -> World {
        Self::long_with(config(Vendor::Intel), code)
    }

    pub(crate) fn long_with(config: CpuConfig, code: &[u8]) -> World {
        let mut cpu = cpu(config);
        let mut port = FlatPort::new(MEMORY);
        let flat = |rights: u16| descriptor(0, 0xf_ffff, rights);
        let mut world = {
            let state = &mut cpu.state;
            state.cr0 = cr0::PE | cr0::PG | cr0::WP | cr0::ET | cr0::NE;
            state.cr3 = PML4;
            state.cr4 = cr4::PAE | cr4::PGE;
            state.efer = efer::LME | efer::LMA | efer::NXE | efer::SCE;
            state.gdtr = TableReg { base: GDT, limit: 0xff };
            state.idtr = TableReg { base: IDT, limit: 0xfff };
            state.tr = Segment { selector: TSS_SELECTOR, base: TSS, limit: 0x67, rights: 0x8b };
            let data = Segment { selector: KERNEL_DS, base: 0, limit: u32::MAX, rights: 0xc093 };
            state.seg = [data; 6];
            state.seg[SegReg::Cs as usize] =
                Segment { selector: KERNEL_CS, base: 0, limit: u32::MAX, rights: 0xa09b };
            state.rip = CODE;
            state.gpr = [0; 16];
            state.gpr[gpr::RSP] = STACK;
            port.put(CODE, code);
            World { cpu, port, unit: CodeCache::default() }
        };
        world.put(PML4, 0x2007);
        world.put(0x2000, 0x3007);
        world.put(0x3000, 0x4007);
        for page in 0..512 {
            let is_user = matches!(page, 0x11 | 0x23);
            world.put(PT + page * 8, page << 12 | if is_user { 7 } else { 3 });
        }
        for (n, rights) in [0, 0xa09b, 0xc093, 0xc0fb, 0xc0f3, 0xa0fb].into_iter().enumerate() {
            world.put(GDT + 8 * n as u64, if n == 0 { 0 } else { flat(rights) });
        }
        world.put(GDT + u64::from(TSS_SELECTOR), descriptor(TSS, 0x67, 0x89));
        for vector in 0..256 {
            let at = HANDLERS + vector * 16;
            world.port.put(at, &[0xf4]);
            world.set_gate(vector as u8, gate(KERNEL_CS, at, rights::INTERRUPT_GATE, 0, 0));
        }
        world.put(TSS + 4, RSP0);
        world.put(TSS + 0x24, IST1);
        // No I/O permission map.
        world.port.put(TSS + 0x66, &[0xff, 0xff]);
        world.cpu.registers_changed();
        world
    }

    /// Goes to CPL 3 at `USER_CODE`, with `code` there.
    pub(crate) fn user(mut self, code: &[u8]) -> World {
        self.port.put(USER_CODE, code);
        let state = &mut self.cpu.state;
        state.rip = USER_CODE;
        state.gpr[gpr::RSP] = USER_STACK;
        let data = Segment { selector: USER_DS, base: 0, limit: u32::MAX, rights: 0xc0f3 };
        state.seg = [data; 6];
        state.seg[SegReg::Cs as usize] =
            Segment { selector: USER_CS, base: 0, limit: u32::MAX, rights: 0xa0fb };
        self.cpu.registers_changed();
        self
    }

    pub(crate) fn put(&mut self, at: u64, value: u64) {
        self.port.put(at, &value.to_le_bytes());
    }

    pub(crate) fn get(&self, at: u64) -> u64 {
        self.port.get(at, 8) as u64
    }

    pub(crate) fn set_gate(&mut self, vector: u8, [low, high]: [u64; 2]) {
        self.put(IDT + u64::from(vector) * 16, low);
        self.put(IDT + u64::from(vector) * 16 + 8, high);
    }

    pub(crate) fn set_descriptor(&mut self, selector: u16, value: u64) {
        self.put(GDT + u64::from(selector & !7), value);
    }

    /// Entry of `PAGE` in the page table.
    pub(crate) fn set_page(&mut self, entry: u64) {
        self.put(PT + (PAGE >> 12) * 8, entry);
    }

    /// Words of the stack from RSP on.
    pub(crate) fn frame<const N: usize>(&self) -> [u64; N] {
        let rsp = self.cpu.state.gpr[gpr::RSP];
        std::array::from_fn(|i| self.get(rsp + 8 * i as u64))
    }

    fn end_of(&self, flow: Flow) -> Option<End> {
        match flow {
            Flow::Next => None,
            Flow::Shutdown => Some(End::Shutdown),
            Flow::Sleep(request) if request.reason == WaitReason::Halt => {
                let at = self.cpu.linear_pc() - 1;
                let is_handler =
                    (HANDLERS..HANDLERS + 0x1000).contains(&at) && at.is_multiple_of(16);
                let vector = ((at - HANDLERS.min(at)) / 16) as u8;
                Some(if is_handler { End::Handler(vector) } else { End::Halt(at) })
            }
            Flow::Sleep(request) => Some(End::Sleep(request.reason)),
        }
    }

    fn run_flat(&mut self) -> End {
        for _ in 0..STEPS_MAX {
            let flow = self.cpu.step(&mut self.unit, &mut self.port).expect("flat memory");
            if let Some(end) = self.end_of(flow) {
                return end;
            }
        }
        End::Running
    }

    /// One step with memory that answers at once.
    pub(crate) fn step(&mut self) -> Flow {
        self.cpu.step(&mut self.unit, &mut self.port).expect("flat memory")
    }

    fn run_flaky(&mut self, seed: u64) -> End {
        let port = std::mem::replace(&mut self.port, FlatPort::new(0));
        let mut flaky = FlakyPort::new(port, seed);
        let mut end = End::Running;
        for _ in 0..STEPS_MAX {
            let flow = flaky.run(|port| self.cpu.step(&mut self.unit, port));
            if let Some(this) = self.end_of(flow) {
                end = this;
                break;
            }
        }
        self.port = flaky.inner;
        end
    }

    /// Runs until the cpu waits or shuts down, also with memory that makes it start again, which
    /// must not show.
    pub(crate) fn run(&mut self) -> End {
        self.run_with_seeds(4)
    }

    /// As `run`, with fewer or more schedules of waits.
    pub(crate) fn run_with_seeds(&mut self, seeds: u64) -> End {
        let mut others: Vec<_> = (1..seeds).map(|seed| (seed, self.clone())).collect();
        let end = self.run_flat();
        for (seed, other) in &mut others {
            assert_eq!(other.run_flaky(*seed), end, "end with seed {seed}");
            assert_eq!(other.cpu.state, self.cpu.state, "registers with seed {seed}");
            assert!(other.port.memory == self.port.memory, "memory with seed {seed}");
            assert_eq!(other.port.signals, self.port.signals, "signals with seed {seed}");
            assert_eq!(other.port.monitor, self.port.monitor, "monitor with seed {seed}");
        }
        end
    }
}
