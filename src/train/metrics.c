#include "train/metrics.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

/* Whether these bytes are a line that was written to its end and not damaged since. */
static bool is_whole(const char *line, size_t length)
{
    return length >= 3 && line[0] == '{' && line[length - 2] == '}' && line[length - 1] == '\n' &&
           !memchr(line, '\0', length);
}

static ls_status copy_lines(FILE *from, const char *path, FILE *to, const char *copy, int64_t step)
{
    char *line = NULL;
    size_t size = 0;
    ssize_t length = 0;
    bool written = true;
    ls_status status = LS_OK;

    while (written && (length = getline(&line, &size, from)) > 0)
        if (is_whole(line, (size_t)length) && step_of_line(line) <= step)
            written = fwrite(line, 1, (size_t)length, to) == (size_t)length;
    if (!written)
        status = ls__fail_errno("write", copy);
    else if (!feof(from)) /* getline also ends where reading fails or memory runs out */
        status = ls__fail_errno("read", path);
    free(line);
    return status;
}

static ls_status copy_file(const char *path, const char *copy, int64_t step)
{
    FILE *from = fopen(path, "r");

    if (!from)
        return ls__fail_errno("open", path);
    FILE *to = fopen(copy, "w");
    if (!to) {
        ls_status status = ls__fail_errno("create", copy);
        fclose(from);
        return status;
    }
    ls_status status = copy_lines(from, path, to, copy, step);
    fclose(from);
    if (fclose(to) != 0 && status == LS_OK)
        status = ls__fail_errno("write", copy);
    return status;
}

/* Copies the whole lines up to `step` into a file beside, then puts it in place. Others were cut
 * off by a crash, or damaged: they are dropped. */
static ls_status drop_later_lines(const char *path, int64_t step)
{
    char temporary[LS__PATH_SIZE];

    LS_TRY(ls__file_temporary(temporary, path));
    ls_status status = copy_file(path, temporary, step);
    if (status == LS_OK)
        status = ls__file_publish(temporary, path);
    if (status != LS_OK)
        unlink(temporary);
    return status;
}

ls_status ls__metrics_open(ls__metrics *metrics, const char *path, int64_t step, bool images)
{
    struct stat info;

    *metrics = (ls__metrics){.path = path, .images = images};
    if (ls__path_exists(path))
        LS_TRY(drop_later_lines(path, step));
    metrics->file = fopen(path, "a");
    if (!metrics->file || fstat(fileno(metrics->file), &info) != 0) {
        ls_status status = ls__fail_errno("open", path);
        ls__metrics_close(metrics);
        return status;
    }
    metrics->length = info.st_size;
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

/* After a write that failed: what there is of the line is taken away again. The stream is closed
 * first, as it would write the rest of the line sooner or later. */
static void take_back(ls__metrics *metrics)
{
    fclose(metrics->file);
    metrics->file = NULL;
    if (truncate(metrics->path, metrics->length) != 0)
        ls__log_warning("%s ends with a part of a line: %s", metrics->path, strerror(errno));
}

/* Each line is handed to the system at once: whoever follows the file sees whole lines. */
ls_status ls__metrics_line(ls__metrics *metrics, const char *json)
{
    assert(metrics->file);
    int length = fprintf(metrics->file, "%s\n", json);
    if (length < 0 || fflush(metrics->file) != 0) {
        ls_status status = ls__fail_errno("write", metrics->path);
        take_back(metrics);
        return status;
    }
    metrics->length += length;
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
    char scaling[96] = "";
    char digest[LS__DIGEST_TEXT];

    if (s->loss_scale > 0)
        snprintf(scaling, sizeof scaling, "\"loss_scale\": %.17g, \"skipped\": %lld, ",
                 s->loss_scale, (long long)s->skipped);
    snprintf(line, sizeof line,
             "{\"step\": %lld, \"loss\": %s, \"lr\": %.9g, \"grad_norm\": %s, \"%s\": %.1f, "
             "\"step_ms\": %.3f, \"compute_ms\": %.3f, \"comm_ms\": %.3f, \"hidden_ms\": %.3f, "
             "\"bytes_sent\": %lld, \"flops\": %lld, %s\"digest\": \"%s\"}",
             (long long)s->step, number(loss, sizeof loss, s->loss), s->lr,
             number(norm, sizeof norm, s->grad_norm),
             metrics->images ? "images_per_s" : "tokens_per_s", s->items / s->seconds,
             1e3 * s->seconds, 1e3 * s->compute_seconds, 1e3 * s->comm_seconds,
             1e3 * s->hidden_seconds, (long long)s->bytes_sent, (long long)s->flops, scaling,
             ls__digest_format(s->digest, digest));
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

/* The digests so far, with the place where they come from. */
typedef struct digest_list {
    const char *path;
    ls__digest *digest;
    int64_t count;
    int64_t capacity;
} digest_list;

static ls_status make_room(digest_list *list)
{
    if (list->count < list->capacity)
        return LS_OK;
    list->capacity = list->capacity ? 2 * list->capacity : 1024;
    ls__digest *grown = realloc(list->digest, (size_t)list->capacity * sizeof *grown);
    LS_FAIL_IF(!grown, LS_NO_MEMORY, "no memory for the digests of %s", list->path);
    list->digest = grown;
    return LS_OK;
}

/* Takes the digest of a step's line; any other line is passed over. */
static ls_status take_line(digest_list *list, const char *line)
{
    static const char key[] = "\"digest\": \"";
    char text[LS__DIGEST_TEXT];
    const char *at = strstr(line, key);
    int64_t step = step_of_line(line);

    if (!at || step < 0)
        return LS_OK;
    LS_FAIL_IF(step != list->count + 1, LS_BAD_INPUT,
               "%s has step %lld where step %lld is expected", list->path, (long long)step,
               (long long)list->count + 1);
    LS_TRY(make_room(list));
    snprintf(text, sizeof text, "%s", at + strlen(key));
    LS_FAIL_IF(ls__digest_parse(text, &list->digest[list->count]) != LS_OK, LS_BAD_INPUT,
               "%s: the digest of step %lld is damaged", list->path, (long long)step);
    list->count++;
    return LS_OK;
}

/* A last line without its end is being written, or was cut off by a crash: it does not count. */
static ls_status take_lines(digest_list *list, FILE *file)
{
    char *line = NULL;
    size_t size = 0;
    ssize_t length = 0;
    int64_t number = 1;
    ls_status status = LS_OK;

    for (; status == LS_OK && (length = getline(&line, &size, file)) > 0; number++) {
        if (line[length - 1] != '\n')
            break;
        if (is_whole(line, (size_t)length))
            status = take_line(list, line);
        else
            status = LS_FAIL(LS_BAD_INPUT, "%s: line %lld is damaged: --resume drops it",
                             list->path, (long long)number);
    }
    if (status == LS_OK && ferror(file))
        status = ls__fail_errno("read", list->path);
    free(line);
    return status;
}

static ls_status open_to_read(const char *path, FILE **file)
{
    *file = fopen(path, "r");
    LS_FAIL_IF(!*file && errno != ENOENT, LS_IO, "cannot open %s: %s", path, strerror(errno));
    LS_FAIL_IF(!*file, LS_BAD_INPUT, "cannot open %s: is it the folder of a run?", path);
    return LS_OK;
}

ls_status ls__metrics_read_digests(const char *path, ls__digest **digests, int64_t *count)
{
    digest_list list = {.path = path};
    FILE *file = NULL;

    *digests = NULL;
    *count = 0;
    LS_TRY(open_to_read(path, &file));
    ls_status status = take_lines(&list, file);
    fclose(file);
    if (status != LS_OK) {
        free(list.digest);
        return status;
    }
    *digests = list.digest;
    *count = list.count;
    return LS_OK;
}

int64_t ls__metrics_last_ranks(const char *path)
{
    static const char start[] = "{\"run\": ";
    static const char key[] = "\"ranks\": ";
    char *line = NULL;
    size_t size = 0;
    int64_t ranks = 0;
    FILE *file = fopen(path, "r");

    if (!file)
        return 0;
    while (getline(&line, &size, file) > 0) {
        const char *at = strncmp(line, start, strlen(start)) == 0 ? strstr(line, key) : NULL;
        if (at)
            ranks = strtoll(at + strlen(key), NULL, 10);
    }
    free(line);
    fclose(file);
    return ranks;
}

/* Where the value of a member begins, or NULL. */
static const char *value_of(const char *line, const char *key)
{
    char member[64];

    snprintf(member, sizeof member, "\"%s\": ", key);
    const char *at = strstr(line, member);
    return at ? at + strlen(member) : NULL;
}

ls_status ls__metrics_read_numbers(const char *path, const char *object, const char *key,
                                   double *numbers, int most, int *count)
{
    char *line = NULL;
    size_t size = 0;
    FILE *file = NULL;

    *count = 0;
    LS_TRY(open_to_read(path, &file));
    while (*count < most && getline(&line, &size, file) > 0) {
        const char *from = object ? value_of(line, object) : line;
        const char *at = from ? value_of(from, key) : NULL;
        if (at)
            numbers[(*count)++] = strncmp(at, "null", 4) == 0 ? (double)NAN : strtod(at, NULL);
    }
    free(line);
    fclose(file);
    return LS_OK;
}
