//! A small machine for tests: EL1 with translation on.
//!
//! | address | what |
//! |---|---|
//! | 0x1000 | tables of levels 0 to 3, a page each, of the lower range: the first 2 MiB, identity |
//! | 0x5000 | table of level 0 of the upper range, which goes on at 0x2000 |
//! | 0x8000 | vectors of EL1, 0x9000 of EL2 |
//! | 0x10000 | the page that tests play with, 0x11000 the one behind |
//! | 0x4000_0000 | a device |

use std::sync::Arc;

use emu_arm64::cpu::{ArmCpu, CpuConfig, CpuIdentity, Gic};
use emu_arm64::ctx::{Ctx, Exception, Exec, Trap};
use emu_arm64::defs::{Features, SysReg};
use emu_arm64::sysreg::Cell;
use emu_arm64::tlb::TlbSizes;
use emu_cpu::flat::{FlakyPort, FlatPort};
use emu_cpu::port::{Port, Wait};
use emu_sim::Freq;

pub(crate) const L0: u64 = 0x1000;
pub(crate) const L1: u64 = 0x2000;
pub(crate) const L2: u64 = 0x3000;
pub(crate) const L3: u64 = 0x4000;
pub(crate) const UPPER: u64 = 0x5000;
pub(crate) const VECTORS: u64 = 0x8000;
pub(crate) const VECTORS_EL2: u64 = 0x9000;
pub(crate) const PAGE: u64 = 0x1_0000;
pub(crate) const DEVICE: u64 = 0x4000_0000;
pub(crate) const GIC_FRAME: u64 = 0x5000_0000;
/// First address of the upper range.
pub(crate) const HIGH: u64 = 0xffff_0000_0000_0000;

/// Page descriptor: valid, access flag, inner shareable, attribute 0, not executable anywhere.
pub(crate) const PAGE_BITS: u64 = 3 | 1 << 10 | 3 << 8 | 3 << 53;

/// A machine.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) cpu: ArmCpu,
    pub(crate) port: FlatPort,
}

/// A body as tests give it, for both kinds of ports.
pub(crate) trait Body<T> {
    fn run<P: Port>(&self, ctx: &mut Ctx<'_, P>) -> Exec<T>;
}

pub(crate) fn config(features: Features, entry_level: u8) -> CpuConfig {
    CpuConfig {
        features,
        ids: Arc::from([(SysReg::new(3, 0, 0, 7, 0), 0x1122), (SysReg::new(3, 1, 0, 0, 1), 0x9)]),
        ccsidr: vec![(0, 0x700f), (2, 0x701f)],
        phys_addr_bits: 40,
        mmio: vec![DEVICE..0x6000_0000, 1 << 39..1 << 40],
        tlb: TlbSizes { data: (2, 2), code: (2, 2), second: (4, 2), second_latency: 5 },
        counter: Freq::from_khz(25_000),
        cycle: Freq::from_khz(2_000_000),
        gic: Gic::V3,
        entry_level,
        event_at_reset: false,
        wfi_state: Some(1),
        suspend_states: vec![(1, 1), (0x1_0002, 2)],
    }
}

impl World {
    pub(crate) fn new() -> World {
        World::with(Features::all(), 1)
    }

    pub(crate) fn with(features: Features, entry_level: u8) -> World {
        let identity = CpuIdentity {
            mpidr: 0x8000_0102,
            midr: 0x413f_d0c1,
            is_boot: true,
            gic_frame: Some(GIC_FRAME),
            number: 2,
            is_last: true,
        };
        let cpu = ArmCpu::new(Arc::new(config(features, entry_level)), identity);
        let mut world = World { cpu, port: FlatPort::new(0x20_0000) };
        for (table, next) in [(L0, L1), (L1, L2), (L2, L3), (UPPER, L1)] {
            world.put(table, next | 3);
        }
        world.put(L2 + 8, DEVICE | PAGE_BITS & !2 | 1 << 2);
        for page in 0..512 {
            world.put(L3 + 8 * page, page << 12 | PAGE_BITS);
        }
        let sys = &mut world.cpu.sys;
        // T0SZ, T1SZ 16; IPS 40 bits; attribute 0 is memory, 1 a device.
        sys[Cell::TcrEl1] = 16 | 16 << 16 | 2 << 32;
        sys[Cell::Ttbr0El1] = L0 | 1 << 48;
        sys[Cell::Ttbr1El1] = UPPER;
        sys[Cell::MairEl1] = 0x04ff;
        sys[Cell::SctlrEl1] |= 1;
        sys[Cell::VbarEl1] = VECTORS;
        sys[Cell::VbarEl2] = VECTORS_EL2;
        world.at_level(1);
        world
    }

    pub(crate) fn at_level(&mut self, el: u8) {
        self.cpu.state.pstate.el = el;
        self.cpu.state.pstate.spsel = el > 0;
        self.cpu.registers_changed();
    }

    pub(crate) fn put(&mut self, at: u64, value: u64) {
        self.port.put(at, &value.to_le_bytes());
    }

    pub(crate) fn get(&self, at: u64) -> u64 {
        self.port.get(at, 8) as u64
    }

    /// Descriptor of `PAGE`.
    pub(crate) fn set_page(&mut self, descriptor: u64) {
        self.put(L3 + (PAGE >> 12) * 8, descriptor);
        self.cpu.registers_changed();
    }

    pub(crate) fn page(&self) -> u64 {
        self.get(L3 + (PAGE >> 12) * 8)
    }

    /// Runs a body; then on memory that makes it wait, where the outcome must be the same.
    pub(crate) fn run<T: PartialEq + std::fmt::Debug>(
        &mut self,
        body: &impl Body<T>,
    ) -> Result<T, Exception> {
        let others: Vec<World> = (0..4).map(|_| self.clone()).collect();
        let outcome = self.cpu.run_body(&mut self.port, |ctx| body.run(ctx));
        let outcome = outcome.map_err(|trap| match trap {
            Trap::Fault(exception) => exception,
            Trap::Wait => panic!("flat memory never waits"),
        });
        for (seed, World { mut cpu, port }) in others.into_iter().enumerate() {
            let mut flaky = FlakyPort::new(port, seed as u64 + 1);
            let again = flaky.run(|port| match cpu.run_body(port, |ctx| body.run(ctx)) {
                Ok(value) => Ok(Ok(value)),
                Err(Trap::Fault(exception)) => Ok(Err(exception)),
                Err(Trap::Wait) => Err(Wait),
            });
            assert_eq!(again, outcome, "outcome with seed {seed}");
            assert_eq!(cpu.state, self.cpu.state, "registers with seed {seed}");
            assert_eq!(cpu.sys, self.cpu.sys, "system registers with seed {seed}");
            assert_eq!(cpu.gic, self.cpu.gic, "interrupts with seed {seed}");
            assert!(flaky.inner.memory == self.port.memory, "memory with seed {seed}");
            assert_eq!(flaky.inner.signals, self.port.signals, "signals with seed {seed}");
        }
        outcome
    }
}

/// Declares a body: a name, its fields, and what it asks of `ctx`.
macro_rules! body {
    ($name:ident { $($field:ident: $kind:ty),* } -> $out:ty, $ctx:ident => $what:expr) => {
        pub(crate) struct $name { $(pub(crate) $field: $kind),* }
        impl Body<$out> for $name {
            fn run<P: Port>(&self, $ctx: &mut Ctx<'_, P>) -> Exec<$out> {
                let $name { $($field),* } = self;
                $(let $field = *$field;)*
                $what
            }
        }
    };
}

use emu_arm64::ctx::{Acc, Atomic, Call, Hint, Next};

body!(Read { va: u64, size: u8, acc: Acc } -> u64, ctx => ctx.read(va, size, acc));
body!(Write { va: u64, size: u8, value: u64, acc: Acc } -> (),
    ctx => ctx.write(va, size, value, acc));
body!(ReadWide { va: u64 } -> u128, ctx => ctx.read_wide(va));
body!(WriteWide { va: u64, value: u128 } -> (), ctx => ctx.write_wide(va, value));
body!(Fetch { va: u64 } -> u64, ctx => ctx.translate_fetch(va));
body!(Mrs { reg: SysReg } -> u64, ctx => ctx.read_sysreg(reg));
body!(Msr { reg: SysReg, value: u64 } -> (), ctx => ctx.write_sysreg(reg, value));
body!(Sys { op: SysReg, x: u64 } -> (), ctx => ctx.sys(op, x));
body!(LoadExclusive { va: u64, size: u8 } -> u128, ctx => ctx.read_exclusive(va, size, true));
body!(StoreExclusive { va: u64, size: u8, value: u128 } -> bool,
    ctx => ctx.write_exclusive(va, size, value, true));
body!(Add { va: u64, size: u8 } -> u128,
    ctx => ctx.rmw(va, size, Atomic::default(), &mut |old| Some(old + 1)));
body!(Do { call: Call } -> Next, ctx => ctx.call(call));
body!(Hinted { hint: Hint } -> Next, ctx => ctx.hint(hint));

pub(crate) fn read(va: u64, size: u8) -> Read {
    Read { va, size, acc: Acc::Plain }
}

pub(crate) fn write(va: u64, size: u8, value: u64) -> Write {
    Write { va, size, value, acc: Acc::Plain }
}
