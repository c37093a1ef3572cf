/* Halts with interrupts off; no other CPU was started.
 * Expected: no CPU can ever run again, with a stall report. */
#include "guest.h"

void run(void) {
    print("halting\n");
    for (;;) __asm__ volatile("cli; hlt");
}
