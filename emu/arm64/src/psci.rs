//! Firmware calls: PSCI and the discovery calls of SMCCC, decoded into what they ask for.
//!
//! Decoding is pure; `ArmCpu` carries out what concerns itself. What concerns other cpus and the
//! machine goes through the `mailbox`, where a device of the machine knows the state of all cpus.
//!
//! Not modelled: OS-initiated mode, statistics, MEM_PROTECT, SYSTEM_SUSPEND, CPU_FREEZE.
//!
//! Source: \[PSCI\] "Function prototypes", \[SMCCC\] "Arm Architecture Calls". Status: spec.

use emu_cpu::port::{DeviceAccess, Fence, Port, Space};
use emu_cpu::wait::{WaitReason, WaitRequest};

use crate::ctx::{Ctx, Exec, Next};

/// Results, as X0 returns them.
pub mod result {
    /// SUCCESS.
    pub const SUCCESS: i64 = 0;
    /// NOT_SUPPORTED.
    pub const NOT_SUPPORTED: i64 = -1;
    /// INVALID_PARAMETERS.
    pub const INVALID_PARAMETERS: i64 = -2;
    /// DENIED.
    pub const DENIED: i64 = -3;
    /// ALREADY_ON.
    pub const ALREADY_ON: i64 = -4;
    /// ON_PENDING.
    pub const ON_PENDING: i64 = -5;
    /// INVALID_ADDRESS.
    pub const INVALID_ADDRESS: i64 = -9;
}

/// Affinity fields of MPIDR_EL1.
const AFFINITY: u64 = 0xff_00ff_ffff;
/// Bit of a function identifier: arguments of 64 bits.
const WIDE: u32 = 1 << 30;
/// Version 1.1 of PSCI and of SMCCC.
const VERSION_1_1: i64 = 0x1_0001;
/// MIGRATE_INFO_TYPE: no trusted OS that must migrate.
const NO_MIGRATION: i64 = 2;

/// The firmware's mailbox at the machine: functions, as `Space::Firmware` addresses them.
pub mod mailbox {
    use super::{DeviceAccess, Space};

    /// Write: entry (affinity 0) and context (8) of the asking cpu's next CPU_ON.
    pub const ARGUMENT: u64 = 0;
    /// Read: CPU_ON of this affinity; the answer is the result.
    pub const CPU_ON: u64 = 1;
    /// Read: AFFINITY_INFO of this affinity; the answer is the result.
    pub const AFFINITY_INFO: u64 = 2;
    /// Write, posted: the asking cpu goes off.
    pub const CPU_OFF: u64 = 3;
    /// Write, posted: SYSTEM_OFF.
    pub const SYSTEM_OFF: u64 = 4;
    /// Write, posted: SYSTEM_RESET.
    pub const SYSTEM_RESET: u64 = 5;

    /// The access that asks for a function.
    #[must_use]
    pub const fn access(function: u64, affinity: u64, write: Option<u64>) -> DeviceAccess {
        DeviceAccess { space: Space::Firmware, addr: function << 40 | affinity, size: 8, write }
    }
}

/// What a call asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing but this answer.
    Answer(i64),
    /// CPU_ON: start the cpu of this affinity at an address with X0.
    CpuOn {
        /// Affinity fields of its MPIDR_EL1.
        target: u64,
        /// Address of its first instruction.
        entry: u64,
        /// Its X0.
        context: u64,
    },
    /// CPU_OFF: this cpu waits for CPU_ON.
    CpuOff,
    /// AFFINITY_INFO of the cpu of this affinity.
    AffinityInfo(u64),
    /// CPU_SUSPEND in a state that keeps registers.
    Standby {
        /// Index of the idle state.
        state: u8,
    },
    /// CPU_SUSPEND in a power-down state: wakes at an address with X0.
    PowerDown {
        /// Index of the idle state.
        state: u8,
        /// Address after the wake.
        entry: u64,
        /// X0 after the wake.
        context: u64,
    },
    /// SYSTEM_OFF.
    SystemOff,
    /// SYSTEM_RESET.
    SystemReset,
}

/// CPU_SUSPEND power state, bit 16 in the original format: registers are lost.
const POWER_DOWN: u32 = 1 << 16;

/// Decodes the call in X0 to X3; `states` are power-state parameters with their idle states.
#[must_use]
pub fn decode(x: [u64; 4], states: &[(u32, u8)]) -> Effect {
    let function = x[0] as u32;
    let width = if function & WIDE != 0 { u64::MAX } else { 0xffff_ffff };
    let [_, a, b, c] = x.map(|value| value & width);
    let is_bad_target = a & !AFFINITY != 0;
    match function & !WIDE {
        // PSCI_VERSION, SMCCC_VERSION: calls of 32 bits only.
        0x8400_0000 | 0x8000_0000 if function & WIDE == 0 => Effect::Answer(VERSION_1_1),
        // SMCCC_ARCH_FEATURES.
        0x8000_0001 if function & WIDE == 0 => Effect::Answer(arch_feature(a as u32)),
        0x8400_0001 => suspend([a, b, c], states),
        0x8400_0002 => Effect::CpuOff,
        0x8400_0003 | 0x8400_0004 if is_bad_target => Effect::Answer(result::INVALID_PARAMETERS),
        0x8400_0003 => Effect::CpuOn { target: a, entry: b, context: c },
        // Affinity levels above 0 are optional since 1.0.
        0x8400_0004 if b != 0 => Effect::Answer(result::INVALID_PARAMETERS),
        0x8400_0004 => Effect::AffinityInfo(a),
        0x8400_0006 => Effect::Answer(NO_MIGRATION),
        0x8400_0008 => Effect::SystemOff,
        0x8400_0009 => Effect::SystemReset,
        0x8400_000a => Effect::Answer(psci_feature(a as u32)),
        _ => Effect::Answer(result::NOT_SUPPORTED),
    }
}

fn arch_feature(function: u32) -> i64 {
    match function {
        0x8000_0000 | 0x8000_0001 => result::SUCCESS,
        _ => result::NOT_SUPPORTED,
    }
}

fn psci_feature(function: u32) -> i64 {
    match function & !WIDE {
        // CPU_SUSPEND: original format of the parameter, no OS-initiated mode.
        0x8400_0001 | 0x8400_0003 | 0x8400_0004 => result::SUCCESS,
        0x8400_0000 | 0x8400_0002 | 0x8400_0006 | 0x8400_0008..=0x8400_000a | 0x8000_0000
            if function & WIDE == 0 =>
        {
            result::SUCCESS
        }
        _ => result::NOT_SUPPORTED,
    }
}

fn suspend([power_state, entry, context]: [u64; 3], states: &[(u32, u8)]) -> Effect {
    let parameter = power_state as u32;
    match states.iter().find(|row| row.0 == parameter) {
        None => Effect::Answer(result::INVALID_PARAMETERS),
        Some(&(_, state)) if parameter & POWER_DOWN == 0 => Effect::Standby { state },
        Some(&(_, state)) => Effect::PowerDown { state, entry, context },
    }
}

impl<P: Port> Ctx<'_, P> {
    /// Answers a call in X0 to X3.
    ///
    /// # Errors
    /// `Wait`.
    pub(crate) fn firmware_call(&mut self) -> Exec<Next> {
        let x = &self.cpu.state.x;
        let effect = decode([x[0], x[1], x[2], x[3]], &self.cpu.config.suspend_states);
        self.port.fence(Fence::Full)?;
        let answer = match effect {
            Effect::Answer(answer) => answer,
            Effect::CpuOn { target, entry, context } => {
                self.mailbox(mailbox::ARGUMENT, 0, Some(entry))?;
                self.mailbox(mailbox::ARGUMENT, 8, Some(context))?;
                self.mailbox(mailbox::CPU_ON, affinity(target), None)? as i64
            }
            Effect::AffinityInfo(target) => {
                self.mailbox(mailbox::AFFINITY_INFO, affinity(target), None)? as i64
            }
            Effect::Standby { state } => return Ok(self.suspend(state, None)),
            Effect::PowerDown { state, entry, context } => {
                return Ok(self.suspend(state, Some((entry, context))));
            }
            Effect::CpuOff | Effect::SystemOff | Effect::SystemReset => {
                let function = match effect {
                    Effect::SystemOff => mailbox::SYSTEM_OFF,
                    Effect::SystemReset => mailbox::SYSTEM_RESET,
                    _ => mailbox::CPU_OFF,
                };
                self.port.tell(mailbox::access(function, 0, Some(0)))?;
                self.clear_exclusive();
                self.cpu.power_off();
                return Ok(Next::Sleep(power_off_request()));
            }
        };
        self.cpu.state.x[0] = answer as u64;
        Ok(Next::Seq)
    }

    fn suspend(&mut self, state: u8, resume: Option<(u64, u64)>) -> Next {
        self.cpu.state.x[0] = result::SUCCESS as u64;
        self.cpu.resume = resume;
        self.cpu.waits_for_event = false;
        self.cpu.refresh_attention();
        let (reason, state) = (WaitReason::Power, Some(state));
        Next::Sleep(WaitRequest { reason, state, wake_on_masked: true, deadline: None })
    }

    /// Asks where the state of all cpus is known.
    fn mailbox(&mut self, function: u64, affinity: u64, write: Option<u64>) -> Exec<u64> {
        Ok(self.port.device(mailbox::access(function, affinity, write))?.unwrap_or_default())
    }
}

/// Affinity fields of MPIDR_EL1 packed into 32 bits.
fn affinity(target: u64) -> u64 {
    target >> 32 << 24 | target & 0xff_ffff
}

/// The wait of a cpu that is off.
pub(crate) fn power_off_request() -> WaitRequest {
    WaitRequest { reason: WaitReason::Startup, state: None, wake_on_masked: false, deadline: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_decode_by_their_table() {
        use Effect::{
            AffinityInfo, Answer, CpuOff, CpuOn, PowerDown, Standby, SystemOff, SystemReset,
        };
        let bad = Answer(result::INVALID_PARAMETERS);
        let no = Answer(result::NOT_SUPPORTED);
        let table = [
            ([0x8400_0000, 0, 0, 0], Answer(0x1_0001)),
            ([0xc400_0000, 0, 0, 0], no),
            ([0x8000_0000, 0, 0, 0], Answer(0x1_0001)),
            ([0x8000_0001, 0x8000_0000, 0, 0], Answer(0)),
            ([0x8000_0001, 0x8000_8000, 0, 0], no),
            (
                [0xc400_0003, 0x1_0000_0203, 1 << 40, 7],
                CpuOn { target: 0x1_0000_0203, entry: 1 << 40, context: 7 },
            ),
            // The call of 32 bits takes the low halves.
            (
                [0x8400_0003, 5 << 32 | 3, 6 << 32 | 0x8000, 7 << 32],
                CpuOn { target: 3, entry: 0x8000, context: 0 },
            ),
            ([0xc400_0003, 1 << 30, 0, 0], bad),
            ([0x8400_0002, 0, 0, 0], CpuOff),
            ([0xc400_0004, 3, 0, 0], AffinityInfo(3)),
            ([0xc400_0004, 3, 1, 0], bad),
            ([0xc400_0001, 0x1, 9, 9], Standby { state: 1 }),
            ([0xc400_0001, 0x1_0002, 0x9000, 8], PowerDown { state: 2, entry: 0x9000, context: 8 }),
            ([0xc400_0001, 0x3, 0, 0], bad),
            ([0x8400_0006, 0, 0, 0], Answer(2)),
            ([0x8400_0008, 0, 0, 0], SystemOff),
            ([0x8400_0009, 0, 0, 0], SystemReset),
            ([0x8400_000a, 0xc400_0003, 0, 0], Answer(0)),
            ([0x8400_000a, 0xc400_000e, 0, 0], no),
            ([0xffff_ffff, 0, 0, 0], no),
        ];
        for (x, effect) in table {
            assert_eq!(decode(x, &[(1, 1), (0x1_0002, 2)]), effect, "{x:x?}");
        }
    }
}
