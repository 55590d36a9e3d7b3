#include "train/sample.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/rng.h"
#include "math/gemm.h"

/* What one call works with. */
typedef struct sampler {
    ls__loaded *loaded;
    const ls__sample_settings *settings;
    int32_t *token; /* (count) the text so far; room for all of it */
    int64_t count;
    double *weight; /* (vocabulary) */
    double *sorted; /* (vocabulary) */
} sampler;

static int32_t token_of(const ls__checkpoint_info *info, uint8_t byte)
{
    for (int64_t i = 0; i < info->vocabulary_bytes; i++)
        if (info->vocabulary[i] == byte)
            return (int32_t)i;
    return -1;
}

static void push(sampler *s, int32_t token)
{
    s->token[s->count++] = token;
}

static ls_status push_prompt(sampler *s)
{
    const char *prompt = s->settings->prompt;
    int32_t newline = token_of(&s->loaded->info, '\n');

    /* A model needs one token to go on from: without a prompt, the start of a line. */
    if (!*prompt)
        push(s, newline >= 0 ? newline : 0);
    for (const char *at = prompt; *at; at++) {
        int32_t token = token_of(&s->loaded->info, (uint8_t)*at);
        LS_FAIL_IF(token < 0, LS_BAD_USAGE,
                   "--prompt has the byte 0x%02x ('%c') at %lld, which the training text has not: "
                   "leave it out",
                   (unsigned)(uint8_t)*at, *at >= ' ' && *at <= '~' ? *at : '?',
                   (long long)(at - prompt));
        push(s, token);
    }
    return LS_OK;
}

static int descending(const void *a, const void *b)
{
    double left = *(const double *)a;
    double right = *(const double *)b;

    return (left < right) - (left > right);
}

/* The logit below which nothing is chosen: the top_k-th largest. */
static double threshold(sampler *s, const float *logits, int64_t classes)
{
    if (s->settings->top_k == 0 || s->settings->top_k >= classes)
        return -HUGE_VAL;
    for (int64_t i = 0; i < classes; i++)
        s->sorted[i] = (double)logits[i];
    qsort(s->sorted, (size_t)classes, sizeof *s->sorted, descending);
    return s->sorted[s->settings->top_k - 1];
}

static int32_t choose(sampler *s, const float *logits, int64_t classes, int64_t position)
{
    ls__random4 words = ls__random(s->settings->seed, LS__STREAM_SAMPLE, 0, (uint64_t)position);
    int32_t best = (int32_t)ls__most_probable(logits, classes);
    double least = threshold(s, logits, classes);
    double total = 0;
    int32_t chosen = best;

    if (s->settings->temperature == 0)
        return best;
    for (int64_t i = 0; i < classes; i++) {
        double above = ((double)logits[i] - (double)logits[best]) / s->settings->temperature;
        s->weight[i] = (double)logits[i] >= least ? exp(above) : 0;
        total += s->weight[i];
    }
    double left = ls__uniform(words.word[0], words.word[1]) * total;
    for (int64_t i = 0; i < classes && left >= 0; i++) {
        if (s->weight[i] > 0)
            chosen = (int32_t)i;
        left -= s->weight[i];
    }
    return chosen;
}

static ls_status generate(sampler *s, FILE *out)
{
    ls__model *model = s->loaded->model;

    LS_TRY(push_prompt(s));
    fputs(s->settings->prompt, out);
    for (int64_t position = 0; position < s->settings->length; position++) {
        /* The model sees the newest tokens, as many as its context holds. */
        int64_t seen = s->count < model->context ? s->count : model->context;
        ls__batch batch = {.samples = 1, .length = seen, .tokens = s->token + s->count - seen};
        ls__model_logits(model, s->loaded->parameters, &batch);
        LS_TRY(ls__gemm_failed());
        const float *last = ls__model_row(model, seen - 1);
        int32_t token = choose(s, last, model->classes, position);
        fputc(s->loaded->info.vocabulary[token], out);
        fflush(out);
        push(s, token);
    }
    fputc('\n', out);
    if (fflush(out) != 0)
        return ls__fail_errno("write to", "standard output");
    return LS_OK;
}

static ls_status check(const ls__loaded *loaded)
{
    LS_FAIL_IF(loaded->settings.model != LS__MODEL_GPT, LS_BAD_INPUT,
               "%.600s is a run of an MLP: only a GPT makes text", loaded->settings.run);
    LS_FAIL_IF(loaded->info.vocabulary_bytes != loaded->model->classes, LS_BAD_INPUT,
               "%.600s was trained on tokens without a vocabulary: they cannot be printed as text",
               loaded->settings.run);
    return LS_OK;
}

ls_status ls__sample(ls__loaded *loaded, const ls__sample_settings *settings, FILE *out)
{
    sampler s = {.loaded = loaded, .settings = settings};
    ls_status status = LS_OK;
    size_t classes = (size_t)loaded->model->classes;

    LS_TRY(check(loaded));
    s.token = calloc(strlen(settings->prompt) + 1 + (size_t)settings->length, sizeof *s.token);
    s.weight = calloc(classes, sizeof *s.weight);
    s.sorted = calloc(classes, sizeof *s.sorted);
    if (s.token && s.weight && s.sorted)
        status = generate(&s, out);
    else
        status = LS_FAIL(LS_NO_MEMORY, "no memory to sample with");
    free(s.token);
    free(s.weight);
    free(s.sorted);
    return status;
}
