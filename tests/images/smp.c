/* Starts all CPUs by INIT-SIPI-SIPI, lets each take interrupts and see stores, prints, exits.
 *
 * Question: do AP start-up, IPIs (by ID, to all, to all others, by logical cluster), stores that
 * every CPU reads, atomics and both consoles work on 1 to 1024 CPUs, in xAPIC and in x2APIC mode?
 * It takes nothing from the FDT: APs are started by shorthand and tell their own APIC IDs.
 * A region begins when all are up.
 * Exit: 0 = every CPU answered, 1 = wrong counts, 2 = an exception, 3 = wrong device. */
#include "guest.h"

#define CPUS_MAX 1024
#define TRAMPOLINE 0x80000ull
#define VECTOR_ONE 0x41
#define VECTOR_ALL 0x52
#define VECTOR_READ 0x53
#define ROUNDS 4
#define VECTOR_SPURIOUS 0xff

#define MSR_APIC_BASE 0x1b
#define APIC_X2 (1ull << 10)
#define REG_ID 0x20
#define REG_EOI 0xb0
#define REG_SVR 0xf0
#define REG_ICR 0x300
#define REG_ICR_HIGH 0x310

#define ICR_INIT 0x4500u
#define ICR_STARTUP 0x4600u
#define ICR_ASSERT 0x4000u
#define ICR_ALL_BUT_SELF 0xc0000u
#define ICR_ALL 0x80000u
#define ICR_LOGICAL 0x800u
#define ICR_PENDING 0x1000u
#define REGION_BEGIN 0x20

/* Start-up code, copied to TRAMPOLINE. Real mode with CS:IP = 8000:0000 at first. */
extern const u8 trampoline_start[], trampoline_end[], trampoline_params[];

struct params {
    u64 entry;
    u64 stacks;
    u32 cr3;
    u32 next; /* next index to hand out; CPU 0 is index 0 */
} __attribute__((packed));

#define STACK_BYTES 4096

__asm__(".pushsection .rodata.trampoline, \"a\"\n"
        ".globl trampoline_start, trampoline_end, trampoline_params\n"
        ".balign 16\n"
        "trampoline_start:\n"
        ".code16\n"
        "    cli\n"
        "    cld\n"
        "    movw %cs, %ax\n"
        "    movw %ax, %ds\n"
        "    lgdtl (tr_gdtr - trampoline_start)\n"
        "    movl %cr0, %eax\n"
        "    orl $1, %eax\n"
        "    movl %eax, %cr0\n"
        "    ljmpl $0x18, $(0x80000 + tr_protected - trampoline_start)\n"
        ".code32\n"
        "tr_protected:\n"
        "    movw $0x10, %ax\n"
        "    movw %ax, %ds\n"
        "    movw %ax, %es\n"
        "    movw %ax, %ss\n"
        "    movl %cr4, %eax\n"
        "    orl $0x20, %eax\n"
        "    movl %eax, %cr4\n"
        "    movl (0x80000 + tr_cr3 - trampoline_start), %eax\n"
        "    movl %eax, %cr3\n"
        "    movl $0xc0000080, %ecx\n"
        "    rdmsr\n"
        "    orl $0x100, %eax\n"
        "    wrmsr\n"
        "    movl %cr0, %eax\n"
        "    orl $0x80000000, %eax\n"
        "    andl $0x9fffffff, %eax\n" /* CD and NW are set after INIT */
        "    movl %eax, %cr0\n"
        "    ljmpl $0x08, $(0x80000 + tr_long - trampoline_start)\n"
        ".code64\n"
        "tr_long:\n"
        "    xorl %eax, %eax\n"
        "    movw %ax, %fs\n"
        "    movw %ax, %gs\n"
        "    movl $1, %edi\n"
        "    lock xaddl %edi, (tr_next - trampoline_start + 0x80000)\n"
        "    movl %edi, %eax\n"
        "    incl %eax\n"
        "    shlq $12, %rax\n"
        "    addq (tr_stacks - trampoline_start + 0x80000), %rax\n"
        "    movq %rax, %rsp\n"
        "    callq *(tr_entry - trampoline_start + 0x80000)\n"
        "    ud2\n"
        ".balign 8\n"
        "tr_gdt:\n"
        "    .quad 0, 0x00af9b000000ffff, 0x00cf93000000ffff, 0x00cf9b000000ffff\n"
        "tr_gdtr:\n"
        "    .word . - tr_gdt - 1\n"
        "    .long 0x80000 + tr_gdt - trampoline_start\n"
        ".balign 8\n"
        "trampoline_params:\n"
        "tr_entry: .quad 0\n"
        "tr_stacks: .quad 0\n"
        "tr_cr3: .long 0\n"
        "tr_next: .long 1\n"
        "trampoline_end:\n"
        ".popsection\n");

struct gate {
    u16 low, selector;
    u8 ist, type;
    u16 middle;
    u32 high, zero;
} __attribute__((packed, aligned(16)));

static struct gate idt[256];
static u8 stacks[CPUS_MAX][STACK_BYTES] __attribute__((aligned(16)));
static u32 apic_ids[CPUS_MAX];
static u32 took_one[CPUS_MAX];
static int is_x2apic;
static u32 ready, ones, alls, reads, wrong;

/* Lines of their own: what is read, and whether it may be. */
static struct {
    u32 value __attribute__((aligned(64)));
    u32 round __attribute__((aligned(64)));
    u32 end __attribute__((aligned(64)));
} shared;

static u32 apic_read(u32 reg) {
    if (is_x2apic) return (u32)rdmsr(0x800 + (reg >> 4));
    return *(volatile u32 *)(0xfee00000ull + reg);
}

static void apic_write(u32 reg, u32 value) {
    if (is_x2apic)
        wrmsr(0x800 + (reg >> 4), value);
    else
        *(volatile u32 *)(0xfee00000ull + reg) = value;
}

static u32 apic_id(void) {
    u32 id = apic_read(REG_ID);
    return is_x2apic ? id : id >> 24;
}

static void send(u32 target, u32 command) {
    if (is_x2apic) {
        /* An x2APIC ICR write is no barrier: what the target will read must be visible first. */
        __asm__ volatile("mfence" ::: "memory");
        wrmsr(0x830, (u64)target << 32 | command);
        return;
    }
    while (apic_read(REG_ICR) & ICR_PENDING) pause();
    apic_write(REG_ICR_HIGH, target << 24);
    apic_write(REG_ICR, command);
}

/* The stack says who runs: APs have numbered ones, CPU 0 has the one it came with. */
static u32 my_index(void) {
    u64 offset = (u64)__builtin_frame_address(0) - (u64)stacks;
    return offset < sizeof stacks ? (u32)(offset / STACK_BYTES) : 0;
}

__attribute__((used)) void on_one(void) {
    u32 index = my_index();
    if (apic_ids[index] == apic_id()) took_one[index]++;
    __atomic_fetch_add(&ones, 1, __ATOMIC_SEQ_CST);
    apic_write(REG_EOI, 0);
}

__attribute__((used)) void on_all(void) {
    __atomic_fetch_add(&alls, 1, __ATOMIC_SEQ_CST);
    apic_write(REG_EOI, 0);
}

/* Every store of the writer must reach every reader, the value before its round. */
__attribute__((used)) void on_read(void) {
    for (u32 round = 1; round <= ROUNDS; round++) {
        while (__atomic_load_n(&shared.round, __ATOMIC_ACQUIRE) != round) pause();
        if (__atomic_load_n(&shared.value, __ATOMIC_RELAXED) != 77 * round) wrong = 1;
        __atomic_fetch_add(&reads, 1, __ATOMIC_SEQ_CST);
    }
    apic_write(REG_EOI, 0);
}

/* Entry of an interrupt: five words are on the stack, nine registers make it fourteen. */
#define ENTRY(name)                                                              \
    extern const u8 name##_entry[];                                              \
    __asm__(".pushsection .text, \"ax\"\n" #name "_entry:\n"                     \
            "    pushq %rax\n    pushq %rcx\n    pushq %rdx\n    pushq %rsi\n"   \
            "    pushq %rdi\n    pushq %r8\n    pushq %r9\n    pushq %r10\n"     \
            "    pushq %r11\n    cld\n    call " #name "\n"                      \
            "    popq %r11\n    popq %r10\n    popq %r9\n    popq %r8\n"         \
            "    popq %rdi\n    popq %rsi\n    popq %rdx\n    popq %rcx\n"       \
            "    popq %rax\n    iretq\n.popsection\n")

ENTRY(on_one);
ENTRY(on_all);
ENTRY(on_read);

extern const u8 spurious_entry[];
__asm__(".pushsection .text, \"ax\"\nspurious_entry:\n    iretq\n.popsection\n");

__attribute__((noreturn, used)) void on_exception(void) {
    console("exception\n");
    finish(2);
}

extern const u8 exception_entry[];
__asm__(".pushsection .text, \"ax\"\n"
        "exception_entry:\n"
        "    cli\n"
        "    andq $-16, %rsp\n"
        "    call on_exception\n"
        ".popsection\n");

static void set_gate(int vector, const void *handler) {
    u64 at = (u64)handler;
    struct gate gate = {(u16)at, 8, 0, 0x8e, (u16)(at >> 16), (u32)(at >> 32), 0};
    idt[vector] = gate;
}

static void load_idt(void) {
    struct {
        u16 limit;
        u64 base;
    } __attribute__((packed)) idtr = {sizeof idt - 1, (u64)idt};
    __asm__ volatile("lidt %0" ::"m"(idtr));
}

static void enable_apic(void) { apic_write(REG_SVR, 0x100 | VECTOR_SPURIOUS); }

/* The APIC and CPUID tell the same ID. */
static void check_id(void) {
    u32 leaf[4];
    cpuid(0xb, 0, leaf);
    if (leaf[3] != apic_id()) wrong = 1;
}

__attribute__((noreturn)) static void ap_main(u32 index) {
    load_idt();
    enable_apic();
    if (index < CPUS_MAX) apic_ids[index] = apic_id();
    check_id();
    __atomic_fetch_add(&ready, 1, __ATOMIC_SEQ_CST);
    for (;;) __asm__ volatile("sti; hlt" ::: "memory");
}

static void wait_for(u32 *count, u32 value) {
    while (__atomic_load_n(count, __ATOMIC_SEQ_CST) != value) pause();
}

static void start_aps(void) {
    u64 cr3;
    __asm__ volatile("movq %%cr3, %0" : "=r"(cr3));
    u64 size = (u64)(trampoline_end - trampoline_start);
    volatile u8 *to = (volatile u8 *)TRAMPOLINE;
    for (u64 i = 0; i < size; i++) to[i] = trampoline_start[i];
    struct params *params =
        (struct params *)(TRAMPOLINE + (u64)(trampoline_params - trampoline_start));
    params->entry = (u64)ap_main;
    params->stacks = (u64)stacks;
    params->cr3 = (u32)cr3;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    send(0, ICR_ALL_BUT_SELF | ICR_INIT);
    send(0, ICR_ALL_BUT_SELF | ICR_STARTUP | TRAMPOLINE >> 12);
    send(0, ICR_ALL_BUT_SELF | ICR_STARTUP | TRAMPOLINE >> 12);
}

/* All CPUs by logical clusters of 16 (x2APIC), each cluster once. */
static void send_to_clusters(u32 cpus) {
    static u8 has_sent[0x10000];
    for (u32 i = 0; i < cpus; i++) {
        u32 cluster = apic_ids[i] >> 4;
        if (has_sent[cluster]) continue;
        has_sent[cluster] = 1;
        send(cluster << 16 | 0xffff, ICR_ASSERT | ICR_LOGICAL | VECTOR_ALL);
    }
}

/* One writer, all others readers, in rounds. */
static void store_for_all(u32 cpus) {
    if (cpus > 1) send(0, ICR_ALL_BUT_SELF | ICR_ASSERT | VECTOR_READ);
    for (u32 round = 1; round <= ROUNDS; round++) {
        __atomic_store_n(&shared.value, 77 * round, __ATOMIC_RELAXED);
        __atomic_store_n(&shared.round, round, __ATOMIC_RELEASE);
        wait_for(&reads, round * (cpus - 1));
    }
}

static int has_all_answered(u32 cpus) {
    for (u32 i = 0; i < cpus; i++) {
        if (took_one[i] != 1) return 0;
        for (u32 j = 0; j < i; j++)
            if (apic_ids[i] == apic_ids[j]) return 0;
    }
    u32 broadcasts = is_x2apic ? 3 : 2;
    return !wrong && ones == cpus && alls == broadcasts * cpus - 1;
}

void run(void) {
    u32 cpus = (u32)test_read(TEST_CPUS);
    if (test_read(TEST_ID) >> 32 != 0x5843414c || cpus == 0 || cpus > CPUS_MAX) finish(3);
    is_x2apic = (rdmsr(MSR_APIC_BASE) & APIC_X2) != 0;
    for (int vector = 0; vector < 32; vector++) set_gate(vector, exception_entry);
    set_gate(VECTOR_ONE, on_one_entry);
    set_gate(VECTOR_ALL, on_all_entry);
    set_gate(VECTOR_READ, on_read_entry);
    set_gate(VECTOR_SPURIOUS, spurious_entry);
    for (u32 i = 0; i < CPUS_MAX; i++) apic_ids[i] = 0xffffffff;
    load_idt();
    enable_apic();
    apic_ids[0] = apic_id();
    check_id();
    if (cpus > 1) start_aps();
    wait_for(&ready, cpus - 1);
    test_write(REGION_BEGIN, 1);
    __asm__ volatile("sti" ::: "memory");

    /* Each CPU by its own ID, this one too, then all others, all, and all by clusters. */
    for (u32 i = 0; i < cpus; i++) send(apic_ids[i], ICR_ASSERT | VECTOR_ONE);
    wait_for(&ones, cpus);
    if (cpus > 1) send(0, ICR_ALL_BUT_SELF | ICR_ASSERT | VECTOR_ALL);
    wait_for(&alls, cpus - 1);
    send(0, ICR_ALL | ICR_ASSERT | VECTOR_ALL);
    wait_for(&alls, 2 * cpus - 1);
    if (is_x2apic) {
        send_to_clusters(cpus);
        wait_for(&alls, 3 * cpus - 1);
    }
    store_for_all(cpus);

    print("smp: ");
    print_number(cpus);
    print(is_x2apic ? " cpus in x2apic mode, " : " cpus in xapic mode, ");
    print_number(ones);
    print(" answered\n");
    int ok = has_all_answered(cpus);
    console(ok ? "smp: passed\n" : "smp: failed\n");
    finish(ok ? 0 : 1);
}
