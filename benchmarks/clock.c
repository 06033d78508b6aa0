/* A stopwatch with a stack: time is charged to the part entered last and not yet left. */

#include <stdint.h>
#include <time.h>

enum { PARTS = 32, DEPTH = 64 };

static double spent[PARTS], last;
static int64_t stack[DEPTH], depth;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void charge(void)
{
    const double t = now();
    if (depth > 0)
        spent[stack[depth - 1]] += t - last;
    last = t;
}

void enter(int64_t part)
{
    charge();
    stack[depth++] = part;
}

void leave(void)
{
    charge();
    depth--;
}

/* The time charged to a part since it was last read. */
double read_spent(int64_t part)
{
    const double result = spent[part];
    spent[part] = 0;
    return result;
}
