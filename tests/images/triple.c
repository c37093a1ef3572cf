/* Executes an invalid instruction with an empty IDT: #UD, #GP, double fault, shutdown.
 * Expected: guest fault (triple fault) at `ud2`. */
#include "guest.h"

void run(void) {
    struct {
        u16 limit;
        u64 base;
    } __attribute__((packed)) idtr = {0, 0};
    __asm__ volatile("lidt %0; ud2" ::"m"(idtr));
    finish(1);
}
