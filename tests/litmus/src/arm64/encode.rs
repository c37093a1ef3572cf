//! A small assembler of A64: the instructions of tests, and those of the loop around them.
//!
//! Words are those of \[ArmARM\] "A64 Instruction Set Encoding". Registers are numbers, 31 being
//! the zero register; the stack pointer is not used.

use super::{Access, Acquire, Alu, Barrier, Change, Op, Operand, Reg, Types, ZR};

/// A place in the code.
#[derive(Clone, Copy, Debug)]
pub struct Label(usize);

/// Conditions of B.cond.
#[derive(Clone, Copy, Debug)]
pub enum Condition {
    /// `NE`.
    NotEqual = 1,
    /// `LO`: unsigned lower.
    Lower = 3,
}

/// System registers of guests here, as MSR has them.
#[derive(Clone, Copy, Debug)]
pub enum System {
    /// `SCTLR_EL1`.
    Sctlr = 0x8_1000,
    /// `TTBR0_EL1`.
    Ttbr0 = 0x8_2000,
    /// `TCR_EL1`.
    Tcr = 0x8_2040,
    /// `MAIR_EL1`.
    Mair = 0x8_a200,
    /// `CPACR_EL1`.
    Cpacr = 0x8_1040,
    /// `SPSR_EL1`.
    Spsr = 0x8_4000,
    /// `ELR_EL1`.
    Elr = 0x8_4020,
    /// `VBAR_EL1`.
    Vbar = 0x8_c000,
    /// `TPIDR_EL1`.
    Tpidr = 0x8_d080,
    /// `ICC_PMR_EL1`.
    Priority = 0x8_4600,
    /// `ICC_IAR1_EL1`.
    Acknowledge = 0x8_cc00,
    /// `ICC_EOIR1_EL1`.
    End = 0x8_cc20,
    /// `ICC_IGRPEN1_EL1`.
    Enable = 0x8_cce0,
    /// `ICC_SGI1R_EL1`.
    Sgi = 0x8_cba0,
    /// `CNTVCT_EL0`.
    Counter = 0xb_e040,
    /// `CNTV_TVAL_EL0`.
    TimerValue = 0xb_e300,
    /// `CNTV_CTL_EL0`.
    TimerControl = 0xb_e320,
}

/// How a branch holds the distance to its target.
#[derive(Clone, Copy, Debug)]
enum Field {
    /// Words, of so many bits from a bit.
    Words { bits: u32, from: u32 },
    /// Bytes, split as ADR has them.
    Adr,
}

/// Code under construction.
#[derive(Debug, Default)]
pub struct Assembler {
    words: Vec<u32>,
    labels: Vec<Option<usize>>,
    fixups: Vec<(usize, Label, Field)>,
}

fn d(r: Reg) -> u32 {
    r.into()
}

fn n(r: Reg) -> u32 {
    u32::from(r) << 5
}

fn m(r: Reg) -> u32 {
    u32::from(r) << 16
}

impl Assembler {
    /// A new label.
    pub fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// Puts a label here.
    pub fn bind(&mut self, label: Label) {
        self.labels[label.0] = Some(self.words.len());
    }

    /// Puts a new label here.
    pub fn here(&mut self) -> Label {
        let label = self.label();
        self.bind(label);
        label
    }

    fn word(&mut self, word: u32) {
        self.words.push(word);
    }

    fn to(&mut self, label: Label, field: Field, word: u32) {
        self.fixups.push((self.words.len(), label, field));
        self.word(word);
    }

    /// Returns the bytes.
    ///
    /// Errors: a label that is nowhere or too far away; a bug of the caller.
    pub fn assemble(mut self) -> Result<Vec<u8>, String> {
        for (at, label, field) in self.fixups {
            let to = self.labels[label.0].ok_or("a label is nowhere")?;
            let distance = to as i64 - at as i64;
            self.words[at] |= match field {
                Field::Words { bits, from } => {
                    let limit = 1i64 << (bits - 1);
                    if !(-limit..limit).contains(&distance) {
                        return Err(format!("a branch over {distance} words"));
                    }
                    (distance as u32 & ((1 << bits) - 1)) << from
                }
                Field::Adr => {
                    let bytes = 4 * distance;
                    if bytes.abs() >= 1 << 20 {
                        return Err(format!("an address {bytes} bytes away"));
                    }
                    (bytes as u32 & 3) << 29 | (bytes as u32 >> 2 & 0x7_ffff) << 5
                }
            };
        }
        Ok(self.words.iter().flat_map(|w| w.to_le_bytes()).collect())
    }

    /// Register = any constant.
    pub fn mov(&mut self, rd: Reg, value: u64) {
        self.word(0xd280_0000 | (value as u32 & 0xffff) << 5 | d(rd));
        for part in 1..4 {
            let bits = (value >> (16 * part)) as u32 & 0xffff;
            if bits != 0 {
                self.word(0xf280_0000 | part << 21 | bits << 5 | d(rd));
            }
        }
    }

    /// `MOV` of registers.
    pub fn mov_reg(&mut self, rd: Reg, rm: Reg) {
        self.word(0xaa00_03e0 | m(rm) | d(rd));
    }

    /// `ADD` of registers.
    pub fn add(&mut self, rd: Reg, rn: Reg, rm: Reg) {
        self.word(0x8b00_0000 | m(rm) | n(rn) | d(rd));
    }

    /// `ADD` of a constant of 12 bits.
    pub fn add_imm(&mut self, rd: Reg, rn: Reg, value: u32) {
        self.word(0x9100_0000 | value << 10 | n(rn) | d(rd));
    }

    /// `SUBS` of a constant of 12 bits.
    pub fn subs_imm(&mut self, rd: Reg, rn: Reg, value: u32) {
        self.word(0xf100_0000 | value << 10 | n(rn) | d(rd));
    }

    /// `CMP` of the low 32 bits.
    pub fn cmp(&mut self, rn: Reg, rm: Reg) {
        self.word(0x6b00_001f | m(rm) | n(rn));
    }

    /// `ORR` of registers.
    pub fn orr(&mut self, rd: Reg, rn: Reg, rm: Reg) {
        self.word(0xaa00_0000 | m(rm) | n(rn) | d(rd));
    }

    /// `EOR` of registers.
    pub fn eor(&mut self, rd: Reg, rn: Reg, rm: Reg) {
        self.word(0xca00_0000 | m(rm) | n(rn) | d(rd));
    }

    /// `MUL`.
    pub fn mul(&mut self, rd: Reg, rn: Reg, rm: Reg) {
        self.word(0x9b00_7c00 | m(rm) | n(rn) | d(rd));
    }

    /// `UDIV`.
    pub fn udiv(&mut self, rd: Reg, rn: Reg, rm: Reg) {
        self.word(0x9ac0_0800 | m(rm) | n(rn) | d(rd));
    }

    /// `UBFX`: `width` bits from bit `low`.
    pub fn ubfx(&mut self, rd: Reg, rn: Reg, low: u32, width: u32) {
        self.word(0xd340_0000 | low << 16 | (low + width - 1) << 10 | n(rn) | d(rd));
    }

    /// `LDR` of 64 bits at a multiple of 8.
    pub fn ldr(&mut self, rt: Reg, base: Reg, offset: u32) {
        self.word(0xf940_0000 | (offset / 8) << 10 | n(base) | d(rt));
    }

    /// `STR` of 64 bits at a multiple of 8.
    pub fn str(&mut self, rt: Reg, base: Reg, offset: u32) {
        self.word(0xf900_0000 | (offset / 8) << 10 | n(base) | d(rt));
    }

    /// `LDP` of 64 bits each.
    pub fn ldp(&mut self, rt: Reg, rt2: Reg, base: Reg) {
        self.word(0xa940_0000 | d(rt2) << 10 | n(base) | d(rt));
    }

    /// `STP` of 64 bits each.
    pub fn stp(&mut self, rt: Reg, rt2: Reg, base: Reg) {
        self.word(0xa900_0000 | d(rt2) << 10 | n(base) | d(rt));
    }

    /// `CASP` of 64 bits each: `rs` and its next are expected, `rt` and its next stored.
    pub fn casp(&mut self, rs: Reg, rt: Reg, base: Reg, is_acquire: bool, is_release: bool) {
        let order = u32::from(is_acquire) << 22 | u32::from(is_release) << 15;
        self.word(0x4820_7c00 | order | m(rs) | n(base) | d(rt));
    }

    /// `ADR`.
    pub fn adr(&mut self, rd: Reg, to: Label) {
        self.to(to, Field::Adr, 0x1000_0000 | d(rd));
    }

    /// `B`.
    pub fn b(&mut self, to: Label) {
        self.to(to, Field::Words { bits: 26, from: 0 }, 0x1400_0000);
    }

    /// `B.cond`.
    pub fn b_if(&mut self, condition: Condition, to: Label) {
        self.to(to, Field::Words { bits: 19, from: 5 }, 0x5400_0000 | condition as u32);
    }

    /// `CBZ`, `CBNZ`.
    pub fn cb(&mut self, is_nonzero: bool, is_wide: bool, rt: Reg, to: Label) {
        let word = 0x3400_0000 | u32::from(is_wide) << 31 | u32::from(is_nonzero) << 24 | d(rt);
        self.to(to, Field::Words { bits: 19, from: 5 }, word);
    }

    /// `TBZ` of a bit below 32.
    pub fn tbz(&mut self, rt: Reg, bit: u32, to: Label) {
        self.to(to, Field::Words { bits: 14, from: 5 }, 0x3600_0000 | bit << 19 | d(rt));
    }

    /// `MSR`.
    pub fn msr(&mut self, register: System, rt: Reg) {
        self.word(0xd510_0000 | register as u32 | d(rt));
    }

    /// `MRS`.
    pub fn mrs(&mut self, rt: Reg, register: System) {
        self.word(0xd530_0000 | register as u32 | d(rt));
    }

    /// `HVC #0`.
    pub fn hvc(&mut self) {
        self.word(0xd400_0002);
    }

    /// `ERET`.
    pub fn eret(&mut self) {
        self.word(0xd69f_03e0);
    }

    /// `YIELD`.
    pub fn relax(&mut self) {
        self.word(0xd503_203f);
    }

    /// `WFE`.
    pub fn wfe(&mut self) {
        self.word(0xd503_205f);
    }

    /// `CLREX`.
    pub fn clear_exclusive(&mut self) {
        self.word(0xd503_3f5f);
    }

    /// `DC CIVAC`.
    pub fn clean_and_invalidate(&mut self, base: Reg) {
        self.word(0xd50b_7e20 | d(base));
    }

    /// `MSR DAIFClr, #2` or `MSR DAIFSet, #2`: interrupts open or masked.
    pub fn unmask(&mut self, is_open: bool) {
        self.word(if is_open { 0xd503_42ff } else { 0xd503_42df });
    }

    /// `WFI`.
    pub fn wfi(&mut self) {
        self.word(0xd503_207f);
    }

    /// An access of memory of 1, 2, 4 or 8 bytes.
    pub fn access(&mut self, what: Access, bytes: u8, rt: Reg, rs: Reg, base: Reg) {
        self.word(access(what) | bytes.trailing_zeros() << 30 | m_of(what, rs) | n(base) | d(rt));
    }

    /// An instruction of a test; `at` are labels of all of them, and of their end.
    pub fn op(&mut self, op: Op, at: &[Label]) {
        match op {
            Op::Move { is_wide, rd, value } => {
                let word = 0x5280_0000 | u32::from(is_wide) << 31;
                self.word(word | u32::from(value) << 5 | d(rd));
            }
            Op::Alu { what, is_wide, rd, rn, with } => self.alu(what, is_wide, rd, rn, with),
            Op::Access { what, size, rt, rs, base, index } => match index {
                None => self.access(what, size.0, rt, rs, base),
                Some(index) => {
                    let is_load = matches!(what, Access::Load(_));
                    let word =
                        0x3820_c800 | u32::from(is_load) << 22 | size.0.trailing_zeros() << 30;
                    self.word(word | m(index) | n(base) | d(rt));
                }
            },
            Op::Branch { is_wide, is_nonzero, rt, to } => self.cb(is_nonzero, is_wide, rt, at[to]),
            Op::Barrier(barrier) => self.barrier(barrier),
            Op::ClearExclusive => self.clear_exclusive(),
        }
    }

    fn alu(&mut self, what: Alu, is_wide: bool, rd: Reg, rn: Reg, with: Operand) {
        let word = match (what, with) {
            (Alu::Add, Operand::Constant(value)) => 0x1100_0000 | u32::from(value) << 10,
            (Alu::Add, Operand::Sxtw(rm)) => 0x0b20_c000 | m(rm),
            (Alu::Add, Operand::Register(rm)) => 0x0b00_0000 | m(rm),
            (Alu::And, Operand::Register(rm)) => 0x0a00_0000 | m(rm),
            (Alu::Eor, Operand::Register(rm)) => 0x4a00_0000 | m(rm),
            (Alu::And | Alu::Eor, _) => unreachable!("the syntax has registers only"),
        };
        self.word(word | u32::from(is_wide) << 31 | n(rn) | d(rd));
    }

    /// A barrier, for the whole system.
    pub fn barrier(&mut self, barrier: Barrier) {
        let option = |types| match types {
            Types::Loads => 0xd00,
            Types::Stores => 0xe00,
            Types::All => 0xf00,
        };
        self.word(match barrier {
            Barrier::Dmb(types) => 0xd503_30bf | option(types),
            Barrier::Dsb(types) => 0xd503_309f | option(types),
            Barrier::Isb => 0xd503_3fdf,
        });
    }
}

/// The field `Rs`, which is all ones where there is no such operand.
fn m_of(what: Access, rs: Reg) -> u32 {
    match what {
        Access::Load(Acquire::No) | Access::Store { is_release: false } => 0,
        Access::StoreExclusive { .. } | Access::Atomic { .. } => m(rs),
        _ => m(ZR),
    }
}

/// Word of an access of one byte without its registers.
fn access(what: Access) -> u32 {
    match what {
        Access::Load(Acquire::No) => 0x3940_0000,
        Access::Load(Acquire::Full) => 0x08c0_fc00,
        Access::Load(Acquire::Pc) => 0x38a0_c000,
        Access::Store { is_release: false } => 0x3900_0000,
        Access::Store { is_release: true } => 0x0880_fc00,
        Access::LoadExclusive { is_acquire } => 0x0840_7c00 | u32::from(is_acquire) << 15,
        Access::StoreExclusive { is_release } => 0x0800_7c00 | u32::from(is_release) << 15,
        Access::Atomic { change: Change::Compare, is_acquire, is_release } => {
            0x08a0_7c00 | u32::from(is_acquire) << 22 | u32::from(is_release) << 15
        }
        Access::Atomic { change, is_acquire, is_release } => {
            let opcode = match change {
                Change::Add => 0x0000,
                Change::Clear => 0x1000,
                Change::Eor => 0x2000,
                Change::Set => 0x3000,
                Change::Swap | Change::Compare => 0x8000,
            };
            0x3820_0000 | opcode | u32::from(is_acquire) << 23 | u32::from(is_release) << 22
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::Program;

    /// Words of the GNU assembler.
    #[rustfmt::skip]
    const TEST_INSTRUCTIONS: &[(&str, u32)] = &[
        ("MOV W0,#1", 0x5280_0020),
        ("MOV X9,#65535", 0xd29f_ffe9),
        ("ADD W2,W2,#1", 0x1100_0442),
        ("ADD X2,X3,W1,SXTW", 0x8b21_c062),
        ("ADD W4,W5,W6", 0x0b06_00a4),
        ("ADD X4,X5,X6", 0x8b06_00a4),
        ("AND W2,W1,W3", 0x0a03_0022),
        ("EOR W2,W1,W1", 0x4a01_0022),
        ("EOR X10,X11,X12", 0xca0c_016a),
        ("LDR W1,[X0]", 0xb940_0001),
        ("LDR X1,[X0]", 0xf940_0001),
        ("LDRB W1,[X0]", 0x3940_0001),
        ("LDRH W1,[X0]", 0x7940_0001),
        ("LDR W3,[X4,W2,SXTW]", 0xb862_c883),
        ("STR W0,[X1]", 0xb900_0020),
        ("STR X0,[X1]", 0xf900_0020),
        ("STRB W0,[X1]", 0x3900_0020),
        ("STR W3,[X4,W2,SXTW]", 0xb822_c883),
        ("STRH W3,[X4,W2,SXTW]", 0x7822_c883),
        ("LDAR W1,[X0]", 0x88df_fc01),
        ("LDARB W1,[X0]", 0x08df_fc01),
        ("LDAPR W1,[X0]", 0xb8bf_c001),
        ("LDAPR X1,[X15]", 0xf8bf_c1e1),
        ("STLR W2,[X3]", 0x889f_fc62),
        ("STLRH W2,[X3]", 0x489f_fc62),
        ("LDXR W1,[X0]", 0x885f_7c01),
        ("LDAXR W1,[X0]", 0x885f_fc01),
        ("LDAXRB W1,[X0]", 0x085f_fc01),
        ("STXR W2,W3,[X0]", 0x8802_7c03),
        ("STLXR W2,X3,[X0]", 0xc802_fc03),
        ("CAS W1,W2,[X0]", 0x88a1_7c02),
        ("CASA W1,W2,[X0]", 0x88e1_7c02),
        ("CASL X1,X2,[X0]", 0xc8a1_fc02),
        ("CASAL W1,W2,[X0]", 0x88e1_fc02),
        ("CASB W1,W2,[X0]", 0x08a1_7c02),
        ("SWP W1,W2,[X0]", 0xb821_8002),
        ("SWPA W1,W2,[X0]", 0xb8a1_8002),
        ("SWPL W1,W2,[X0]", 0xb861_8002),
        ("SWPAL X1,X2,[X0]", 0xf8e1_8002),
        ("SWPALH W1,W2,[X0]", 0x78e1_8002),
        ("LDADD W1,W2,[X0]", 0xb821_0002),
        ("LDADDA W1,W2,[X0]", 0xb8a1_0002),
        ("LDADDL W1,W2,[X0]", 0xb861_0002),
        ("LDADDAL W1,W2,[X0]", 0xb8e1_0002),
        ("LDCLR W1,W2,[X0]", 0xb821_1002),
        ("LDEORAL W1,W2,[X0]", 0xb8e1_2002),
        ("LDSET W1,W2,[X0]", 0xb821_3002),
        ("LDADDA W1,WZR,[X0]", 0xb8a1_001f),
        ("STADD W1,[X0]", 0xb821_001f),
        ("STADDL X1,[X0]", 0xf861_001f),
        ("STSETB W1,[X0]", 0x3821_301f),
        ("DMB SY", 0xd503_3fbf),
        ("DMB LD", 0xd503_3dbf),
        ("DMB ST", 0xd503_3ebf),
        ("DSB SY", 0xd503_3f9f),
        ("DSB LD", 0xd503_3d9f),
        ("DSB ST", 0xd503_3e9f),
        ("ISB", 0xd503_3fdf),
        ("CLREX", 0xd503_3f5f),
    ];

    fn words(a: Assembler) -> Vec<u32> {
        let bytes = a.assemble().unwrap();
        bytes.chunks_exact(4).map(|w| u32::from_le_bytes(w.try_into().unwrap())).collect()
    }

    #[test]
    fn instructions_of_tests_have_the_words_of_the_manual() {
        for (text, word) in TEST_INSTRUCTIONS {
            let test = format!("AArch64 t\n{{}}\n P0 ;\n {text} ;\nexists (true)");
            let test = crate::syntax::parse(&test).unwrap_or_else(|e| panic!("{text}: {e}"));
            let Program::Arm64(program) = &test.program else { panic!("{text}") };
            let mut a = Assembler::default();
            let at = [a.here(), a.label()];
            a.op(program.threads[0][0], &at);
            a.bind(at[1]);
            let found = words(a);
            assert_eq!(found, [*word], "{text}: {:x}", found[0]);
        }
    }

    #[test]
    fn instructions_of_the_loop_have_the_words_of_the_manual() {
        let mut a = Assembler::default();
        let top = a.here();
        a.mov(1, 0x5678_0000_1234);
        a.mov_reg(3, 24);
        a.add(1, 2, 3);
        a.add_imm(1, 2, 128);
        a.subs_imm(21, 21, 1);
        a.cmp(16, 22);
        a.orr(0, 0, 1);
        a.udiv(16, 16, 18);
        a.ubfx(17, 20, 10, 6);
        a.ldr(24, 19, 40);
        a.str(5, 19, 72);
        a.adr(2, top);
        a.b(top);
        a.b_if(Condition::NotEqual, top);
        a.b_if(Condition::Lower, top);
        a.cb(true, true, 20, top);
        a.cb(false, false, 1, top);
        a.tbz(28, 3, top);
        a.msr(System::Sctlr, 0);
        a.mrs(0, System::Sctlr);
        a.msr(System::Ttbr0, 0);
        a.msr(System::Tcr, 0);
        a.msr(System::Mair, 0);
        a.hvc();
        a.wfi();
        a.eret();
        a.eor(4, 2, 1);
        a.mul(1, 1, 21);
        a.ldp(2, 3, 0);
        a.stp(1, 1, 0);
        a.casp(2, 4, 0, true, false);
        a.casp(2, 4, 0, false, true);
        a.relax();
        a.wfe();
        a.clear_exclusive();
        a.clean_and_invalidate(0);
        a.unmask(true);
        a.unmask(false);
        a.msr(System::Sgi, 9);
        a.msr(System::TimerValue, 9);
        a.msr(System::TimerControl, ZR);
        a.mrs(16, System::Counter);
        #[rustfmt::skip]
        let expected = [
            0xd282_4681, 0xf2ca_cf01, 0xaa18_03e3, 0x8b03_0041, 0x9102_0041,
            0xf100_06b5, 0x6b16_021f, 0xaa01_0000, 0x9ad2_0a10, 0xd34a_3e91,
            0xf940_1678, 0xf900_2665, 0x10ff_fe82, 0x17ff_fff3, 0x54ff_fe41,
            0x54ff_fe23, 0xb5ff_fe14, 0x34ff_fde1, 0x361f_fddc, 0xd518_1000,
            0xd538_1000, 0xd518_2000, 0xd518_2040, 0xd518_a200, 0xd400_0002,
            0xd503_207f, 0xd69f_03e0, 0xca01_0044, 0x9b15_7c21, 0xa940_0c02,
            0xa900_0401, 0x4862_7c04, 0x4822_fc04, 0xd503_203f, 0xd503_205f,
            0xd503_3f5f, 0xd50b_7e20, 0xd503_42ff, 0xd503_42df, 0xd518_cba9,
            0xd51b_e309, 0xd51b_e33f, 0xd53b_e050,
        ];
        let found = words(a);
        for (nth, (found, expected)) in found.iter().zip(expected).enumerate() {
            assert_eq!(*found, expected, "instruction {nth}: {found:x}, not {expected:x}");
        }
        assert_eq!(found.len(), expected.len());
    }

    #[test]
    fn branches_go_forwards_and_labels_may_stand_before_an_instruction() {
        let text = "AArch64 t\n{}\n P0 ;\n CBNZ W1,LC00 ;\n ISB ;\n LC00: MOV W0,#1 ;\n\
                    exists (true)";
        let Program::Arm64(program) = crate::syntax::parse(text).unwrap().program else { panic!() };
        let mut a = Assembler::default();
        let at: Vec<Label> = (0..3).map(|_| a.label()).collect();
        for (op, label) in program.threads[0].iter().zip(&at) {
            a.bind(*label);
            a.op(*op, &at);
        }
        assert_eq!(words(a), [0x3500_0041, 0xd503_3fdf, 0x5280_0020]);
        let backwards =
            text.replace("CBNZ W1,LC00", "LC01: ISB").replace("MOV W0,#1", "CBZ W0,LC01");
        let message = crate::syntax::parse(&backwards).unwrap_err().to_string();
        assert_eq!(message, "line 6: `CBZ W0,LC01` is not known");
    }
}
