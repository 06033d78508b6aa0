/* What one core can do at most: multiply-adds in registers, and reading from its second cache. */

#include <stdint.h>

enum { LANES = 16, CHAINS = 12 }; /* enough independent sums to hide the latency of an addition */

/* 2 · LANES · CHAINS floating-point operations per round. */
float multiply_add(int64_t rounds, float factor)
{
    float sum[CHAINS][LANES];
    for (int c = 0; c < CHAINS; c++)
        for (int i = 0; i < LANES; i++)
            sum[c][i] = (float)(c + i);
    for (int64_t r = 0; r < rounds; r++)
        for (int c = 0; c < CHAINS; c++)
            for (int i = 0; i < LANES; i++)
                sum[c][i] = sum[c][i] * factor + 1.0f;
    float total = 0.0f;
    for (int c = 0; c < CHAINS; c++)
        for (int i = 0; i < LANES; i++)
            total += sum[c][i];
    return total;
}

/* Reads n floats `rounds` times; n is chosen so that they lie in the second cache. */
float read_all(const float *values, int64_t n, int64_t rounds)
{
    float sum[8][LANES] = {{0}};
    for (int64_t r = 0; r < rounds; r++)
        for (int64_t m = 0; m + 8 * LANES <= n; m += 8 * LANES)
            for (int c = 0; c < 8; c++)
                for (int i = 0; i < LANES; i++)
                    sum[c][i] += values[m + c * LANES + i];
    float total = 0.0f;
    for (int c = 0; c < 8; c++)
        for (int i = 0; i < LANES; i++)
            total += sum[c][i];
    return total;
}
