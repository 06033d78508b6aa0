/* Lets a model answer the inputs of standard input; writes the answers to standard output. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

void answer(const void *x, void *out);

int main(void)
{
    /* Of their exact sizes, so that a sanitizer sees what is read or written beyond them. */
    void *x = malloc(IN_BYTES), *out = malloc(OUT_BYTES);
    if (x == NULL || out == NULL)
        return 1;
    while (fread(x, 1, IN_BYTES, stdin) == IN_BYTES) {
        answer(x, out);
        if (fwrite(out, 1, OUT_BYTES, stdout) != OUT_BYTES)
            return 1;
    }
    free(x);
    free(out);
    return 0;
}
