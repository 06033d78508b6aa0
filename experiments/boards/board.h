/* What differs between cores: calls to the host (semihosting), the stack pointer, the counter. */
#ifndef BOARD_H
#define BOARD_H

#include <stdint.h>

enum { HOST_OPEN = 1, HOST_CLOSE = 2, HOST_WRITE = 5, HOST_READ = 6, HOST_EXIT = 0x18 };

static inline intptr_t host_call(int operation, const void *arguments)
{
#ifdef __arm__
    register intptr_t result __asm__("r0") = operation;
    register const void *given __asm__("r1") = arguments;
    __asm__ volatile("bkpt 0xab" : "+r"(result) : "r"(given) : "memory");
#else
    register intptr_t result __asm__("a0") = operation;
    register const void *given __asm__("a1") = arguments;
    __asm__ volatile(".option push\n .option norvc\n .balign 16\n"
                     "slli x0, x0, 0x1f\n ebreak\n srai x0, x0, 7\n .option pop"
                     : "+r"(result) : "r"(given) : "memory");
#endif
    return result;
}

static inline void host_exit(int code)
{
    host_call(HOST_EXIT, (const void *)(intptr_t)(code ? 0x20023 : 0x20026));
    for (;;)
        ;
}

/* Inlined always: a function's own frame would be mistaken for that of the model. */
__attribute__((always_inline)) static inline uint32_t *stack_pointer(void)
{
    uint32_t *pointer;
#ifdef __arm__
    __asm__ volatile("mov %0, sp" : "=r"(pointer));
#else
    __asm__ volatile("mv %0, sp" : "=r"(pointer));
#endif
    return pointer;
}

/* The counter: SysTick counts the emulator's clock down, 24 bits; RISC-V counts instructions. */
#ifdef __arm__
#define SYSTICK ((volatile uint32_t *)0xE000E010)
static inline void ticks_begin(void)
{
    SYSTICK[1] = 0xFFFFFF;
    SYSTICK[2] = 0;
    SYSTICK[0] = 5;
}
static inline uint32_t ticks_now(void) { return SYSTICK[2]; }
static inline uint32_t ticks_between(uint32_t a, uint32_t b) { return (a - b) & 0xFFFFFF; }
static inline int ticks_lost(void) { return SYSTICK[0] >> 16 & 1; }
#else
static inline void ticks_begin(void) {}
static inline uint32_t ticks_now(void)
{
    uint32_t now;
    __asm__ volatile(".option push\n .option arch, +zicsr\n"
                     "csrr %0, minstret\n .option pop" : "=r"(now)::"memory");
    return now;
}
static inline uint32_t ticks_between(uint32_t a, uint32_t b) { return b - a; }
static inline int ticks_lost(void) { return 0; }
#endif

/* Runs 2 instructions n times, and a few more. */
static inline void known_loop(uint32_t n)
{
#ifdef __arm__
    __asm__ volatile(".syntax unified\n .balign 4\n1: subs %0, %0, #1\n bne 1b" : "+l"(n)::"cc", "memory");
#else
    __asm__ volatile("1: addi %0, %0, -1\n bnez %0, 1b" : "+r"(n)::"memory");
#endif
}

#endif
