#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/threads.h"
#include "math/elementary.h"
#include "math/gemm.h"
#include "math/lanes.h"
#include "math/ops.h"

/* A strip of rows of a head's (T, T) matrix is worked on at a time, as far to the right as its last
 * row reaches; nothing above the diagonal is computed but what fills up the strip's last columns:
 *
 *     +--+            strip 0: columns 0 .. S - 1
 *     |  +--+         strip 1: columns 0 .. 2 S - 1
 *     |  |  +--+
 *     +--+--+--+
 *
 * Backward computes a strip's probabilities again, by the same operations on the same shapes, so
 * that forward keeps two numbers a row and no matrix.
 *
 * The fewer rows, the less is computed above the diagonal, and the more calls there are. */
enum { STRIP = LS__ATTENTION_STRIP };

static int64_t less(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t round_up(int64_t count)
{
    return ls__whole_lanes(count + LS__LANES - 1);
}

static void set(float *x, float value, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        x[i] = value;
}

/* ---- one head of one sample ---- */

typedef struct head_view {
    ls__matrix q, k, v; /* (T, width) */
    int64_t T, width;
    float scale;            /* 1 / sqrt(width) */
    double rate;            /* of dropout */
    uint64_t key;           /* of the sample's mask */
    uint64_t first_element; /* the mask's index of this head's probability (0, 0) */
} head_view;

typedef struct attention {
    ls__values qkv;
    int64_t batch, T, heads, width; /* of a head */
    ls__attention_dropout dropout;
    ls__scratch scratch;
} attention;

/* Head `task` mod heads of sample `task` / heads, in a (batch, T, columns, heads, width) tensor. */
static ls__matrix head_of(ls__values tensor, const attention *all, int64_t task, int64_t columns,
                          int64_t column)
{
    int64_t stride = columns * all->heads * all->width;
    int64_t sample = task / all->heads;
    int64_t head = task % all->heads;
    int64_t offset = sample * all->T * stride + (column * all->heads + head) * all->width;

    return (ls__matrix){.values = ls__from(tensor, offset), .stride = stride};
}

static head_view view_head(const attention *all, int64_t task)
{
    int64_t head = task % all->heads;
    double rate = all->dropout.rate;

    return (head_view){
        .q = head_of(all->qkv, all, task, 3, 0),
        .k = head_of(all->qkv, all, task, 3, 1),
        .v = head_of(all->qkv, all, task, 3, 2),
        .T = all->T,
        .width = all->width,
        .scale = 1 / sqrtf((float)all->width),
        .rate = rate,
        .key = rate > 0 ? all->dropout.key[task / all->heads] : 0,
        .first_element = (uint64_t)(head * all->T * all->T),
    };
}

static ls__matrix transposed(ls__matrix x)
{
    x.op = LS__TRANSPOSED;
    return x;
}

/* ---- a thread's scratch ---- */

/* Where the format is FP32, a strip is multiplied where it was computed; else in narrowed copies.
 */
typedef struct room {
    float *scores;                 /* (rows of a strip, columns), then probabilities */
    float *d_scores;               /* the same of the gradient of either; backward only */
    float *kept;                   /* (columns) a row of dropout's mask: 0 or 1 / (1 - rate) */
    ls__values weights, d_weights; /* scores and d_scores in the format */
    float *d_k, *d_v;              /* (T, width), to add to; backward and not FP32 only */
    float *product;                /* for ls__product */
} room;

static int64_t strip_floats(int64_t T)
{
    return less(T, STRIP) * round_up(T);
}

int64_t ls__attention_scratch(ls__format format, int64_t T, int64_t head_width)
{
    int64_t strip = strip_floats(T);
    int64_t floats = 2 * strip + round_up(T);

    if (format == LS__F32)
        return floats;
    return floats + strip + 2 * round_up(T * head_width) + ls__product_scratch(format);
}

static room lay_out(ls__scratch scratch, int thread, ls__format format, const head_view *head)
{
    int64_t strip = strip_floats(head->T);
    room r = {.scores = ls__scratch_of(scratch, thread)};

    assert(scratch.floats >= ls__attention_scratch(format, head->T, head->width));
    r.d_scores = r.scores + strip;
    r.kept = r.d_scores + strip;
    r.weights = (ls__values){r.scores, format};
    r.d_weights = (ls__values){r.d_scores, format};
    if (format == LS__F32)
        return r;
    r.weights.at = r.kept + round_up(head->T);
    r.d_weights = ls__from(r.weights, strip);
    r.d_k = r.kept + round_up(head->T) + strip;
    r.d_v = r.d_k + round_up(head->T * head->width);
    r.product = r.d_v + round_up(head->T * head->width);
    return r;
}

/* ---- strips ---- */

typedef struct strip {
    int64_t first, rows;
    int64_t columns; /* that its last row reaches: first + rows */
    int64_t stride;  /* the columns made up to whole lanes */
} strip;

static strip strip_at(int64_t first, const head_view *head)
{
    int64_t rows = less(head->T - first, STRIP);

    return (strip){first, rows, first + rows, round_up(first + rows)};
}

static ls__matrix strip_matrix(ls__values values, const strip *s)
{
    return (ls__matrix){.values = values, .stride = s->stride};
}

/* The strip's rows of a b^T. */
static void scores(float *out, ls__matrix a, ls__matrix b, const strip *s, const head_view *head,
                   const room *r)
{
    ls__small_product(strip_matrix(ls__floats(out), s), ls__matrix_from(a, s->first, 0),
                      transposed(b), s->rows, s->columns, head->width, false, r->product);
}

/* The strip's rows of out = weights b. */
static void weigh(ls__matrix out, ls__values weights, ls__matrix b, const strip *s,
                  const head_view *head, const room *r)
{
    ls__small_product(ls__matrix_from(out, s->first, 0), strip_matrix(weights, s), b, s->rows,
                      head->width, s->columns, false, r->product);
}

/* sum += weights^T b. The last strip, which reaches all rows of the sum, comes first and finds
 * nothing there. */
static void add_weighed(ls__matrix sum, ls__values weights, ls__matrix b, const strip *s,
                        const head_view *head, const room *r)
{
    ls__small_product(sum, transposed(strip_matrix(weights, s)), ls__matrix_from(b, s->first, 0),
                      s->columns, head->width, s->rows, s->columns < head->T, r->product);
}

/* ---- softmax of a strip ----
 *
 * Each stage is for all rows before the next, since within a row each waits for the one before. A
 * row is worked on up to its span: the columns that count, made up to whole lanes, so that the
 * loops have no remainder and are as long as those of the row before. */

static int64_t span_of(const strip *s, int64_t i)
{
    return round_up(s->first + i + 1);
}

/* Of a row's span, what is above the diagonal. */
static void mask(float *row, float value, const strip *s, int64_t i)
{
    int64_t last = span_of(s, i) - LS__LANES;
    int64_t count = s->first + i + 1 - last;

    for (int j = 0; j < LS__LANES; j++)
        row[last + j] = j < count ? row[last + j] : value;
}

/* All of a row above the diagonal, made up as the strip is. */
static void clear_above(float *row, const strip *s, int64_t i)
{
    int64_t span = span_of(s, i);

    mask(row, 0, s, i);
    set(row + span, 0, s->stride - span);
}

static void exponentials(float *row, float scale, float largest, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        row[i] = ls__exp(scale * row[i] - largest);
}

static void find_largest(float *largest, const strip *s, const head_view *head, const room *r)
{
    for (int64_t i = 0; i < s->rows; i++) {
        float *row = r->scores + i * s->stride;

        mask(row, -INFINITY, s, i);
        largest[i] = head->scale * ls__max(row, span_of(s, i));
    }
}

static void sum_exponentials(float *inverse, const float *largest, const strip *s,
                             const head_view *head, const room *r)
{
    for (int64_t i = 0; i < s->rows; i++) {
        float *row = r->scores + i * s->stride;

        exponentials(row, head->scale, largest[i], span_of(s, i));
        inverse[i] = 1 / ls__sum(row, span_of(s, i));
    }
}

/* What dropout multiplies a row of probabilities by. */
static void draw_kept(float *kept, int64_t row, const head_view *head)
{
    set(kept, 1, round_up(row + 1));
    ls__dropout(kept, kept, head->rate, head->key, head->first_element + (uint64_t)(row * head->T),
                row + 1);
}

static void multiply(float *restrict row, const float *restrict by, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        row[i] *= by[i];
}

/* Exponentials into the weights of v: probabilities, some dropped. */
static void weigh_exponentials(const float *inverse, const strip *s, const head_view *head,
                               const room *r)
{
    for (int64_t i = 0; i < s->rows; i++) {
        float *row = r->scores + i * s->stride;

        ls__scale(row, row, inverse[i], span_of(s, i));
        clear_above(row, s, i);
        if (head->rate > 0) {
            draw_kept(r->kept, s->first + i, head);
            multiply(row, r->kept, span_of(s, i));
        }
        ls__store(ls__from(r->weights, i * s->stride), row, s->stride);
    }
}

/* The probabilities once more, from what forward found out. */
static void probabilities_again(const float *largest, const float *inverse, const strip *s,
                                const head_view *head, const room *r)
{
    for (int64_t i = 0; i < s->rows; i++) {
        float *row = r->scores + i * s->stride;

        exponentials(row, head->scale, largest[i], span_of(s, i));
        ls__scale(row, row, inverse[i], span_of(s, i));
        clear_above(row, s, i);
    }
}

/* d_row[i] = scale row[i] (d_row[i] - sum of row d_row): from the gradient of a row's probabilities
 * to that of the products of q and k. */
static void softmax_backward(float *restrict d_row, const float *restrict row, float scale,
                             int64_t count)
{
    float sum = ls__dot(d_row, row, count);

    for (int64_t i = 0; i < count; i++)
        d_row[i] = scale * row[i] * (d_row[i] - sum);
}

/* From the gradients of the weights of v to those of the products of q and k, and from
 * probabilities to weights. */
static void strip_backward(const strip *s, const head_view *head, const room *r)
{
    for (int64_t i = 0; i < s->rows; i++) {
        float *row = r->scores + i * s->stride;
        float *d_row = r->d_scores + i * s->stride;
        int64_t span = span_of(s, i);

        mask(d_row, 0, s, i); /* it may not be a number, nor what is made up */
        if (head->rate > 0) {
            draw_kept(r->kept, s->first + i, head);
            multiply(d_row, r->kept, span);
        }
        softmax_backward(d_row, row, head->scale, span);
        clear_above(d_row, s, i); /* of a row whose sum is not finite, too */
        if (head->rate > 0)
            multiply(row, r->kept, span);
        ls__store(ls__from(r->weights, i * s->stride), row, s->stride);
        ls__store(ls__from(r->d_weights, i * s->stride), d_row, s->stride);
    }
}

/* ---- the two passes ---- */

typedef struct forward_pass {
    attention all;
    ls__values out;
    float *statistics;
} forward_pass;

static void forward_head(void *context, int64_t task, int thread)
{
    const forward_pass *pass = context;
    const attention *all = &pass->all;
    head_view head = view_head(all, task);
    room r = lay_out(all->scratch, thread, all->qkv.format, &head);
    ls__matrix out = head_of(pass->out, all, task, 1, 0);
    float *largest = pass->statistics + task * all->T;
    float *inverse = largest + all->batch * all->heads * all->T;

    for (int64_t first = 0; first < head.T; first += STRIP) {
        strip s = strip_at(first, &head);

        scores(r.scores, head.q, head.k, &s, &head, &r);
        find_largest(largest + first, &s, &head, &r);
        sum_exponentials(inverse + first, largest + first, &s, &head, &r);
        weigh_exponentials(inverse + first, &s, &head, &r);
        weigh(out, r.weights, head.v, &s, &head, &r);
    }
}

void ls__attention_forward(ls__values out, float *statistics, ls__values qkv, int64_t batch,
                           int64_t T, int64_t heads, int64_t head_width,
                           ls__attention_dropout dropout, ls__scratch scratch)
{
    forward_pass pass = {.all = {qkv, batch, T, heads, head_width, dropout, scratch},
                         .out = out,
                         .statistics = statistics};

    ls__threads_run(batch * heads, forward_head, &pass);
}

typedef struct backward_pass {
    attention all;
    ls__values d_qkv, d_out;
    const float *statistics;
} backward_pass;

/* Where sums over strips are kept: in FP32, so in their own place only where that is FP32. */
static ls__matrix sum_place(ls__matrix own, float *room_for_it, const head_view *head)
{
    if (own.values.format == LS__F32)
        return own;
    return (ls__matrix){.values = ls__floats(room_for_it), .stride = head->width};
}

static void store_sum(ls__matrix own, const float *sum, const head_view *head)
{
    for (int64_t i = 0; i < head->T; i++)
        ls__store(ls__matrix_from(own, i, 0).values, sum + i * head->width, head->width);
}

static void backward_head(void *context, int64_t task, int thread)
{
    const backward_pass *pass = context;
    const attention *all = &pass->all;
    head_view head = view_head(all, task);
    room r = lay_out(all->scratch, thread, all->qkv.format, &head);
    ls__matrix d_out = head_of(pass->d_out, all, task, 1, 0);
    ls__matrix d_q = head_of(pass->d_qkv, all, task, 3, 0);
    ls__matrix d_k = head_of(pass->d_qkv, all, task, 3, 1);
    ls__matrix d_v = head_of(pass->d_qkv, all, task, 3, 2);
    ls__matrix sum_k = sum_place(d_k, r.d_k, &head);
    ls__matrix sum_v = sum_place(d_v, r.d_v, &head);
    const float *largest = pass->statistics + task * all->T;
    const float *inverse = largest + all->batch * all->heads * all->T;

    for (int64_t first = (head.T - 1) / STRIP * STRIP; first >= 0; first -= STRIP) {
        strip s = strip_at(first, &head);

        scores(r.scores, head.q, head.k, &s, &head, &r);
        probabilities_again(largest + first, inverse + first, &s, &head, &r);
        scores(r.d_scores, d_out, head.v, &s, &head, &r);
        strip_backward(&s, &head, &r);
        weigh(d_q, r.d_weights, head.k, &s, &head, &r);
        add_weighed(sum_k, r.d_weights, head.q, &s, &head, &r);
        add_weighed(sum_v, r.weights, d_out, &s, &head, &r);
    }
    store_sum(d_k, r.d_k, &head);
    store_sum(d_v, r.d_v, &head);
}

void ls__attention_backward(ls__values d_qkv, ls__values d_out, ls__values qkv,
                            const float *statistics, int64_t batch, int64_t T, int64_t heads,
                            int64_t head_width, ls__attention_dropout dropout, ls__scratch scratch)
{
    backward_pass pass = {.all = {qkv, batch, T, heads, head_width, dropout, scratch},
                          .d_qkv = d_qkv,
                          .d_out = d_out,
                          .statistics = statistics};

    ls__threads_run(batch * heads, backward_head, &pass);
}
