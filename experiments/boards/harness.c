/* Reads inputs from a file of the host, lets the model answer each, writes the answers and counts.
 *
 * counts.bin: ticks of `KNOWN` and 2 `KNOWN` turns of a loop of 2 instructions, ticks of a call of
 * nothing, then of all answers (two words), the fewest and the most; bytes of stack.
 */
#include "board.h"

enum { KNOWN = 500000, MARK = 0x5AA55AA5, MEASURED_STACKS = 64, DEEPEST = 1 << 16 };

void answer(const void *x, void *out);

extern uint32_t memory_end[]; /* of static data */

typedef union {
    float real;
    int32_t whole;
    uint8_t bytes[4];
} word;

static word x[(IN_BYTES + 3) / 4], out[(OUT_BYTES + 3) / 4];

static void nothing(const void *in, void *to)
{
    (void)in;
    (void)to;
}

static intptr_t opened(const char *name, uint32_t length, uint32_t mode)
{
    const uintptr_t arguments[3] = { (uintptr_t)name, mode, length };
    const intptr_t file = host_call(HOST_OPEN, arguments);
    if (file < 0)
        host_exit(1);
    return file;
}

/* Returns the bytes that were not transferred. */
static intptr_t transfer(int operation, intptr_t file, const void *data, uint32_t size)
{
    const uintptr_t arguments[3] = { (uintptr_t)file, (uintptr_t)data, size };
    return host_call(operation, arguments);
}

static uint32_t ticks_of(void (*call)(const void *, void *))
{
    ticks_begin();
    const uint32_t begin = ticks_now();
    call(x, out);
    const uint32_t end = ticks_now();
    if (ticks_lost())
        host_exit(1);
    return ticks_between(begin, end);
}

static uint32_t ticks_of_loop(uint32_t n)
{
    ticks_begin();
    const uint32_t begin = ticks_now();
    known_loop(n);
    return ticks_between(begin, ticks_now());
}

/* Paints the free memory below the stack, calls, and looks how far down the paint is gone. */
static uint32_t stack_of(void (*volatile call)(const void *, void *))
{
    uint32_t *const top = stack_pointer();
    uint32_t *floor = top - DEEPEST / 4;
    if (floor < memory_end || floor > top)
        floor = memory_end;
    for (volatile uint32_t *p = floor; p < top; p++)
        *p = MARK;
    call(x, out);
    volatile uint32_t *p = floor;
    while (p < top && *p == MARK)
        p++;
    if (p == floor)
        host_exit(1); /* perhaps it went deeper */
    return (uint32_t)((uintptr_t)top - (uintptr_t)p);
}

int main(void)
{
    uint32_t counts[8] = { ticks_of_loop(KNOWN), ticks_of_loop(2 * KNOWN), ticks_of(nothing) };
    uint64_t total = 0;
    uint32_t least = UINT32_MAX, most = 0, stack = 0, n = 0;
    const intptr_t from = opened("in.bin", 6, 1), to = opened("out.bin", 7, 5);
    for (; transfer(HOST_READ, from, x, IN_BYTES) == 0; n++) {
        const uint32_t ticks = ticks_of(answer);
        total += ticks;
        least = ticks < least ? ticks : least;
        most = ticks > most ? ticks : most;
        if (transfer(HOST_WRITE, to, out, OUT_BYTES) != 0)
            return 1;
        if (n < MEASURED_STACKS) {
            const uint32_t depth = stack_of(answer);
            stack = depth > stack ? depth : stack;
        }
    }
    host_call(HOST_CLOSE, &to);
    counts[3] = (uint32_t)total;
    counts[4] = (uint32_t)(total >> 32);
    counts[5] = least;
    counts[6] = most;
    counts[7] = stack;
    const intptr_t about = opened("counts.bin", 10, 5);
    if (transfer(HOST_WRITE, about, counts, sizeof counts) != 0)
        return 1;
    host_call(HOST_CLOSE, &about);
    return 0;
}
