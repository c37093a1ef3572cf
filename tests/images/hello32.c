/* A 32-bit program, linked as ELF32.
 * Expected: refused as input, exit code 2. */
void start(void) {
    for (;;) __asm__ volatile("cli; hlt");
}
