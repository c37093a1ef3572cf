/* Starts all CPUs by PSCI, lets each take SGIs and see stores, prints, exits.
 *
 * Question: do CPU_ON, SGIs (by affinity, to all others, by clusters of 16), stores that every CPU
 * reads, atomics and both consoles work on 1 to 1024 CPUs? It takes nothing from the FDT: the
 * redistributors say which CPUs there are.
 * A region begins when all are up.
 * Exit: 0 = every CPU answered, 1 = wrong counts, 2 = an exception, 3 = wrong device, 4 = PSCI. */
#include "arm64.h"

#define CPUS_MAX 1024
#define STACK_BYTES 4096
#define ROUNDS 4
#define SGI_ONE 1
#define SGI_ALL 5
#define SGI_READ 15
#define CPU_ON 0xc4000003ull
#define ALREADY_ON (-4ull)

/* One table: 1 GiB blocks, devices in the first two, memory behind. */
static u64 table[512] __attribute__((aligned(4096)));
static u8 stacks[CPUS_MAX][STACK_BYTES] __attribute__((aligned(16), used));
static u64 affinities[CPUS_MAX];
static u32 took_one[CPUS_MAX];
static u32 ready, ones, alls, reads, wrong;

/* Lines of their own: what is read, and whether it may be. */
static struct {
    u32 value __attribute__((aligned(64)));
    u32 round __attribute__((aligned(64)));
    u32 end __attribute__((aligned(64)));
} shared;

__attribute__((noreturn, used)) void run(void);
__attribute__((noreturn, used)) void ap_main(u32 index);
__attribute__((noreturn, used)) void on_exception(void);
__attribute__((used)) void on_irq(void);
extern const u8 ap_start[], vectors[];

/* CPU 0 has a stack; the others come with their index in x0, and make theirs of it. */
__asm__(".pushsection .text.start, \"ax\"\n"
        ".globl start, ap_start, vectors\n"
        ".type start, @function\n"
        "start:\n"
        "    bl run\n"
        "    brk #0\n"
        ".size start, . - start\n"
        "ap_start:\n"
        "    adrp x1, stacks\n"
        "    add x1, x1, :lo12:stacks\n"
        "    add x2, x0, #1\n"
        "    add x1, x1, x2, lsl #12\n"
        "    mov sp, x1\n"
        "    bl ap_main\n"
        "    brk #0\n"
        ".balign 2048\n"
        "vectors:\n"
        ".set vector, 0\n"
        ".rept 16\n"
        ".balign 128\n"
        ".if vector == 5\n"
        "    b irq_entry\n"
        ".else\n"
        "    bl on_exception\n"
        ".endif\n"
        ".set vector, vector + 1\n"
        ".endr\n"
        ".balign 128\n"
        "irq_entry:\n"
        "    stp x0, x1, [sp, #-160]!\n    stp x2, x3, [sp, #16]\n"
        "    stp x4, x5, [sp, #32]\n    stp x6, x7, [sp, #48]\n"
        "    stp x8, x9, [sp, #64]\n    stp x10, x11, [sp, #80]\n"
        "    stp x12, x13, [sp, #96]\n    stp x14, x15, [sp, #112]\n"
        "    stp x16, x17, [sp, #128]\n    stp x18, x30, [sp, #144]\n"
        "    bl on_irq\n"
        "    ldp x18, x30, [sp, #144]\n    ldp x16, x17, [sp, #128]\n"
        "    ldp x14, x15, [sp, #112]\n    ldp x12, x13, [sp, #96]\n"
        "    ldp x10, x11, [sp, #80]\n    ldp x8, x9, [sp, #64]\n"
        "    ldp x6, x7, [sp, #48]\n    ldp x4, x5, [sp, #32]\n"
        "    ldp x2, x3, [sp, #16]\n    ldp x0, x1, [sp], #160\n"
        "    eret\n"
        ".popsection\n");

static void enable_mmu(void) {
    WRITE_SYSREG("vbar_el1", vectors);
    WRITE_SYSREG("mair_el1", 0xff04);
    WRITE_SYSREG("tcr_el1", 25 | 1 << 8 | 1 << 10 | 3 << 12 | 1 << 23 |
                                (READ_SYSREG("id_aa64mmfr0_el1") & 7) << 32);
    WRITE_SYSREG("ttbr0_el1", table);
    DSB();
    ISB();
    WRITE_SYSREG("sctlr_el1", 0x30d0180d);
    ISB();
}

static u64 my_affinity(void) { return READ_SYSREG("mpidr_el1") & 0xff00ffffff; }

/* Group 1, own interrupts enabled, nothing masked. */
static void enable_gic(u32 index) {
    u64 own = GICR + index * GICR_BYTES;
    write32(own + 0x14, read32(own + 0x14) & ~2u);
    while (read32(own + 0x14) & 4) pause();
    write32(own + 0x10080, 0xffffffff);
    write32(own + 0x10100, 0xffff);
    WRITE_SYSREG("S3_0_C12_C12_5", READ_SYSREG("S3_0_C12_C12_5") | 1); /* ICC_SRE_EL1 */
    ISB();
    WRITE_SYSREG("S3_0_C4_C6_0", 0xff); /* ICC_PMR_EL1 */
    WRITE_SYSREG("S3_0_C12_C12_7", 1);  /* ICC_IGRPEN1_EL1 */
    ISB();
}

/* What the target will read must be visible first. */
static void send(u64 value) {
    DSB();
    WRITE_SYSREG("S3_0_C12_C11_5", value); /* ICC_SGI1R_EL1 */
    ISB();
}

/* Fields of the register for a CPU, but for its bit in the list. */
static u64 cluster_of(u64 affinity) {
    return (affinity >> 32 & 0xff) << 48 | (affinity >> 4 & 0xf) << 44 |
           (affinity >> 16 & 0xff) << 32 | (affinity >> 8 & 0xff) << 16;
}

/* The stack says who runs: CPU 0 has the one it came with. */
static u32 my_index(void) {
    u64 offset = (u64)__builtin_frame_address(0) - (u64)stacks;
    return offset < sizeof stacks ? (u32)(offset / STACK_BYTES) : 0;
}

/* Every store of the writer must reach every reader, the value before its round. */
static void on_read(void) {
    for (u32 round = 1; round <= ROUNDS; round++) {
        while (__atomic_load_n(&shared.round, __ATOMIC_ACQUIRE) != round) pause();
        if (__atomic_load_n(&shared.value, __ATOMIC_RELAXED) != 77 * round) wrong = 1;
        __atomic_fetch_add(&reads, 1, __ATOMIC_SEQ_CST);
    }
}

void on_irq(void) {
    u32 intid = (u32)READ_SYSREG("S3_0_C12_C12_0"); /* ICC_IAR1_EL1 */
    DSB();
    if (intid == SGI_ONE) {
        u32 index = my_index();
        if (affinities[index] == my_affinity()) took_one[index]++;
        __atomic_fetch_add(&ones, 1, __ATOMIC_SEQ_CST);
    } else if (intid == SGI_ALL) {
        __atomic_fetch_add(&alls, 1, __ATOMIC_SEQ_CST);
    } else if (intid == SGI_READ) {
        on_read();
    } else {
        wrong = 1;
        return;
    }
    WRITE_SYSREG("S3_0_C12_C12_1", intid); /* ICC_EOIR1_EL1 */
    ISB();
}

void on_exception(void) {
    console("exception\n");
    finish(2);
}

void ap_main(u32 index) {
    enable_mmu();
    enable_gic(index);
    if (affinities[index] != my_affinity()) wrong = 1;
    __atomic_fetch_add(&ready, 1, __ATOMIC_SEQ_CST);
    __asm__ volatile("msr daifclr, #2" ::: "memory");
    for (;;) __asm__ volatile("wfi" ::: "memory");
}

static void wait_for(u32 *count, u32 value) {
    while (__atomic_load_n(count, __ATOMIC_SEQ_CST) != value) pause();
}

/* Each CPU by its own affinity, this one too, then all others, then all by clusters. */
static void send_sgis(u32 cpus) {
    for (u32 i = 0; i < cpus; i++)
        send(cluster_of(affinities[i]) | SGI_ONE << 24 | 1ull << (affinities[i] & 0xf));
    wait_for(&ones, cpus);
    send(1ull << 40 | SGI_ALL << 24);
    wait_for(&alls, cpus - 1);
    u64 bits = 0;
    for (u32 i = 0; i < cpus; i++) {
        u64 cluster = cluster_of(affinities[i]);
        bits |= 1ull << (affinities[i] & 0xf);
        if (i + 1 < cpus && cluster_of(affinities[i + 1]) == cluster) continue;
        send(cluster | SGI_ALL << 24 | bits);
        bits = 0;
    }
    wait_for(&alls, 2 * cpus - 1);
}

/* One writer, all others readers, in rounds. */
static void store_for_all(u32 cpus) {
    send(1ull << 40 | SGI_READ << 24);
    for (u32 round = 1; round <= ROUNDS; round++) {
        __atomic_store_n(&shared.value, 77 * round, __ATOMIC_RELAXED);
        __atomic_store_n(&shared.round, round, __ATOMIC_RELEASE);
        wait_for(&reads, round * (cpus - 1));
    }
}

static int has_all_answered(u32 cpus) {
    for (u32 i = 0; i < cpus; i++)
        if (took_one[i] != 1) return 0;
    return !wrong && ones == cpus && alls == 2 * cpus - 1;
}

void run(void) {
    for (u64 gib = 0; gib < 512; gib++)
        table[gib] = gib << 30 | 1 << 10 | 1 | (gib < 2 ? 3ull << 53 : 3 << 8 | 1 << 2);
    enable_mmu();
    u32 cpus = (u32)test_read(TEST_CPUS);
    if (test_read(TEST_ID) >> 32 != 0x5843414c || cpus == 0 || cpus > CPUS_MAX) finish(3);
    write32(GICD, 1 << 4 | 1 << 1);
    for (u32 i = 0; i < cpus; i++) {
        u64 typer = read64(GICR + i * GICR_BYTES + 8) >> 32;
        affinities[i] = (typer & 0xff000000) << 8 | (typer & 0xffffff);
    }
    enable_gic(0);
    if (affinities[0] != my_affinity()) wrong = 1;
    DSB();
    for (u32 i = 1; i < cpus; i++)
        if (firmware(CPU_ON, affinities[i], (u64)ap_start, i) != 0) finish(4);
    if (firmware(CPU_ON, affinities[0], (u64)ap_start, 0) != ALREADY_ON) finish(4);
    wait_for(&ready, cpus - 1);
    test_write(REGION_BEGIN, 1);
    __asm__ volatile("msr daifclr, #2" ::: "memory");
    send_sgis(cpus);
    store_for_all(cpus);

    print("smp: ");
    print_number(cpus);
    print(" cpus, ");
    print_number(ones);
    print(" answered\n");
    int ok = has_all_answered(cpus);
    console(ok ? "smp: passed\n" : "smp: failed\n");
    finish(ok ? 0 : 1);
}
