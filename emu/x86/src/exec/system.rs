//! System instructions without far transfer: `SysOp`, and loads of segment registers: `SegLoad`.

use emu_cpu::port::Port;

use super::Next;
use crate::ctx::{Ctx, Exec};
use crate::decode::{Op, SegLoad, SysOp};

/// Executes a system instruction.
pub fn execute<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, what: SysOp) -> Exec<Next> {
    let _ = (ctx, op, what);
    Ok(Next::Seq)
}

/// Executes a load of a segment register.
pub fn seg_load<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, what: SegLoad) -> Exec<Next> {
    let _ = (ctx, op, what);
    Ok(Next::Seq)
}
