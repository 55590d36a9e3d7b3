/* Trains a GPT with llm.c's CPU code for a few steps and prints one JSON object: the seconds of
 * each step and its loss. What bench/peers/compare builds against a checkout of llm.c and runs;
 * nothing of llm.c is in this file. Its trainer reads a checkpoint of GPT-2 and fixes batch and
 * context at compile time, so this is a main of our own around its functions, with the shape as
 * arguments.
 *
 * A step is what llm.c's own main times: forward, zero_grad, backward, update. It does not clip.
 *
 * usage: llmc_step TOKENS LAYERS HEADS WIDTH CONTEXT BATCH VOCABULARY STEPS
 *        TOKENS: a file of one byte a token */
#define TESTING /* leaves out llm.c's main */
#include "train_gpt2.c"

static uint64_t random_state = 1337;

static uint64_t random_below(uint64_t bound)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (random_state >> 33) % bound;
}

/* Uniform, with the standard deviation asked for. */
static void fill_random(float *values, size_t count, double deviation)
{
    for (size_t i = 0; i < count; i++)
        values[i] = (float)((random_below(1 << 30) / (double)(1 << 29) - 1) * sqrt(3) * deviation);
}

static void fill(float *values, size_t count, float value)
{
    for (size_t i = 0; i < count; i++)
        values[i] = value;
}

/* The model with GPT-2's initial weights, as gpt2_build_from_checkpoint would leave it. */
static void build(GPT2 *model, GPT2Config config)
{
    ParameterTensors *p = &model->params;
    const size_t *sizes = model->param_sizes; /* in the order of the fields */
    double deviation = 0.02;
    double projection = deviation / sqrt(2.0 * config.num_layers);

    memset(model, 0, sizeof *model);
    model->config = config;
    model->mean_loss = -1.0f;
    fill_in_parameter_sizes(model->param_sizes, config);
    for (int i = 0; i < NUM_PARAMETER_TENSORS; i++)
        model->num_parameters += model->param_sizes[i];
    model->params_memory = malloc_and_point_parameters(p, model->param_sizes);
    fill(model->params_memory, model->num_parameters, 0);
    fill_random(p->wte, sizes[0], deviation);
    fill_random(p->wpe, sizes[1], deviation);
    fill(p->ln1w, sizes[2], 1);
    fill_random(p->qkvw, sizes[4], deviation);
    fill_random(p->attprojw, sizes[6], projection);
    fill(p->ln2w, sizes[8], 1);
    fill_random(p->fcw, sizes[10], deviation);
    fill_random(p->fcprojw, sizes[12], projection);
    fill(p->lnfw, sizes[14], 1);
}

static unsigned char *read_tokens(const char *path, size_t *count)
{
    FILE *file = fopenCheck(path, "rb");
    unsigned char *tokens;

    fseekCheck(file, 0, SEEK_END);
    *count = (size_t)ftell(file);
    fseekCheck(file, 0, SEEK_SET);
    tokens = mallocCheck(*count);
    freadCheck(tokens, 1, *count, file);
    fcloseCheck(file);
    return tokens;
}

static void draw(int *inputs, int *targets, int batch, int context, const unsigned char *tokens,
                 size_t count)
{
    for (int b = 0; b < batch; b++) {
        const unsigned char *window = tokens + random_below(count - context);
        for (int t = 0; t < context; t++) {
            inputs[b * context + t] = window[t];
            targets[b * context + t] = window[t + 1];
        }
    }
}

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
    static GPT2 model;
    GPT2Config config = {0};
    unsigned char *tokens;
    double *seconds;
    double *losses;
    int *inputs;
    int *targets;
    size_t count;
    int batch, steps;

    if (argc != 9) {
        fprintf(stderr,
                "usage: llmc_step TOKENS LAYERS HEADS WIDTH CONTEXT BATCH VOCABULARY STEPS\n");
        return 2;
    }
    config.num_layers = atoi(argv[2]);
    config.num_heads = atoi(argv[3]);
    config.channels = atoi(argv[4]);
    config.max_seq_len = atoi(argv[5]);
    batch = atoi(argv[6]);
    config.vocab_size = config.padded_vocab_size = atoi(argv[7]);
    steps = atoi(argv[8]);
    tokens = read_tokens(argv[1], &count);
    build(&model, config);
    inputs = mallocCheck(sizeof *inputs * batch * config.max_seq_len);
    targets = mallocCheck(sizeof *targets * batch * config.max_seq_len);
    seconds = mallocCheck(sizeof *seconds * steps);
    losses = mallocCheck(sizeof *losses * steps);

    for (int step = 0; step < steps; step++) {
        double start = now();
        draw(inputs, targets, batch, config.max_seq_len, tokens, count);
        gpt2_forward(&model, inputs, targets, batch, config.max_seq_len);
        gpt2_zero_grad(&model);
        gpt2_backward(&model);
        gpt2_update(&model, 1e-4f, 0.9f, 0.99f, 1e-8f, 0.1f, step + 1);
        losses[step] = model.mean_loss;
        seconds[step] = now() - start;
    }

    /* The last line of the output: llm.c itself prints others before. */
    printf("{\"seconds\": [");
    for (int step = 0; step < steps; step++)
        printf("%s%.6f", step ? ", " : "", seconds[step]);
    printf("], \"losses\": [");
    for (int step = 0; step < steps; step++)
        printf("%s%.6f", step ? ", " : "", losses[step]);
    printf("]}\n");
    gpt2_free(&model);
    free(tokens);
    free(inputs);
    free(targets);
    free(seconds);
    free(losses);
    return 0;
}
