/* Spins on a word that nobody ever changes, with interrupts off.
 * Expected: the time limit ends the run (a spin is not a wait), and soon for the host. */
#include "guest.h"

static volatile u64 word;

void run(void) {
    print("spinning\n");
    while (word == 0) pause();
    finish(1);
}
