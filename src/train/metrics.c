#include "train/metrics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/units.h"

static const double progress_every = 2.0; /* seconds */

/* The step of a line that starts with one, or -1. */
static int64_t step_of_line(const char *line)
{
    long long step = -1;

    return sscanf(line, "{\"step\": %lld", &step) == 1 ? step : -1;
}

/* Copies the lines up to `step` into a file beside, then puts it in place. A last line without its
 * end was cut off by a crash: it is dropped. */
static ls_status drop_later_lines(const char *path, int64_t step)
{
    char temporary[LS__PATH_SIZE];
    char *line = NULL;
    size_t size = 0;
    ssize_t length = 0;
    bool good = true;

    LS_FAIL_IF(snprintf(temporary, sizeof temporary, "%s.tmp", path) >= (int)sizeof temporary,
               LS_BAD_USAGE, "the path %.64s... is too long", path);
    FILE *from = fopen(path, "r");
    if (!from)
        return ls__fail_errno("open", path);
    FILE *to = fopen(temporary, "w");
    if (!to) {
        fclose(from);
        return ls__fail_errno("create", temporary);
    }
    while (good && (length = getline(&line, &size, from)) > 0)
        if (line[length - 1] == '\n' && step_of_line(line) <= step)
            good = fputs(line, to) >= 0;
    free(line);
    fclose(from);
    good = fclose(to) == 0 && good;
    if (!good)
        return ls__fail_errno("write", temporary);
    return ls__file_publish(temporary, path);
}

ls_status ls__metrics_open(ls__metrics *metrics, const char *path, int64_t step, bool images)
{
    *metrics = (ls__metrics){.path = path, .images = images};
    if (ls__path_exists(path))
        LS_TRY(drop_later_lines(path, step));
    metrics->file = fopen(path, "a");
    if (!metrics->file)
        return ls__fail_errno("open", path);
    return LS_OK;
}

ls_status ls__metrics_close(ls__metrics *metrics)
{
    FILE *file = metrics->file;

    metrics->file = NULL;
    if (file && fclose(file) != 0)
        return ls__fail_errno("write", metrics->path);
    return LS_OK;
}

/* Each line is handed to the system at once: whoever follows the file sees whole lines. */
ls_status ls__metrics_line(ls__metrics *metrics, const char *json)
{
    if (fprintf(metrics->file, "%s\n", json) < 0 || fflush(metrics->file) != 0)
        return ls__fail_errno("write", metrics->path);
    return LS_OK;
}

/* JSON has no infinities: such a value is written as null. */
static const char *number(char *text, size_t size, double value)
{
    snprintf(text, size, isfinite(value) ? "%.9g" : "null", value);
    return text;
}

static void show_progress(ls__metrics *metrics, const ls__step_metrics *s)
{
    char left[32];
    double now = ls__clock_seconds();

    if (s->step != 1 && s->step != s->steps && now - metrics->progress_shown < progress_every)
        return;
    metrics->progress_shown = now;
    ls__log_info("step %lld/%lld  loss %.4f  %.0f %s/s  %s left", (long long)s->step,
                 (long long)s->steps, s->loss, s->items / s->seconds,
                 metrics->images ? "images" : "tokens",
                 ls__format_seconds(left, sizeof left, (double)(s->steps - s->step) * s->seconds));
}

ls_status ls__metrics_step(ls__metrics *metrics, const ls__step_metrics *s)
{
    char line[1024];
    char loss[32];
    char norm[32];
    char digest[LS__DIGEST_TEXT];

    snprintf(line, sizeof line,
             "{\"step\": %lld, \"loss\": %s, \"lr\": %.9g, \"grad_norm\": %s, \"%s\": %.1f, "
             "\"step_ms\": %.3f, \"compute_ms\": %.3f, \"comm_ms\": %.3f, \"bytes_sent\": %lld, "
             "\"digest\": \"%s\"}",
             (long long)s->step, number(loss, sizeof loss, s->loss), s->lr,
             number(norm, sizeof norm, s->grad_norm),
             metrics->images ? "images_per_s" : "tokens_per_s", s->items / s->seconds,
             1e3 * s->seconds, 1e3 * s->compute_seconds, 1e3 * s->comm_seconds,
             (long long)s->bytes_sent, ls__digest_format(s->digest, digest));
    show_progress(metrics, s);
    return ls__metrics_line(metrics, line);
}

ls_status ls__metrics_eval(ls__metrics *metrics, const ls__eval_metrics *e)
{
    char line[256];
    char extra[64] = "";
    char loss[32];

    if (metrics->images)
        snprintf(extra, sizeof extra, ", \"val_accuracy\": %.6f", e->accuracy);
    else if (e->bytes)
        snprintf(extra, sizeof extra, ", \"val_bits_per_byte\": %.6f", e->loss / log(2));
    snprintf(line, sizeof line, "{\"step\": %lld, \"val_loss\": %s%s}", (long long)e->step,
             number(loss, sizeof loss, e->loss), extra);
    if (metrics->images)
        ls__log_info("step %lld: validation loss %.4f, accuracy %.4f", (long long)e->step, e->loss,
                     e->accuracy);
    else
        ls__log_info("step %lld: validation loss %.4f", (long long)e->step, e->loss);
    return ls__metrics_line(metrics, line);
}

/* ---- reading ---- */

/* Takes the digest of a step's line; any other line is passed over. */
static ls_status take_line(const char *path, const char *line, ls__digest **digests, int64_t *count,
                           int64_t *capacity)
{
    static const char key[] = "\"digest\": \"";
    char text[LS__DIGEST_TEXT];
    const char *at = strstr(line, key);
    int64_t step = step_of_line(line);

    if (!at || step < 0)
        return LS_OK;
    LS_FAIL_IF(step != *count + 1, LS_BAD_INPUT, "%s has step %lld where step %lld is expected",
               path, (long long)step, (long long)*count + 1);
    if (*count == *capacity) {
        *capacity = *capacity ? 2 * *capacity : 1024;
        ls__digest *grown = realloc(*digests, (size_t)*capacity * sizeof **digests);
        LS_FAIL_IF(!grown, LS_NO_MEMORY, "no memory for the digests of %s", path);
        *digests = grown;
    }
    snprintf(text, sizeof text, "%s", at + strlen(key));
    LS_TRY(ls__digest_parse(text, &(*digests)[*count]));
    (*count)++;
    return LS_OK;
}

ls_status ls__metrics_read_digests(const char *path, ls__digest **digests, int64_t *count)
{
    char *line = NULL;
    size_t size = 0;
    int64_t capacity = 0;
    ls_status status = LS_OK;
    FILE *file = fopen(path, "r");

    *digests = NULL;
    *count = 0;
    LS_FAIL_IF(!file, LS_BAD_INPUT, "cannot open %s: is it the folder of a run?", path);
    while (status == LS_OK && getline(&line, &size, file) > 0)
        status = take_line(path, line, digests, count, &capacity);
    free(line);
    fclose(file);
    if (status != LS_OK) {
        free(*digests);
        *digests = NULL;
    }
    return status;
}
