// Executes single instructions for the differential test: reads records from standard input, runs
// each, writes what became of the registers to standard output. Static, without a C library.
//
// The two words of a record are put at CODE, behind them are the exits: at CODE + 8 for going on,
// at CODE + 12 for a branch taken. Nothing may be assumed of any register afterwards, so an exit
// keeps x0 in TPIDR_EL0 until it has an address to store the others at.

typedef unsigned long u64;
typedef unsigned int u32;

#define CODE 0x100000ul
#define MEMORY 0x101000ul
#define MEMORY_BYTES 512

struct state {
    u64 x[31];
    u64 sp;
    u64 nzcv;
    u64 fpsr;
    u64 v[64];
};

struct record {
    u32 words[2];
    u64 outcome;
    struct state state;
    unsigned char memory[MEMORY_BYTES];
};

enum outcome { GOES_ON, JUMPS, UNDEFINED, FAULTS };

struct state state;
u64 host_sp;
u64 outcome;
static struct record record;
static unsigned char signal_stack[65536];

void run(void);
void leave(void);
void leave_jump(void);

__asm__(
    ".macro leave_with outcome\n"
    "  msr tpidr_el0, x0\n"
    "  adrp x0, state\n  add x0, x0, :lo12:state\n"
    "  stp x1, x2, [x0, #8]\n"
    "  mrs x1, nzcv\n  str x1, [x0, #256]\n"
    "  mrs x1, fpsr\n  str x1, [x0, #264]\n"
    "  mrs x1, tpidr_el0\n  str x1, [x0]\n"
    "  adrp x2, outcome\n  mov x1, #\\outcome\n  str x1, [x2, :lo12:outcome]\n"
    "  b save\n"
    ".endm\n"
    ".text\n"
    ".global run, leave, leave_jump\n"
    "run:\n"
    "  stp x19, x20, [sp, #-96]!\n  stp x21, x22, [sp, #16]\n  stp x23, x24, [sp, #32]\n"
    "  stp x25, x26, [sp, #48]\n  stp x27, x28, [sp, #64]\n  stp x29, x30, [sp, #80]\n"
    "  adrp x1, host_sp\n  mov x2, sp\n  str x2, [x1, :lo12:host_sp]\n"
    "  adrp x0, state\n  add x0, x0, :lo12:state\n"
    "  ldr x1, [x0, #248]\n  mov sp, x1\n"
    "  ldr x1, [x0, #256]\n  msr nzcv, x1\n"
    "  ldr x1, [x0, #264]\n  msr fpsr, x1\n"
    "  .irp n, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 0\n"
    "  ldr q\\n, [x0, #(272 + 16 * \\n)]\n"
    "  .endr\n"
    "  ldp x29, x30, [x0, #232]\n"
    "  .irp n, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27\n"
    "  ldr x\\n, [x0, #(8 * \\n)]\n"
    "  .endr\n"
    "  .irp n, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28\n"
    "  ldr x\\n, [x0, #(8 * \\n)]\n"
    "  .endr\n"
    "  ldp x0, x1, [x0]\n"
    "  b CODE\n"
    "leave:\n  leave_with 0\n"
    "leave_jump:\n  leave_with 1\n"
    "save:\n"
    "  .irp n, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30\n"
    "  str x\\n, [x0, #(8 * \\n)]\n"
    "  .endr\n"
    "  mov x1, sp\n  str x1, [x0, #248]\n"
    "  .irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31\n"
    "  str q\\n, [x0, #(272 + 16 * \\n)]\n"
    "  .endr\n"
    "  adrp x1, host_sp\n  ldr x2, [x1, :lo12:host_sp]\n  mov sp, x2\n"
    "  ldp x21, x22, [sp, #16]\n  ldp x23, x24, [sp, #32]\n  ldp x25, x26, [sp, #48]\n"
    "  ldp x27, x28, [sp, #64]\n  ldp x29, x30, [sp, #80]\n  ldp x19, x20, [sp], #96\n"
    "  ret\n");

static long call(long n, long a, long b, long c, long d, long e, long f) {
    register long x8 __asm__("x8") = n;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ volatile("svc 0"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                     : "memory");
    return x0;
}

static void leave_process(int code) { call(94, code, 0, 0, 0, 0, 0); }

static volatile u64 trapped;

// Resumes at the exit for going on: the registers are those before the instruction.
static void handler(int signal, void *info, char *context) {
    (void)info;
    trapped = signal == 4 ? UNDEFINED : FAULTS;
    *(u64 *)(context + 440) = (u64)leave;
}

static int transfer(long n, char *at, u64 bytes) {
    u64 done = 0;
    while (done < bytes) {
        long got = call(n, n == 63 ? 0 : 1, (long)(at + done), (long)(bytes - done), 0, 0, 0);
        if (got <= 0) return 0;
        done += (u64)got;
    }
    return 1;
}

static void put(u64 at, u32 word) { *(volatile u32 *)at = word; }

static u32 branch(u64 from, u64 to) { return 0x14000000u | (((to - from) >> 2) & 0x3ffffffu); }

static void copy(void *to, const void *from, u64 bytes) {
    u64 *a = to;
    const u64 *b = from;
    for (u64 i = 0; i < bytes / 8; i++) ((volatile u64 *)a)[i] = b[i];
}

void _start(void) {
    call(222, CODE, 0x2000, 7, 0x32, -1, 0);
    u64 stack[3] = {(u64)signal_stack, 0, sizeof signal_stack};
    call(132, (long)stack, 0, 0, 0, 0, 0);
    u64 action[4] = {(u64)handler, 0x08000004, 0, 0};  // SA_ONSTACK | SA_SIGINFO
    static const int signals[] = {4, 5, 7, 8, 11};
    for (int i = 0; i < 5; i++) call(134, signals[i], (long)action, 0, 8, 0, 0);
    while (transfer(63, (char *)&record, sizeof record)) {
        copy(&state, &record.state, sizeof state);
        copy((void *)MEMORY, record.memory, MEMORY_BYTES);
        put(CODE, record.words[0]);
        put(CODE + 4, record.words[1]);
        put(CODE + 8, branch(CODE + 8, (u64)leave));
        put(CODE + 12, branch(CODE + 12, (u64)leave_jump));
        __asm__ volatile("dc cvau, %0\n dsb ish\n ic ivau, %0\n dsb ish\n isb\n clrex" ::"r"(CODE)
                         : "memory");
        trapped = 0;
        run();
        record.outcome = trapped ? trapped : outcome;
        copy(&record.state, &state, sizeof state);
        copy(record.memory, (void *)MEMORY, MEMORY_BYTES);
        if (!transfer(64, (char *)&record, sizeof record)) leave_process(1);
    }
    leave_process(0);
}
