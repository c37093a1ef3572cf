/* Text of the test guests, by the `serial_byte` and `test_write` of their instruction set. */
#pragma once

static inline void print(const char *text) {
    for (; *text; text++) serial_byte((u8)*text);
}

static inline void print_number(u64 value) {
    char digits[20];
    int n = 0;
    do digits[n++] = (char)('0' + value % 10);
    while (value /= 10);
    while (n) serial_byte((u8)digits[--n]);
}

static inline void console(const char *text) {
    for (; *text; text++) test_write(TEST_CONSOLE, (u8)*text);
}
