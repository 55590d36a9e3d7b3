/* oneDNN compiles a primitive for each shape of product, which takes a millisecond or less; each
 * thread keeps those that it has used. */
#include "math/gemm_onednn.h"

#include <oneapi/dnnl/dnnl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "base/threads.h"

#if DNNL_VERSION_MAJOR != 2
#error "Lockstep needs oneDNN 2 (Debian: libdnnl-dev): version 3 has another interface"
#endif

/* From the OpenMP runtime that oneDNN computes with; clang comes without a header for it. */
extern void omp_set_num_threads(int count);

/* What a primitive depends on. Without padding, so that it can be compared as bytes. */
typedef struct product_shape {
    int64_t m, n, k;
    int64_t stride_a, stride_b, stride_c;
    int64_t transposed_a, transposed_b;
    int64_t format_c; /* ls__format */
    int64_t biased, adds;
} product_shape;

enum { A, B, C, BIAS, ARGUMENTS };

typedef struct compiled_product {
    product_shape shape;
    dnnl_primitive_t primitive;
    dnnl_memory_t memory[ARGUMENTS];
    struct compiled_product *next; /* of those with the same hash */
} compiled_product;

enum { SLOTS = 256 };

static compiled_product *compiled[LS__THREADS_MAX][SLOTS];
static dnnl_engine_t engine;
static dnnl_stream_t stream[LS__THREADS_MAX];
static pthread_once_t engine_once = PTHREAD_ONCE_INIT;
static atomic_bool failed;

/* ---- the processor ---- */

static bool has(dnnl_cpu_isa_t instructions)
{
    return (dnnl_get_effective_cpu_isa() & instructions) == instructions;
}

bool ls__bf16_native(void)
{
    return has(dnnl_cpu_isa_avx512_core_bf16);
}

const char *ls__bf16_engine(void)
{
    return has(dnnl_cpu_isa_avx512_core_amx) ? "oneDNN AMX" : "oneDNN AVX512-BF16";
}

/* ---- compiling ---- */

static void open_engine(void)
{
    if (dnnl_engine_create(&engine, dnnl_cpu, 0) != dnnl_success)
        engine = NULL;
}

static unsigned hash(const product_shape *shape)
{
    return (unsigned)(ls__digest_of(shape, sizeof *shape).low % SLOTS);
}

static bool describe(dnnl_memory_desc_t *about, int64_t rows, int64_t columns, int64_t row_stride,
                     int64_t column_stride, dnnl_data_type_t type)
{
    dnnl_dims_t dims = {rows, columns};
    dnnl_dims_t strides = {row_stride, column_stride};

    return dnnl_memory_desc_init_by_strides(about, 2, dims, type, strides) == dnnl_success;
}

static bool describe_all(dnnl_memory_desc_t *about, const product_shape *shape)
{
    bool a = shape->transposed_a;
    bool b = shape->transposed_b;

    return describe(&about[A], shape->m, shape->k, a ? 1 : shape->stride_a, a ? shape->stride_a : 1,
                    dnnl_bf16) &&
           describe(&about[B], shape->k, shape->n, b ? 1 : shape->stride_b, b ? shape->stride_b : 1,
                    dnnl_bf16) &&
           describe(&about[C], shape->m, shape->n, shape->stride_c, 1,
                    shape->format_c == LS__F32 ? dnnl_f32 : dnnl_bf16) &&
           describe(&about[BIAS], 1, shape->n, shape->n, 1, dnnl_f32);
}

static bool create_primitive(compiled_product *product, const dnnl_memory_desc_t *about,
                             const_dnnl_primitive_attr_t attributes)
{
    dnnl_matmul_desc_t matmul;
    dnnl_primitive_desc_t description;

    if (dnnl_matmul_desc_init(&matmul, &about[A], &about[B],
                              product->shape.biased ? &about[BIAS] : NULL,
                              &about[C]) != dnnl_success ||
        dnnl_primitive_desc_create(&description, &matmul, attributes, engine, NULL) != dnnl_success)
        return false;
    bool created = dnnl_primitive_create(&product->primitive, description) == dnnl_success;
    dnnl_primitive_desc_destroy(description);
    return created;
}

static bool create_adding(compiled_product *product, const dnnl_memory_desc_t *about)
{
    dnnl_primitive_attr_t attributes = NULL;
    dnnl_post_ops_t after = NULL;

    if (!product->shape.adds)
        return create_primitive(product, about, NULL);
    bool created = dnnl_primitive_attr_create(&attributes) == dnnl_success &&
                   dnnl_post_ops_create(&after) == dnnl_success &&
                   dnnl_post_ops_append_sum(after, 1) == dnnl_success &&
                   dnnl_primitive_attr_set_post_ops(attributes, after) == dnnl_success &&
                   create_primitive(product, about, attributes);
    dnnl_post_ops_destroy(after);
    dnnl_primitive_attr_destroy(attributes);
    return created;
}

static void free_product(compiled_product *product)
{
    for (int i = 0; i < ARGUMENTS; i++)
        if (product->memory[i])
            dnnl_memory_destroy(product->memory[i]);
    if (product->primitive)
        dnnl_primitive_destroy(product->primitive);
    free(product);
}

static compiled_product *compile(const product_shape *shape, int thread)
{
    dnnl_memory_desc_t about[ARGUMENTS];
    compiled_product *product = calloc(1, sizeof *product);

    if (!product)
        return NULL;
    product->shape = *shape;
    bool is_ready =
        engine &&
        (stream[thread] ||
         dnnl_stream_create(&stream[thread], engine, dnnl_stream_default_flags) == dnnl_success) &&
        describe_all(about, shape) && create_adding(product, about);
    for (int i = 0; is_ready && i < ARGUMENTS; i++)
        is_ready = dnnl_memory_create(&product->memory[i], &about[i], engine, DNNL_MEMORY_NONE) ==
                   dnnl_success;
    if (is_ready)
        return product;
    free_product(product);
    return NULL;
}

static compiled_product *product_for(const product_shape *shape, int thread)
{
    compiled_product **slot = &compiled[thread][hash(shape)];

    for (compiled_product *at = *slot; at; at = at->next)
        if (memcmp(&at->shape, shape, sizeof *shape) == 0)
            return at;
    compiled_product *product = compile(shape, thread);
    if (product) {
        product->next = *slot;
        *slot = product;
    }
    return product;
}

/* ---- running ---- */

static bool run(compiled_product *product, const ls__values *values, int thread)
{
    static const int meaning[ARGUMENTS] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST,
                                           DNNL_ARG_BIAS};
    dnnl_exec_arg_t arguments[ARGUMENTS];
    int count = product->shape.biased ? ARGUMENTS : ARGUMENTS - 1;

    for (int i = 0; i < count; i++) {
        if (dnnl_memory_set_data_handle(product->memory[i], values[i].at) != dnnl_success)
            return false;
        arguments[i] = (dnnl_exec_arg_t){meaning[i], product->memory[i]};
    }
    return dnnl_primitive_execute(product->primitive, stream[thread], count, arguments) ==
               dnnl_success &&
           dnnl_stream_wait(stream[thread]) == dnnl_success;
}

static void spoil(ls__matrix c, int64_t m, int64_t n)
{
    for (int64_t r = 0; r < m; r++)
        memset(ls__from(c.values, r * c.stride).at, 0xff,
               (size_t)(n * ls__value_bytes(c.values.format)));
}

void ls__bf16_product(ls__matrix c, ls__matrix a, ls__matrix b, int64_t m, int64_t n, int64_t k,
                      const float *bias, bool adds)
{
    int thread = ls__threads_index();
    product_shape shape = {.m = m,
                           .n = n,
                           .k = k,
                           .stride_a = a.stride,
                           .stride_b = b.stride,
                           .stride_c = c.stride,
                           .transposed_a = a.op == LS__TRANSPOSED,
                           .transposed_b = b.op == LS__TRANSPOSED,
                           .format_c = c.values.format,
                           .biased = bias != NULL,
                           .adds = adds};
    ls__values values[ARGUMENTS] = {a.values, b.values, c.values, ls__floats(bias)};

    omp_set_num_threads(1); /* of this thread's calls; a write to memory of its own */
    pthread_once(&engine_once, open_engine);
    compiled_product *product = product_for(&shape, thread);
    if (!product || !run(product, values, thread)) {
        atomic_store(&failed, true);
        spoil(c, m, n);
    }
}

/* ---- FP32 ---- */

bool ls__onednn_native(void)
{
    return has(dnnl_cpu_isa_avx2);
}

const char *ls__onednn_isa(void)
{
    return has(dnnl_cpu_isa_avx512_core) ? "oneDNN AVX512" : "oneDNN AVX2";
}

static char letter_of(ls__matrix x)
{
    return x.op == LS__TRANSPOSED ? 'T' : 'N';
}

void ls__onednn_product(ls__matrix c, ls__matrix a, ls__matrix b, int64_t m, int64_t n, int64_t k,
                        bool adds)
{
    omp_set_num_threads(1);
    if (dnnl_sgemm(letter_of(a), letter_of(b), m, n, k, 1, a.values.at, a.stride, b.values.at,
                   b.stride, adds ? 1 : 0, c.values.at, c.stride) == dnnl_success)
        return;
    atomic_store(&failed, true);
    spoil(c, m, n);
}

ls_status ls__gemm_failed(void)
{
    LS_FAIL_IF(atomic_load(&failed), LS_NO_MEMORY,
               "oneDNN could not set up a product: free memory, or use a smaller model");
    return LS_OK;
}
