//! Far transfers: far JMP, CALL and RET, IRET, software interrupts, SYSCALL and SYSENTER.

use emu_cpu::port::Port;

use super::Next;
use crate::ctx::{Ctx, Exec};
use crate::decode::{FarOp, Op};

/// Executes a far transfer.
pub fn execute<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, what: FarOp) -> Exec<Next> {
    let _ = (ctx, op, what);
    Ok(Next::Seq)
}
