/* Start of a program on a Cortex-M: the vector table, memory, the FPU; then main. */
#include "board.h"

extern uint32_t data_in_flash[], data_start[], data_end[], zero_start[], zero_end[], stack_top[];
int main(void);

static void reset(void)
{
    const uint32_t *from = data_in_flash;
    for (uint32_t *to = data_start; to < data_end; to++)
        *to = *from++;
    for (uint32_t *to = zero_start; to < zero_end; to++)
        *to = 0;
#ifdef __ARM_FP
    *(volatile uint32_t *)0xE000ED88 |= 0xF << 20; /* CPACR: full access to the FPU */
    __asm__ volatile("dsb\n isb" ::: "memory");
#endif
    host_exit(main());
}

static void fault(void)
{
    host_exit(1);
}

__attribute__((section(".vectors"), used)) static const void *const vectors[16] = {
    stack_top, reset, fault, fault, fault, fault, fault, 0, 0, 0, 0, fault, fault, 0, fault, fault
};
