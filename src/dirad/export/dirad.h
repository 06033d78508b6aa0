/* dirad.h: adapts the parameters of a network on the device.
 *
 * C99, no memory but what the caller declares. An exported network (dirad export --to c --learn)
 * contains this file. Its structure stays as it is; weights, biases and with them the thresholds
 * of gates move by one step of Adam (or of gradient descent) per batch, as in Python.
 *
 *     dirad_forward(&net, x, out);            what the network says
 *     dirad_learn(&net, x, target);           count the gradient of one sample
 *     dirad_step(&net, 0.003f);               one step along the mean of these gradients
 *
 * Numbers are float; define DIRAD_DOUBLE for double. Define DIRAD_SGD for gradient descent, which
 * needs a third of the memory. Compile without -ffast-math: NaN must be recognized.
 */
#ifndef DIRAD_H
#define DIRAD_H

#include <math.h>
#include <stdint.h>

#ifdef DIRAD_DOUBLE
typedef double dirad_real;
#define DIRAD_MATH(function) function
#else
typedef float dirad_real;
#define DIRAD_MATH(function) function##f
#endif

enum { DIRAD_LOGISTIC, DIRAD_LINEAR, DIRAD_SOFTMAX }; /* transfer of the outputs */
enum { DIRAD_PLAIN, DIRAD_FILLED, DIRAD_MISSING, DIRAD_EQUALS }; /* encoding of a column */

#define DIRAD_BETA1 ((dirad_real)0.9)   /* memory of Adam for gradients */
#define DIRAD_BETA2 ((dirad_real)0.99)  /* and for their squares */
#define DIRAD_EPSILON ((dirad_real)1e-8)
#define DIRAD_LAST_CORRECTION 2000 /* step from which Adam's correction stays as it is */

/* Numbers of RAM besides the parameters: for states, gradients and moments. */
#ifdef DIRAD_SGD
#define DIRAD_MOMENTS 0
#else
#define DIRAD_MOMENTS 2
#endif
#define DIRAD_MEMORY(inputs, units, edges) \
    ((inputs) + 6 * (units) + (1 + DIRAD_MOMENTS) * ((edges) + 2 * (units)))

/* One network. A unit is an output (one term) or a modulatory node (two terms); term t of unit u
 * has the number 2u + t. Units come in the order in which they are computed. */
typedef struct {
    uint16_t n_inputs, n_units, n_outputs;
    uint8_t transfer;
    uint8_t squared;      /* cost: half the squared error, or else the cross-entropy */
    uint8_t gate_biases;  /* has term 0 of a modulatory node a bias that adapts? */
    const uint16_t *start;    /* (2 * units + 1) first edge of each term */
    const uint16_t *source;   /* (edges) input, or n_inputs + unit */
    const int16_t *output;    /* (units) its column, or -1: a modulatory node */
    const dirad_real *gain;   /* (units) K of modulatory nodes */
    const uint16_t *column;   /* (inputs) of the sample */
    const uint8_t *encoding;  /* (inputs) how it becomes an input; NULL: as it is */
    const dirad_real *constant; /* (inputs) what fills a gap, or the category */
    const dirad_real *mean, *spread;  /* (inputs) by which they are standardized */
    const dirad_real *offset, *scale; /* (outputs) of predicted numbers; NULL: classes */
    dirad_real *weight;   /* (edges) */
    dirad_real *bias;     /* (2 * units) */
    dirad_real *memory;   /* DIRAD_MEMORY numbers, 0 in the beginning */
    dirad_real decay;     /* weight decay: decay * w is added to the gradient */
    dirad_real samples;   /* learned from since the last step */
    dirad_real power1, power2; /* of Adam's betas; 1 in the beginning */
    uint32_t steps;
} dirad_network;

static inline uint32_t dirad_edges(const dirad_network *n)
{
    return n->start[2 * n->n_units];
}

/* Parts of the memory. */
static inline dirad_real *dirad_states(const dirad_network *n)
{
    return n->memory;
}
static inline dirad_real *dirad_terms(const dirad_network *n)
{
    return n->memory + n->n_inputs + n->n_units; /* z of term 0, then the gate's value */
}
static inline dirad_real *dirad_pulls(const dirad_network *n)
{
    return n->memory + n->n_inputs + 3 * n->n_units;
}
static inline dirad_real *dirad_deltas(const dirad_network *n)
{
    return n->memory + n->n_inputs + 4 * n->n_units;
}
static inline dirad_real *dirad_gradients(const dirad_network *n)
{
    return n->memory + n->n_inputs + 6 * n->n_units; /* of edges, then of biases */
}

static inline int dirad_is_finite(dirad_real value)
{
    return value - value == 0;
}

/* An input as the network sees it. */
static inline dirad_real dirad_input(const dirad_network *n, uint16_t i, const dirad_real *x)
{
    dirad_real value = x[n->column[i]];
    if (n->encoding) {
        const int gap = value != value;
        if (n->encoding[i] == DIRAD_FILLED && gap)
            value = n->constant[i];
        else if (n->encoding[i] == DIRAD_MISSING)
            value = (dirad_real)gap;
        else if (n->encoding[i] == DIRAD_EQUALS)
            value = (dirad_real)(value == n->constant[i]);
    }
    return (value - n->mean[i]) / n->spread[i];
}

static inline dirad_real dirad_sum(const dirad_network *n, uint32_t term)
{
    const dirad_real *state = dirad_states(n);
    dirad_real z = n->bias[term];
    for (uint32_t e = n->start[term]; e < n->start[term + 1]; e++)
        z += n->weight[e] * state[n->source[e]];
    return z;
}

/* Turn the outputs' sums into probabilities. */
static inline void dirad_softmax(const dirad_network *n)
{
    dirad_real *own = dirad_states(n) + n->n_inputs, top = 0, sum = 0;
    int found = 0;
    for (uint16_t u = 0; u < n->n_units; u++)
        if (n->output[u] >= 0 && (!found || own[u] > top)) {
            top = own[u];
            found = 1;
        }
    for (uint16_t u = 0; u < n->n_units; u++)
        if (n->output[u] >= 0)
            sum += own[u] = DIRAD_MATH(exp)(own[u] - top);
    for (uint16_t u = 0; u < n->n_units; u++)
        if (n->output[u] >= 0)
            own[u] /= sum;
}

/* The states of all units. */
static inline void dirad_propagate(const dirad_network *n, const dirad_real *x)
{
    dirad_real *state = dirad_states(n), *own = state + n->n_inputs, *term = dirad_terms(n);
    const dirad_real half = (dirad_real)0.5;
    for (uint16_t i = 0; i < n->n_inputs; i++)
        state[i] = dirad_input(n, i, x);
    for (uint16_t u = 0; u < n->n_units; u++) {
        own[u] = dirad_sum(n, 2u * u);
        if (n->output[u] < 0) { /* z * s(m), with s between -1 and 3 */
            const dirad_real m = dirad_sum(n, 2u * u + 1);
            term[2 * u] = own[u];
            term[2 * u + 1] = 2 * DIRAD_MATH(tanh)(half * n->gain[u] * m) + 1;
            own[u] *= term[2 * u + 1];
        } else if (n->transfer == DIRAD_LOGISTIC) {
            own[u] = half * DIRAD_MATH(tanh)(half * own[u]) + half;
        }
    }
    if (n->transfer == DIRAD_SOFTMAX)
        dirad_softmax(n);
}

/* What the network says: probabilities, or the numbers that it predicts. */
static inline void dirad_forward(const dirad_network *n, const dirad_real *x, dirad_real *out)
{
    const dirad_real *own = dirad_states(n) + n->n_inputs;
    dirad_propagate(n, x);
    for (uint16_t u = 0; u < n->n_units; u++)
        if (n->output[u] >= 0) {
            const int16_t k = n->output[u];
            out[k] = n->scale ? own[u] * n->scale[k] + n->offset[k] : own[u];
        }
}

/* The number of the most probable class; a single output is the probability of class 1. */
static inline int dirad_class(const dirad_network *n, const dirad_real *x)
{
    const dirad_real *own = dirad_states(n) + n->n_inputs;
    dirad_real highest = 0;
    int best = -1;
    dirad_propagate(n, x);
    for (uint16_t u = 0; u < n->n_units; u++) {
        if (n->output[u] < 0)
            continue;
        if (n->n_outputs == 1)
            return own[u] > (dirad_real)0.5;
        if (best < 0 || own[u] > highest || (own[u] == highest && n->output[u] < best)) {
            highest = own[u];
            best = n->output[u];
        }
    }
    return best;
}

/* Deltas, from the last unit back: the derivative of the cost by the sum of each term. */
static inline void dirad_backward(const dirad_network *n, const dirad_real *target)
{
    const dirad_real *own = dirad_states(n) + n->n_inputs, *term = dirad_terms(n);
    dirad_real *pull = dirad_pulls(n), *delta = dirad_deltas(n);
    for (uint16_t u = 0; u < n->n_units; u++)
        pull[u] = 0;
    for (uint16_t u = n->n_units; u-- > 0;) {
        const int terms = n->output[u] < 0 ? 2 : 1;
        if (terms == 2) {
            const dirad_real s = term[2 * u + 1];
            const dirad_real slope = (dirad_real)0.25 * n->gain[u] * (s + 1) * (3 - s);
            delta[2 * u] = pull[u] * s;
            delta[2 * u + 1] = pull[u] * term[2 * u] * slope;
        } else {
            const int16_t k = n->output[u];
            const dirad_real a = own[u];
            const dirad_real y = n->scale ? (target[k] - n->offset[k]) / n->scale[k] : target[k];
            const dirad_real off = a - y;
            const dirad_real slope = n->transfer == DIRAD_LOGISTIC ? a * (1 - a) : 1;
            delta[2 * u] = (n->squared ? off * slope : off) + pull[u] * slope;
            delta[2 * u + 1] = 0;
        }
        for (int t = 0; t < terms; t++)
            for (uint32_t e = n->start[2 * u + t]; e < n->start[2 * u + t + 1]; e++)
                if (n->source[e] >= n->n_inputs)
                    pull[n->source[e] - n->n_inputs] += n->weight[e] * delta[2 * u + t];
    }
}

/* Count the gradient of one sample; `target` has a number per output. Returns 0, and changes
 * nothing, if the sample or what it gives is not finite. */
static inline int dirad_learn(dirad_network *n, const dirad_real *x, const dirad_real *target)
{
    const dirad_real *state = dirad_states(n), *delta = dirad_deltas(n);
    dirad_real *of_edge = dirad_gradients(n), *of_bias = of_edge + dirad_edges(n);
    dirad_propagate(n, x);
    dirad_backward(n, target);
    for (uint32_t i = 0; i < (uint32_t)n->n_inputs + n->n_units; i++)
        if (!dirad_is_finite(state[i]))
            return 0;
    for (uint32_t t = 0; t < 2u * n->n_units; t++)
        if (!dirad_is_finite(delta[t]))
            return 0;
    for (uint32_t t = 0; t < 2u * n->n_units; t++) {
        of_bias[t] += delta[t];
        for (uint32_t e = n->start[t]; e < n->start[t + 1]; e++)
            of_edge[e] += delta[t] * state[n->source[e]];
    }
    n->samples += 1;
    return 1;
}

/* Count the gradient of one sample of a class; a single output is the probability of class 1.
 * `target` is room for a number per output. */
static inline int dirad_learn_class(dirad_network *n, const dirad_real *x, int k,
                                    dirad_real *target)
{
    for (int i = 0; i < n->n_outputs; i++)
        target[i] = (dirad_real)(n->n_outputs == 1 ? k == 1 : i == k);
    return dirad_learn(n, x, target);
}

/* Move one parameter; place is its number among all, for its moments. */
static inline dirad_real dirad_moved(const dirad_network *n, dirad_real value,
                                     dirad_real gradient, uint32_t place, dirad_real rate)
{
#ifdef DIRAD_SGD
    (void)n;
    (void)place;
    return value - rate * gradient;
#else
    const uint32_t all = dirad_edges(n) + 2u * n->n_units;
    dirad_real *mean = dirad_gradients(n) + all + place, *square = mean + all;
    const dirad_real own = gradient * gradient;
    *mean = DIRAD_BETA1 * (*mean - gradient) + gradient;
    *square = DIRAD_BETA2 * (*square - own) + own;
    return value - *mean * (rate / (1 - n->power1)) /
                       (DIRAD_MATH(sqrt)(*square / (1 - n->power2)) + DIRAD_EPSILON);
#endif
}

/* Forget the gradients counted so far. */
static inline void dirad_forget(dirad_network *n)
{
    dirad_real *gradient = dirad_gradients(n);
    const uint32_t all = dirad_edges(n) + 2u * n->n_units;
    for (uint32_t i = 0; i < all; i++)
        gradient[i] = 0;
    n->samples = 0;
}

/* One step of all parameters along the mean gradient of the samples since the last step. Returns
 * 0, and moves nothing, if there was no sample or a gradient is not finite. */
static inline int dirad_step(dirad_network *n, dirad_real rate)
{
    dirad_real *gradient = dirad_gradients(n);
    const uint32_t edges = dirad_edges(n), all = edges + 2u * n->n_units;
    for (uint32_t i = 0; i < all; i++) { /* their squares are needed too */
        const dirad_real mean = gradient[i] / (n->samples > 0 ? n->samples : 1);
        if (n->samples < 1 || !dirad_is_finite(mean * mean)) {
            dirad_forget(n);
            return 0;
        }
    }
    if (n->steps < DIRAD_LAST_CORRECTION) {
        n->power1 *= DIRAD_BETA1;
        n->power2 *= DIRAD_BETA2;
        n->steps++;
    }
    for (uint32_t e = 0; e < edges; e++) {
        const dirad_real g = gradient[e] / n->samples + n->decay * n->weight[e];
        n->weight[e] = dirad_moved(n, n->weight[e], g, e, rate);
    }
    for (uint32_t t = 0; t < 2u * n->n_units; t++) {
        const int modulatory = n->output[t / 2] < 0;
        if (modulatory ? t % 2 == 1 || n->gate_biases : t % 2 == 0)
            n->bias[t] = dirad_moved(n, n->bias[t], gradient[edges + t] / n->samples, edges + t,
                                     rate);
    }
    dirad_forget(n);
    return 1;
}

#endif
