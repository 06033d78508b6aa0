/* The adaptation step by hand: what the kernels of dirad are measured against.
 *
 * It works on the package's own arrays (see reference.py for the record that carries them) and
 * does the same: states forward, the mean cost, deltas backward, gradient, net and total potential
 * of every edge and term, a step of gradient descent. Rows are padded, columns are worked on in
 * tiles, four edges are taken at a time. Logistic outputs, squared cost.
 */

#include <math.h>
#include <stdint.h>

#define TILE 256
enum { N_INPUTS, N_UNITS, N_EDGES };
enum { OUTPUT = 1, MODULATORY = 2 };

typedef struct { int64_t kind, output; double gain; int64_t owner, frozen; } Unit;
typedef struct { int64_t source, term; double weight; int64_t owner, frozen; } Edge;
typedef struct { double gradient, net, total; } Pull;

typedef struct {
    int64_t *counts;
    Unit *units;
    double *bias;
    Edge *edges;
    int64_t *status, *order, *in_start, *in_edge, *out_start, *out_edge;
    float *state, *term_0, *term_1, *delta, *felt, *target, *sample_weight;
    float *edge_weight, *out_weight;
    int64_t *edge_source, *out_term;
    Pull *edge_pull, *term_pull;
    int64_t columns, samples, width;
    double gamma, delta_min, tolerance;
} Job;

/* The inner loops are functions of their own and are not inlined: in the midst of the index
 * arithmetic around them the compiler would gather single numbers instead of loading vectors. */
#define ALONE static __attribute__((noinline)) void

ALONE add_four(float *restrict out, const float *restrict a0, const float *restrict a1,
               const float *restrict a2, const float *restrict a3, const float *w, int64_t width)
{
    const float w0 = w[0], w1 = w[1], w2 = w[2], w3 = w[3];
    for (int64_t m = 0; m < width; m++)
        out[m] += (w0 * a0[m] + w1 * a1[m]) + (w2 * a2[m] + w3 * a3[m]);
}

ALONE add_one(float *restrict out, const float *restrict a, float w, int64_t width)
{
    for (int64_t m = 0; m < width; m++)
        out[m] += w * a[m];
}

/* out[m] += sum over edges of weight[p] * rows[which[p]][m] */
static void add_rows(float *out, const float *rows, int64_t columns, const int64_t *which,
                     const float *weight, int64_t n, int64_t width)
{
    int64_t p = 0;
    for (; p + 4 <= n; p += 4)
        add_four(out, rows + which[p] * columns, rows + which[p + 1] * columns,
                 rows + which[p + 2] * columns, rows + which[p + 3] * columns, weight + p, width);
    for (; p < n; p++)
        add_one(out, rows + which[p] * columns, weight[p], width);
}

/* out[m] = d[m], or 0 where it is under the limit */
static void at_least(float *restrict out, const float *restrict d, float limit, int64_t width)
{
    for (int64_t m = 0; m < width; m++)
        out[m] = fabsf(d[m]) >= limit ? d[m] : 0;
}

static inline float rational_tanh(float x)
{
    const float c = 1.0f / 34459425.0f;
    x = x > 6.2971f ? 6.2971f : x < -6.2971f ? -6.2971f : x;
    const float q = x * x;
    const float up = 1 + q * (4729725.0f * c + q * (135135.0f * c + q * (990.0f * c + q * c)));
    const float down =
        1 + q * (16216200.0f * c + q * (945945.0f * c + q * (13860.0f * c + q * (45.0f * c))));
    return x * up / down;
}

static void load_weights(const Job *j)
{
    const int64_t n_in = j->in_start[2 * j->counts[N_UNITS]];
    const int64_t n_out = j->out_start[j->counts[N_UNITS]];
    for (int64_t p = 0; p < n_in; p++) {
        const Edge *e = j->edges + j->in_edge[p];
        j->edge_weight[p] = (float)e->weight;
        j->edge_source[p] = e->source;
    }
    for (int64_t p = 0; p < n_out; p++) {
        const Edge *e = j->edges + j->out_edge[p];
        j->out_weight[p] = (float)e->weight;
        j->out_term[p] = e->term;
    }
}

static void forward_tile(const Job *j, int64_t lo, int64_t width)
{
    const int64_t C = j->columns;
    const float *rows = j->state + lo;
    for (int64_t i = 0; i < j->status[0]; i++) {
        const int64_t u = j->order[i], p = j->in_start[2 * u], q = j->in_start[2 * u + 1];
        float *restrict a = j->state + (j->counts[N_INPUTS] + u) * C + lo;
        const float b0 = (float)j->bias[2 * u];
        if (j->units[u].kind == OUTPUT) {
            for (int64_t m = 0; m < width; m++)
                a[m] = b0;
            add_rows(a, rows, C, j->edge_source + p, j->edge_weight + p, q - p, width);
            for (int64_t m = 0; m < width; m++)
                a[m] = 0.5f * rational_tanh(0.5f * a[m]) + 0.5f;
            continue;
        }
        const int64_t r = j->in_start[2 * u + 2];
        float *restrict z0 = j->term_0 + u * C + lo, *restrict z1 = j->term_1 + u * C + lo;
        const float b1 = (float)j->bias[2 * u + 1], half = 0.5f * (float)j->units[u].gain;
        for (int64_t m = 0; m < width; m++) {
            z0[m] = b0;
            z1[m] = b1;
        }
        add_rows(z0, rows, C, j->edge_source + p, j->edge_weight + p, q - p, width);
        add_rows(z1, rows, C, j->edge_source + q, j->edge_weight + q, r - q, width);
        for (int64_t m = 0; m < width; m++) {
            const float s = 2 * rational_tanh(half * z1[m]) + 1;
            z1[m] = s;
            a[m] = z0[m] * s;
        }
    }
}

static double mean_cost(const Job *j)
{
    float total = 0, weight = 0;
    for (int64_t m = 0; m < j->samples; m++)
        weight += j->sample_weight[m];
    for (int64_t i = 0; i < j->status[0]; i++) {
        const int64_t u = j->order[i];
        if (j->units[u].kind != OUTPUT)
            continue;
        const float *a = j->state + (j->counts[N_INPUTS] + u) * j->columns;
        const float *y = j->target + j->units[u].output * j->columns;
        for (int64_t m = 0; m < j->width; m++)
            total += 0.5f * j->sample_weight[m] * (a[m] - y[m]) * (a[m] - y[m]);
    }
    return total / weight;
}

static void backward_tile(const Job *j, int64_t lo, int64_t width)
{
    const int64_t C = j->columns;
    const float least = (float)j->delta_min, tolerance = (float)j->tolerance;
    float pull[TILE];
    for (int64_t i = j->status[0] - 1; i >= 0; i--) {
        const int64_t u = j->order[i], p = j->out_start[u], n = j->out_start[u + 1] - p;
        float *restrict d0 = j->delta + 2 * u * C + lo, *restrict d1 = d0 + C;
        float *restrict f0 = j->felt + 2 * u * C + lo, *restrict f1 = f0 + C;
        for (int64_t m = 0; m < width; m++)
            pull[m] = 0;
        add_rows(pull, j->delta + lo, C, j->out_term + p, j->out_weight + p, n, width);
        if (j->units[u].kind == OUTPUT) {
            const float *a = j->state + (j->counts[N_INPUTS] + u) * C + lo;
            const float *y = j->target + j->units[u].output * C + lo;
            const float *weight = j->sample_weight + lo;
            for (int64_t m = 0; m < width; m++) {
                const float mismatch = fabsf(a[m] - y[m]) >= tolerance ? a[m] - y[m] : 0;
                d0[m] = (weight[m] * mismatch + pull[m]) * (a[m] * (1 - a[m]));
            }
            at_least(f0, d0, least, width);
            continue;
        }
        const float *z0 = j->term_0 + u * C + lo, *s1 = j->term_1 + u * C + lo;
        const float slope = 0.25f * (float)j->units[u].gain;
        for (int64_t m = 0; m < width; m++) {
            const float s = s1[m];
            d0[m] = pull[m] * s;
            d1[m] = pull[m] * z0[m] * (slope * (s + 1) * (3 - s));
        }
        at_least(f0, d0, least, width);
        at_least(f1, d1, least, width);
    }
}

/* gradient, net and total (four of each) of the edges that carry a[0] to a[3] */
ALONE pull_on_four(const float *restrict d, const float *restrict x, const float *const *a,
                   int64_t width, float *out)
{
    const float *restrict a0 = a[0], *restrict a1 = a[1];
    const float *restrict a2 = a[2], *restrict a3 = a[3];
    float g0 = 0, g1 = 0, g2 = 0, g3 = 0, n0 = 0, n1 = 0, n2 = 0, n3 = 0;
    float t0 = 0, t1 = 0, t2 = 0, t3 = 0;
    for (int64_t m = 0; m < width; m++) {
        const float dm = d[m], xm = x[m];
        const float b0 = a0[m], b1 = a1[m], b2 = a2[m], b3 = a3[m];
        const float x0 = b0 * xm, x1 = b1 * xm, x2 = b2 * xm, x3 = b3 * xm;
        g0 += b0 * dm;
        g1 += b1 * dm;
        g2 += b2 * dm;
        g3 += b3 * dm;
        n0 += x0;
        n1 += x1;
        n2 += x2;
        n3 += x3;
        t0 += fabsf(x0);
        t1 += fabsf(x1);
        t2 += fabsf(x2);
        t3 += fabsf(x3);
    }
    const float all[12] = {g0, g1, g2, g3, n0, n1, n2, n3, t0, t1, t2, t3};
    for (int i = 0; i < 12; i++)
        out[i] = all[i];
}

static void potentials(const Job *j)
{
    const int64_t C = j->columns, width = j->width;
    float weight = 0;
    for (int64_t m = 0; m < j->samples; m++)
        weight += j->sample_weight[m];
    const float scale = 1 / weight;
    for (int64_t t = 0; t < 2 * j->counts[N_UNITS]; t++) {
        if (t % 2 == 1 && j->units[t / 2].kind == OUTPUT)
            continue;
        const float *restrict d = j->delta + t * C, *restrict x = j->felt + t * C;
        float g = 0, n = 0, a = 0;
        for (int64_t m = 0; m < width; m++) {
            g += d[m];
            n += x[m];
            a += fabsf(x[m]);
        }
        j->term_pull[t] = (Pull){scale * g, scale * n, scale * a};
        const int64_t stop = j->in_start[t + 1];
        for (int64_t p = j->in_start[t]; p < stop; p += 4) {
            /* a group of fewer than four repeats its first edge */
            const int64_t count = stop - p < 4 ? stop - p : 4;
            const float *rows[4];
            float pull[12];
            for (int64_t i = 0; i < 4; i++)
                rows[i] = j->state + j->edge_source[i < count ? p + i : p] * C;
            pull_on_four(d, x, rows, width, pull);
            for (int64_t i = 0; i < count; i++)
                j->edge_pull[j->in_edge[p + i]] =
                    (Pull){scale * pull[i], scale * pull[4 + i], scale * pull[8 + i]};
        }
    }
}

static void move(const Job *j)
{
    for (int64_t e = 0; e < j->counts[N_EDGES]; e++)
        if (j->edges[e].source >= 0 && !j->edges[e].frozen)
            j->edges[e].weight -= j->gamma * j->edge_pull[e].gradient;
    for (int64_t u = 0; u < j->counts[N_UNITS]; u++) {
        const int64_t t = j->units[u].kind == OUTPUT ? 0 : 1;
        j->bias[2 * u + t] -= j->gamma * j->term_pull[2 * u + t].gradient;
    }
}

void take_steps(const Job *j, int64_t steps, double *error)
{
    for (int64_t i = 0; i < steps; i++) {
        load_weights(j);
        for (int64_t lo = 0; lo < j->width; lo += TILE)
            forward_tile(j, lo, j->width - lo < TILE ? j->width - lo : TILE);
        error[i] = mean_cost(j);
        for (int64_t lo = 0; lo < j->width; lo += TILE)
            backward_tile(j, lo, j->width - lo < TILE ? j->width - lo : TILE);
        potentials(j);
        move(j);
    }
}
