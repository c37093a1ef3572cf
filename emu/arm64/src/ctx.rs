//! What an instruction body may touch: registers, memory through translation, and the engine's
//! port. Nothing else.
//!
//! The rule for bodies: **first all requests (reads, writes, atomics, barriers), then all changes
//! of registers.** A request may return `Trap::Wait`; the body then ends at once and runs again
//! from its start later, its finished requests being answered from the step log in the same order.
//!
//! A store is a request with an effect that stays: before the first store of several, probe the
//! others ([`Ctx::probe_write`]), so that no fault comes after a store.
//!
//! Memory access is in `mmu`, system registers in `sysreg`, exceptions in `except`.

use emu_cpu::port::{Order, Port, Wait};
use emu_cpu::wait::WaitRequest;

use crate::cpu::ArmCpu;
use crate::defs::Ec;

/// Why a body ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trap {
    /// Run again later.
    Wait,
    /// A synchronous exception; architectural state is that before the instruction.
    Fault(Exception),
}

impl From<Wait> for Trap {
    fn from(_: Wait) -> Self {
        Trap::Wait
    }
}

impl From<Exception> for Trap {
    fn from(exception: Exception) -> Self {
        Trap::Fault(exception)
    }
}

/// A synchronous exception with its syndrome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exception {
    /// Class, as if from a lower level where there are two; `except` corrects it.
    pub class: Ec,
    /// `ESR_ELx.ISS`.
    pub iss: u32,
    /// New `FAR_ELx`, where the class has one.
    pub far: Option<u64>,
    /// Least level that takes it: 1, or 2 where EL2 has asked for the trap.
    pub level: u8,
    /// Whether the return address is that of the following instruction: SVC, HVC, SMC.
    pub is_after: bool,
}

impl Exception {
    /// An undefined instruction.
    #[must_use]
    pub const fn undefined() -> Exception {
        Exception { class: Ec::Unknown, iss: 0, far: None, level: 1, is_after: false }
    }
}

/// Result of a body or of a request.
pub type Exec<T> = Result<T, Trap>;

/// How execution goes on after a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// With the following instruction.
    Seq,
    /// At this address, in the present state of the process.
    Jump(u64),
    /// The cpu waits, then goes on with the following instruction.
    Sleep(WaitRequest),
}

/// What an access is, beyond address and size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Acc {
    /// LDR, STR and kin.
    #[default]
    Plain,
    /// LDTR, STTR: with the rights of EL0.
    Unprivileged,
    /// LDAR.
    Acquire,
    /// LDAPR: not ordered behind older store-releases.
    AcquirePc,
    /// STLR.
    Release,
}

/// Order of an atomic read-modify-write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Atomic {
    /// Its read is an acquire.
    pub acquire: bool,
    /// Its write is a release.
    pub release: bool,
}

impl Atomic {
    /// As the engine knows it.
    pub(crate) const fn order(self) -> Order {
        match (self.acquire, self.release) {
            (false, false) => Order::Plain,
            (true, false) => Order::Acquire,
            (false, true) => Order::Release,
            (true, true) => Order::AcquireRelease,
        }
    }
}

/// Which older accesses a barrier waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BarrierTypes {
    /// LD: loads, before any younger access.
    Loads,
    /// ST: stores, before younger stores.
    Stores,
    /// SY, and what is reserved: all.
    All,
}

/// A barrier. Its domain is not kept: all cpus of a machine are in one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Barrier {
    /// DMB.
    Dmb(BarrierTypes),
    /// DSB.
    Dsb(BarrierTypes),
    /// ISB.
    Isb,
    /// SB.
    Sb,
}

/// A hint that waits or wakes, by its instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    /// NOP and hints that mean nothing here.
    Nop,
    /// YIELD.
    Yield,
    /// WFE.
    Wfe,
    /// WFI.
    Wfi,
    /// SEV.
    Sev,
    /// SEVL.
    Sevl,
    /// WFET with the number of its register.
    Wfet(u8),
    /// WFIT with the number of its register.
    Wfit(u8),
}

/// An instruction that changes the exception level, with its immediate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// SVC.
    Svc(u16),
    /// HVC.
    Hvc(u16),
    /// SMC.
    Smc(u16),
    /// BRK.
    Brk(u16),
    /// ERET.
    Eret,
}

impl Trap {
    /// Puts the number of the general register into the syndrome of a trapped system register
    /// access; other traps stay as they are.
    #[must_use]
    pub fn with_register(self, rt: u8) -> Trap {
        match self {
            Trap::Fault(e) if e.class == Ec::SysReg => {
                Trap::Fault(Exception { iss: e.iss & !(0x1f << 5) | u32::from(rt & 31) << 5, ..e })
            }
            other => other,
        }
    }
}

/// A body's view of the world.
pub struct Ctx<'a, P: Port> {
    /// The cpu: registers in `cpu.state`.
    pub cpu: &'a mut ArmCpu,
    /// The engine.
    pub port: &'a mut P,
}
