//! Words of A64 for the roles: what the steps of a table and their surroundings are made of.

/// Machine code under construction.
#[derive(Default)]
pub(crate) struct Code {
    words: Vec<u32>,
    /// Names of addresses.
    pub(crate) marks: Vec<(String, u64)>,
}

pub(crate) const WFE: u32 = 0xd503_205f;
pub(crate) const WFI: u32 = 0xd503_207f;
pub(crate) const SEV: u32 = 0xd503_209f;
pub(crate) const SEVL: u32 = 0xd503_20bf;
pub(crate) const NOP: u32 = 0xd503_201f;
pub(crate) const DSB: u32 = 0xd503_3f9f;
pub(crate) const ISB: u32 = 0xd503_3fdf;
pub(crate) const CLREX: u32 = 0xd503_3f5f;
pub(crate) const SMC: u32 = 0xd400_0003;
pub(crate) const ERET: u32 = 0xd69f_03e0;
pub(crate) const MASK: u32 = 0xd503_42df; // msr daifset, #2
pub(crate) const UNMASK: u32 = 0xd503_42ff; // msr daifclr, #2

/// System registers, as MSR writes them from X0.
pub(crate) const VBAR: u32 = 0xd518_c000;
pub(crate) const ELR: u32 = 0xd518_4020;
pub(crate) const SPSR: u32 = 0xd518_4000;
pub(crate) const CNTKCTL: u32 = 0xd518_e100;
pub(crate) const CNTV_TVAL: u32 = 0xd51b_e300;
pub(crate) const CNTV_CTL: u32 = 0xd51b_e320;
pub(crate) const ICC_PMR: u32 = 0xd518_4600;
pub(crate) const ICC_IAR1: u32 = 0xd518_cc00;
pub(crate) const ICC_EOIR1: u32 = 0xd518_cc20;
pub(crate) const ICC_IGRPEN1: u32 = 0xd518_cce0;
pub(crate) const ICC_SGI1R: u32 = 0xd518_cba0;
/// CNTVCT_EL0 as MRS reads it into X0; a read is a write with this bit.
pub(crate) const CNTVCT: u32 = 0xd53b_e040;
const READ: u32 = 1 << 21;

impl Code {
    /// Code that stands at `base`.
    pub(crate) fn at(base: u64) -> Code {
        Code { words: Vec::new(), marks: vec![("base".to_owned(), base)] }
    }

    /// Address of the next word.
    pub(crate) fn here(&self) -> u64 {
        self.marks[0].1 + 4 * self.words.len() as u64
    }

    /// The words.
    pub(crate) fn words(&self) -> &[u32] {
        &self.words
    }

    pub(crate) fn put(&mut self, words: &[u32]) {
        self.words.extend(words);
    }

    /// Names the address of a word of its own.
    pub(crate) fn mark(&mut self, name: &str) {
        let here = self.here();
        self.marks.push((name.to_owned(), here));
        self.put(&[NOP]);
    }

    /// Fills up with zeros.
    pub(crate) fn align(&mut self, bytes: u64) {
        while !self.here().is_multiple_of(bytes) {
            self.put(&[0]);
        }
    }

    /// Xd = value, in four words.
    pub(crate) fn mov(&mut self, rd: u32, value: u64) {
        let half = |n: u32| (value >> (16 * n) & 0xffff) as u32;
        self.put(&[0xd280_0000 | half(0) << 5 | rd]);
        (1..4).for_each(|n| self.put(&[0xf280_0000 | n << 21 | half(n) << 5 | rd]));
    }

    /// Xt = \[Xn\].
    pub(crate) fn load(&mut self, rt: u32, rn: u32) {
        self.put(&[0xf940_0000 | rn << 5 | rt]);
    }

    /// \[Xn\] = Xt.
    pub(crate) fn store(&mut self, rt: u32, rn: u32) {
        self.put(&[0xf900_0000 | rn << 5 | rt]);
    }

    /// Writes a word of 32 bits at a fixed address; clobbers X9 and X10.
    pub(crate) fn store_word(&mut self, address: u64, value: u32) {
        self.mov(9, address);
        self.mov(10, u64::from(value));
        self.put(&[0xb900_0000 | 9 << 5 | 10]);
    }

    /// W12 = a word of 32 bits at a fixed address; clobbers X9.
    pub(crate) fn load_word(&mut self, address: u64) {
        self.mov(9, address);
        self.put(&[0xb940_0000 | 9 << 5 | 12]);
    }

    pub(crate) fn msr(&mut self, register: u32, rt: u32) {
        self.put(&[register | rt]);
    }

    pub(crate) fn mrs(&mut self, rt: u32, register: u32) {
        self.put(&[register | READ | rt]);
    }

    /// Sets a system register; clobbers X9.
    pub(crate) fn set(&mut self, register: u32, value: u64) {
        self.mov(9, value);
        self.msr(register, 9);
    }

    /// Branches back to an address while Xt is 0.
    pub(crate) fn loop_while_zero(&mut self, rt: u32, to: u64) {
        let words = (to.wrapping_sub(self.here()) as i64 / 4) as u32 & 0x7_ffff;
        self.put(&[0xb400_0000 | words << 5 | rt]);
    }

    pub(crate) fn branch(&mut self, to: u64) {
        let words = (to.wrapping_sub(self.here()) as i64 / 4) as u32 & 0x3ff_ffff;
        self.put(&[0x1400_0000 | words]);
    }

    /// A branch whose target comes later: its place, for `land`.
    pub(crate) fn jump(&mut self) -> usize {
        self.put(&[0x1400_0000]);
        self.words.len() - 1
    }

    /// The jump at this place, or the conditional branch, leads here.
    pub(crate) fn land(&mut self, jump: usize) {
        let words = (self.words.len() - jump) as u32;
        let at = if self.words[jump] >> 26 == 5 { 0 } else { 5 };
        self.words[jump] |= words << at;
    }

    /// Skips to what `land` says if Xt is not 0.
    pub(crate) fn jump_if_set(&mut self, rt: u32) -> usize {
        self.put(&[0xb500_0000 | rt]);
        self.words.len() - 1
    }

    /// Runs for about so many cycles; clobbers X6.
    pub(crate) fn spend(&mut self, cycles: u64) {
        self.mov(6, cycles);
        self.put(&[0xf100_04c6, 0x54ff_ffe1]); // subs x6, x6, #1; b.ne
    }

    /// Appends a line to the log of the role, whose base is X19: a kind and X12. Clobbers X9 to
    /// X11.
    pub(crate) fn log(&mut self, kind: u64) {
        self.mov(11, kind);
        self.put(&[
            0xf940_0269, // ldr x9, [x19]
            0x8b09_126a, // add x10, x19, x9, lsl #4
            0xf900_214b, // str x11, [x10, #64]
            0xf900_254c, // str x12, [x10, #72]
            0x9100_0529, // add x9, x9, #1
            0xf900_0269, // str x9, [x19]
        ]);
    }
}
