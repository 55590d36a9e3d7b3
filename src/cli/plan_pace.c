/* An operation is run as often as a micro-batch has it, each time on other memory than before, as
 * much in all as a run's parameters and activations: what is in a cache in a step is there here
 * too. */
#include "cli/plan_pace.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/digest.h"
#include "base/file.h"
#include "base/rng.h"
#include "cli/bench_launch.h"
#include "lockstep/collective.h"
#include "lockstep/exact.h"
#include "math/gemm.h"
#include "math/ops.h"
#include "optim/clip.h"
#include "optim/optimizer.h"

enum { REPEATS = 7, NORMALS = 4096, FLOAT = sizeof(float) };

static const double least_seconds = 0.5; /* to repeat, or more */

/* ---- memory ---- */

/* A long array, handed out piece by piece and then from its beginning again. */
typedef struct pool {
    float *data;
    int64_t size;
    int64_t used;
} pool;

typedef struct bench {
    const ls__plan_run *run;
    int64_t parameters;
    ls__arena *arena;
    pool in;  /* only read: small normal numbers */
    pool out; /* only written */
    ls__scratch scratch;
    int32_t *indices;
    float *weights, *gradient; /* (parameters), as is what follows */
    double *lanes;
    ls_exact *exact;
    ls__tensors tensors;
    ls__optimizer optimizer;
} bench;

static float *piece(pool *from, int64_t count)
{
    if (from->used + count > from->size)
        from->used = 0;
    from->used += count;
    return from->data + from->used - count;
}

static ls__format format_of(const ls__plan_run *run)
{
    return (ls__format)run->format;
}

static ls__values values(const bench *b, pool *from, int64_t count)
{
    ls__format format = format_of(b->run);
    int64_t floats = (count * ls__value_bytes(format) + FLOAT - 1) / FLOAT;

    return (ls__values){piece(from, floats), format};
}

static void fill(float *data, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        data[i] = i < NORMALS ? 0.1F * (float)ls__normal(1, LS__STREAM_INIT, (uint64_t)i)
                              : data[i - NORMALS];
}

/* Numbers of 16 bits twice over: two of them are one of 32 that is about as large. */
static void fill_reduced(ls__values data, int64_t floats)
{
    float normals[NORMALS] = {0};

    fill(normals, NORMALS);
    for (int64_t i = 0; i < 2 * floats; i += NORMALS)
        ls__narrow(ls__from(data, i), normals, 2 * floats - i < NORMALS ? 2 * floats - i : NORMALS);
}

static ls_status take_pool(bench *b, pool *taken, int64_t size)
{
    taken->size = size;
    return ls__arena_take(b->arena, LS__ACTIVATIONS, size, sizeof(float), &taken->data);
}

static int64_t rows_of(const ls__plan_run *run)
{
    return run->micro_batch * (run->hidden_count > 0 ? 1 : run->context);
}

static ls_status take_scratch(bench *b)
{
    const ls__plan_run *run = b->run;
    bool is_gpt = run->hidden_count == 0;
    int64_t attention =
        is_gpt ? ls__attention_scratch(format_of(run), run->context, run->width / run->heads) : 0;
    int64_t rows = ls__ops_scratch(
        format_of(run), is_gpt && 4 * run->width > run->classes ? 4 * run->width : run->classes);

    b->scratch.floats = attention > rows ? attention : rows;
    LS_TRY(ls__arena_take(b->arena, LS__SCRATCH, b->scratch.floats, FLOAT, &b->scratch.at));
    return ls__arena_take(b->arena, LS__SCRATCH,
                          is_gpt ? ls__ops_shared(rows_of(run), run->width) : 0, FLOAT,
                          &b->scratch.shared);
}

static ls_status take_memory(bench *b)
{
    int64_t booked[LS__CATEGORY_COUNT];

    ls__plan_run_memory(b->run, booked);
    int64_t size = b->parameters + booked[LS__ACTIVATIONS] / (int64_t)sizeof(float);
    LS_TRY(take_pool(b, &b->in, size));
    LS_TRY(take_pool(b, &b->out, size));
    LS_TRY(take_scratch(b));
    if (format_of(b->run) == LS__F32)
        fill(b->in.data, size);
    else
        fill_reduced((ls__values){b->in.data, format_of(b->run)}, size);
    LS_TRY(ls__arena_take(b->arena, LS__DATA, rows_of(b->run), sizeof(int32_t), &b->indices));
    LS_TRY(ls__arena_take(b->arena, LS__PARAMETERS, b->parameters, sizeof(float), &b->weights));
    LS_TRY(ls__arena_take(b->arena, LS__GRADIENTS, b->parameters, sizeof(float), &b->gradient));
    fill(b->gradient, b->parameters);
    return ls__arena_take(b->arena, LS__LANES, b->parameters, sizeof(double), &b->lanes);
}

static ls_status open_bench(bench *b, const ls__plan_run *run)
{
    ls__optimizer_settings settings = {.kind = run->adamw ? LS__ADAMW : LS__SGD,
                                       .weight_decay = 0.1,
                                       .beta1 = 0.9,
                                       .beta2 = 0.99,
                                       .epsilon = 1e-8,
                                       .momentum = 0.9};
    int64_t offset = 0;

    *b = (bench){.run = run, .parameters = ls__plan_run_parameters(run)};
    LS_TRY(ls__arena_open(&b->arena, 0));
    LS_TRY(take_memory(b));
    LS_TRY(ls__tensors_add_matrix(&b->tensors, "all", b->parameters, 1, 0, &offset));
    LS_TRY(ls__optimizer_open(&b->optimizer, &settings, &b->tensors, b->parameters, b->arena));
    return ls_exact_open(&b->exact, b->parameters, b->lanes);
}

static void close_bench(bench *b)
{
    ls_exact_close(b->exact);
    ls__tensors_free(&b->tensors);
    ls__arena_close(b->arena);
}

/* ---- operations, forward and backward ---- */

static void linear(bench *b, int64_t in_width, int64_t out_width, bool first)
{
    int64_t rows = rows_of(b->run);
    ls__values in = values(b, &b->in, rows * in_width);
    ls__values weight = values(b, &b->in, in_width * out_width);
    const float *bias = piece(&b->in, out_width);
    ls__values d_out = values(b, &b->in, rows * out_width);
    ls__values out = values(b, &b->out, rows * out_width);
    ls__values d_in = first ? ls__floats(NULL) : values(b, &b->out, rows * in_width);
    float *d_weight = piece(&b->out, in_width * out_width);
    float *d_bias = piece(&b->out, out_width);

    ls__linear_forward(out, in, weight, bias, rows, in_width, out_width, b->scratch);
    ls__linear_backward(d_in, d_weight, d_bias, d_out, in, weight, rows, in_width, out_width,
                        b->scratch);
}

static void mlp_products(bench *b)
{
    const ls__plan_run *run = b->run;
    int64_t from = run->inputs;

    for (int i = 0; i < run->hidden_count; i++) {
        linear(b, from, run->hidden[i], i == 0);
        from = run->hidden[i];
    }
    linear(b, from, run->classes, false);
}

static void attention(bench *b)
{
    const ls__plan_run *run = b->run;
    int64_t rows = rows_of(run);
    int64_t head_width = run->width / run->heads;
    ls__attention_dropout none = {0};
    ls__values qkv = values(b, &b->in, 3 * rows * run->width);
    ls__values d_out = values(b, &b->in, rows * run->width);
    float *statistics = piece(&b->out, 2 * rows * run->heads);
    ls__values out = values(b, &b->out, rows * run->width);
    ls__values d_qkv = values(b, &b->out, 3 * rows * run->width);

    ls__attention_forward(out, statistics, qkv, run->micro_batch, run->context, run->heads,
                          head_width, none, b->scratch);
    ls__attention_backward(d_qkv, d_out, qkv, statistics, run->micro_batch, run->context,
                           run->heads, head_width, none, b->scratch);
}

static void gpt_products(bench *b)
{
    int64_t width = b->run->width;

    for (int64_t i = 0; i < b->run->layers; i++) {
        linear(b, width, 3 * width, false);
        attention(b);
        linear(b, width, width, false);
        linear(b, width, 4 * width, false);
        linear(b, 4 * width, width, false);
    }
    linear(b, width, b->run->classes, false);
}

static void run_products(bench *b)
{
    if (b->run->hidden_count > 0)
        mlp_products(b);
    else
        gpt_products(b);
}

/* With the sum that comes before it, where there is one. */
static void norm_layer(bench *b, bool first)
{
    int64_t rows = rows_of(b->run);
    int64_t width = b->run->width;
    ls__values in = values(b, &b->in, rows * width);
    ls__values branch = first ? ls__floats(NULL) : values(b, &b->in, rows * width);
    const float *gain = piece(&b->in, width);
    ls__values sum = values(b, &b->out, rows * width);
    ls__values out = values(b, &b->out, rows * width);
    float *statistics = piece(&b->out, 2 * rows);
    float *d_gain = piece(&b->out, 2 * width);

    ls__add_norm_forward(first ? in : sum, out, statistics, statistics + rows, in, branch, gain,
                         gain, rows, width, b->scratch);
    ls__layer_norm_backward(out, d_gain, d_gain + width, in, in, gain, statistics,
                            statistics + rows, rows, width, b->scratch);
}

static void gelu(bench *b)
{
    int64_t count = rows_of(b->run) * 4 * b->run->width;
    ls__values in = values(b, &b->in, count);
    ls__values out = values(b, &b->out, count);

    ls__gelu_forward(out, in, count, b->scratch);
    ls__gelu_backward(out, in, in, count, b->scratch);
}

static void relu(bench *b, int64_t width)
{
    int64_t count = b->run->micro_batch * width;
    ls__values in = values(b, &b->in, count);
    ls__values out = values(b, &b->out, count);

    ls__relu_forward(out, in, count, b->scratch);
    ls__relu_backward(out, in, in, count, b->scratch);
}

static void loss(bench *b)
{
    int64_t rows = rows_of(b->run);
    int64_t classes = b->run->classes;
    ls__values logits = values(b, &b->out, rows * classes);
    float *losses = piece(&b->out, rows);

    memcpy(logits.at, values(b, &b->in, rows * classes).at,
           (size_t)(rows * classes * ls__value_bytes(logits.format)));
    ls__cross_entropy_forward(losses, logits, b->indices, rows, classes, b->scratch);
    ls__cross_entropy_backward(logits, b->indices, 1, rows, classes, b->scratch);
}

static void gpt_elementwise(bench *b)
{
    for (int64_t i = 0; i < b->run->layers; i++) {
        norm_layer(b, i == 0);
        norm_layer(b, false);
        gelu(b);
    }
    norm_layer(b, false);
}

static void run_elementwise(bench *b)
{
    if (b->run->hidden_count == 0)
        gpt_elementwise(b);
    for (int i = 0; i < b->run->hidden_count; i++)
        relu(b, b->run->hidden[i]);
    loss(b);
}

/* ---- passes over all parameters ---- */

static void run_add(bench *b)
{
    if (b->run->exact)
        ls_exact_add(b->exact, 0, b->gradient, b->parameters);
    else
        ls_sum_f32.combine(NULL, b->weights, b->gradient, b->parameters);
}

static void run_round(bench *b)
{
    if (b->run->exact)
        ls_exact_round(b->exact, 0, b->parameters, 8, b->weights);
    else
        ls__scale(b->weights, b->gradient, 0.125F, b->parameters);
}

static void run_norm(bench *b)
{
    *piece(&b->out, 1) = (float)ls__norm(b->gradient, b->parameters);
}

/* And, in 16 bits, the weights that products read. */
static void run_update(bench *b)
{
    ls__optimizer_step(&b->optimizer, b->weights, b->gradient, 1e-6, 1, 0, b->parameters, 0);
    if (format_of(b->run) != LS__F32)
        ls__narrow(values(b, &b->out, b->parameters), b->weights, b->parameters);
}

static void run_digest(bench *b)
{
    ls__digest digest = ls__digest_of(b->weights, (size_t)b->parameters * sizeof(float));

    *piece(&b->out, 1) = (float)digest.low;
}

/* ---- the clock ---- */

/* 0: nothing was found before. */
static void keep_best(double *best, double found)
{
    *best = *best == 0 || found < *best ? found : *best;
}

static void clock_work(bench *b, void (*work)(bench *), double *best)
{
    double started = ls__clock_seconds();

    work(b);
    keep_best(best, ls__clock_seconds() - started);
}

static void measure_once(bench *b, ls__plan_pace *pace)
{
    clock_work(b, run_products, &pace->products);
    clock_work(b, run_elementwise, &pace->elementwise);
    clock_work(b, run_add, &pace->add);
    clock_work(b, run_round, &pace->round);
    clock_work(b, run_norm, &pace->norm);
    clock_work(b, run_update, &pace->update);
    clock_work(b, run_digest, &pace->digest);
}

/* ---- company ---- */

/* Until its parent ends it, or ends. */
static _Noreturn void keep_busy(bench *b)
{
    ls__plan_pace unused = {0};

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;)
        measure_once(b, &unused);
}

static void end_company(const pid_t *child, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        kill(child[i], SIGKILL);
        waitpid(child[i], NULL, 0);
    }
}

static ls_status start_company(bench *b, pid_t *child, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        child[i] = fork();
        if (child[i] == 0)
            keep_busy(b);
        if (child[i] < 0) {
            end_company(child, i);
            return LS_FAIL(LS_IO, "cannot start a process to measure beside");
        }
    }
    return LS_OK;
}

static ls_status measure_in_company(bench *b, int64_t others, ls__plan_pace *pace)
{
    pid_t *child = calloc((size_t)others + 1, sizeof *child);

    LS_FAIL_IF(!child, LS_NO_MEMORY, "no memory to measure");
    ls_status status = start_company(b, child, others);
    double end = ls__clock_seconds() + least_seconds;
    for (int i = 0; status == LS_OK && (i < REPEATS || ls__clock_seconds() < end); i++)
        measure_once(b, pace);
    if (status == LS_OK)
        end_company(child, others);
    free(child);
    return status;
}

ls_status ls__pace_measure(const ls__plan_run *run, int64_t busy, ls__plan_pace *pace)
{
    bench b;

    ls__gemm_start();
    ls_status status = open_bench(&b, run);
    if (status == LS_OK)
        status = measure_in_company(&b, busy - 1, pace);
    close_bench(&b);
    return status;
}

/* ---- the transport ---- */

/* Through the times of a short sum and a long one. */
static ls_status fit_line(const ls__bench_rows *rows, ls__plan_transport *transport)
{
    LS_FAIL_IF(rows->count != 2, LS_IO, "the ranks that timed the all-reduce left no times");
    const ls__bench_row *brief = &rows->row[0];
    const ls__bench_row *lengthy = &rows->row[1];
    double seconds = lengthy->best - brief->best;

    double per_byte = seconds / ((double)(lengthy->count - brief->count) * sizeof(float));
    double latency = brief->best - (double)brief->count * sizeof(float) * per_byte;
    keep_best(&transport->per_byte, per_byte);
    keep_best(&transport->latency, latency > 0 ? latency : 0);
    return LS_OK;
}

ls_status ls__pace_transport(const ls__plan_run *run, const char *log,
                             ls__plan_transport *transport)
{
    static const char *const arguments[] = {
        "bench",           "allreduce",    "--algorithm=direct", "--min-bytes=64K",
        "--max-bytes=16M", "--factor=256", "--repeats=20"};
    const char *words[sizeof arguments / sizeof arguments[0] + 1];
    enum { WORDS = sizeof words / sizeof words[0] };
    ls__launch launch = {.argc = WORDS, .arguments = words, .log = log, .min_ranks = 1};
    ls__list ranks = {.value = {run->ranks}, .count = 1};
    ls__bench_rows rows = {0};

    memcpy(words, arguments, sizeof arguments);
    words[WORDS - 1] = run->exact ? "--reduce=exact" : "--reduce=f32";
    ls_status status = ls__bench_launch(&launch, &ranks, &rows);
    if (status == LS_OK)
        status = fit_line(&rows, transport);
    ls__bench_rows_free(&rows);
    return status;
}
