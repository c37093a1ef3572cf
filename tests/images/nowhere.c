/* Jumps to an address that no page maps, with an empty IDT.
 * Expected: guest fault (triple fault) with the address and the instruction before it. */
#include "guest.h"

void run(void) {
    ((void (*)(void))0x123456789000ull)();
    finish(1);
}
