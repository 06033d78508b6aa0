/* Start of a program on an RV32 core: the stack, traps, memory, thread-local data; then main. */
#include "board.h"

extern uint32_t data_in_flash[], data_start[], data_end[], zero_start[], zero_end[];
int main(void);
void reset(void);
void fault(void);

__attribute__((section(".vectors"), naked, used)) void first(void)
{
    __asm__ volatile("la sp, stack_top\n la tp, thread_start\n"
                     ".option push\n .option arch, +zicsr\n"
                     "la t0, fault\n csrw mtvec, t0\n j reset\n .option pop");
}

void reset(void)
{
    const uint32_t *from = data_in_flash;
    for (uint32_t *to = data_start; to < data_end; to++)
        *to = *from++;
    for (uint32_t *to = zero_start; to < zero_end; to++)
        *to = 0;
    host_exit(main());
}

__attribute__((aligned(4))) void fault(void)
{
    host_exit(1);
}
