#include "base/fault.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"

static const char variable[] = "LOCKSTEP_FAULT";

typedef enum fault_kind { KILL, STOP, FLIP, INF, NOT_A_NUMBER, FULL, SHORT } fault_kind;

typedef struct fault {
    fault_kind kind;
    ls__fault_place at;
    int64_t rank;
    int64_t step; /* 0: any */
    int64_t skip;
    int64_t element;
    int64_t bit;
    double after;
    char once[LS__PATH_SIZE];
    int64_t struck; /* the step in which it did, -1: not yet */
} fault;

#define PLACE(place) (1u << (place))

/* The places that a kind can be at; the lowest is the default. */
static const unsigned deadly = PLACE(LS__FAULT_STEP) | PLACE(LS__FAULT_COLLECTIVE) |
                               PLACE(LS__FAULT_WRITE) | PLACE(LS__FAULT_SEAL) |
                               PLACE(LS__FAULT_RENAME) | PLACE(LS__FAULT_TIME);
static const unsigned writing =
    PLACE(LS__FAULT_WRITE) | PLACE(LS__FAULT_SEAL) | PLACE(LS__FAULT_RENAME);
static const unsigned flipping =
    PLACE(LS__FAULT_GRADIENT) | PLACE(LS__FAULT_PARAMETER) | PLACE(LS__FAULT_FILE);

static const char *const kind_names[] = {"kill", "stop", "flip", "inf", "nan", "full", "short"};
static const char *const place_names[] = {"step", "collective", "write",     "seal", "rename",
                                          "time", "gradient",   "parameter", "file"};

enum { KINDS = 7, PLACES = 9 };

bool ls__fault_armed = false;
static fault armed;
static int64_t step_now;

/* ---- reading ---- */

static int index_of(const char *name, const char *const *names, int count)
{
    for (int i = 0; i < count; i++)
        if (strcmp(name, names[i]) == 0)
            return i;
    return -1;
}

static unsigned places_of(fault_kind kind)
{
    switch (kind) {
    case KILL:
    case STOP:
        return deadly;
    case FLIP:
        return flipping;
    case INF:
    case NOT_A_NUMBER:
        return PLACE(LS__FAULT_GRADIENT);
    case FULL:
        return writing;
    case SHORT:
        return PLACE(LS__FAULT_FILE);
    }
    return 0;
}

static ls__fault_place first_place(unsigned places)
{
    unsigned place = 0;

    while (!(places & PLACE(place)))
        place++;
    return (ls__fault_place)place;
}

static ls_status read_place(fault *f, const char *value)
{
    int place = index_of(value, place_names, PLACES);

    LS_FAIL_IF(place < 0 || !(places_of(f->kind) & PLACE(place)), LS_BAD_USAGE,
               "%s: %s cannot be at '%s': src/base/fault.h lists the places", variable,
               kind_names[f->kind], value);
    f->at = (ls__fault_place)place;
    return LS_OK;
}

static ls_status read_count(const char *key, const char *value, int64_t *number)
{
    char *end = NULL;

    errno = 0;
    *number = strtoll(value, &end, 10);
    LS_FAIL_IF(errno != 0 || end == value || *end || *number < 0, LS_BAD_USAGE,
               "%s: %s=%s must be a whole number, 0 or above", variable, key, value);
    return LS_OK;
}

static ls_status read_seconds(const char *value, double *seconds)
{
    char *end = NULL;

    *seconds = strtod(value, &end);
    LS_FAIL_IF(end == value || *end || !(*seconds >= 0 && *seconds < 1e6), LS_BAD_USAGE,
               "%s: after=%s must be a number of seconds", variable, value);
    return LS_OK;
}

static ls_status read_key(fault *f, const char *key, const char *value)
{
    const struct {
        const char *name;
        int64_t *number;
    } counts[] = {{"rank", &f->rank},
                  {"step", &f->step},
                  {"skip", &f->skip},
                  {"element", &f->element},
                  {"bit", &f->bit}};

    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        if (strcmp(key, counts[i].name) == 0)
            return read_count(key, value, counts[i].number);
    if (strcmp(key, "at") == 0)
        return read_place(f, value);
    if (strcmp(key, "after") == 0)
        return read_seconds(value, &f->after);
    LS_FAIL_IF(strcmp(key, "once") != 0, LS_BAD_USAGE,
               "%s has no key '%s': src/base/fault.h lists them", variable, key);
    snprintf(f->once, sizeof f->once, "%s", value);
    return LS_OK;
}

/* Cuts `text` into words. */
static ls_status read_words(fault *f, char *text)
{
    char *rest = NULL;
    char *word = strtok_r(text, ":", &rest);
    int kind = word ? index_of(word, kind_names, KINDS) : -1;

    LS_FAIL_IF(kind < 0, LS_BAD_USAGE,
               "%s: '%.64s' is no kind of fault: use kill, stop, flip, inf, nan, full or short",
               variable, word ? word : "");
    *f = (fault){.kind = (fault_kind)kind, .at = first_place(places_of((fault_kind)kind))};
    f->struck = -1;
    while ((word = strtok_r(NULL, ":", &rest))) {
        char *equals = strchr(word, '=');
        LS_FAIL_IF(!equals, LS_BAD_USAGE, "%s: '%.64s' is not key=value", variable, word);
        *equals = '\0';
        LS_TRY(read_key(f, word, equals + 1));
    }
    int64_t bits = f->at == LS__FAULT_FILE ? 8 : 32;
    LS_FAIL_IF(f->bit >= bits, LS_BAD_USAGE, "%s: bit=%lld must be below %lld", variable,
               (long long)f->bit, (long long)bits);
    return LS_OK;
}

static ls_status read_text(fault *f, const char *text)
{
    char *copy = strdup(text);

    LS_FAIL_IF(!copy, LS_NO_MEMORY, "no memory to read %s", variable);
    ls_status status = read_words(f, copy);
    free(copy);
    return status;
}

/* ---- striking ---- */

/* False where an earlier run of the same command had its fault already. */
static bool first_time(void)
{
    if (!*armed.once)
        return true;
    int file = open(armed.once, O_CREAT | O_EXCL | O_CLOEXEC | O_WRONLY, 0666);

    if (file >= 0)
        close(file);
    ls__fault_armed = file >= 0;
    return file >= 0;
}

/* Whether the fault strikes at this place now; it stays due to the end of the step. */
static bool due(ls__fault_place place)
{
    if (place != armed.at || (armed.step > 0 && armed.step != step_now))
        return false;
    if (armed.struck == step_now)
        return true;
    if (armed.struck >= 0 || armed.skip-- > 0 || !first_time())
        return false;
    armed.struck = step_now;
    return true;
}

static void send_signal(int number)
{
    (void)number;
    ls__fault_armed = false;
    kill(getpid(), armed.kind == STOP ? SIGSTOP : SIGKILL);
}

static void start_timer(void)
{
    struct itimerval timer = {0};
    struct sigaction action = {0};

    timer.it_value.tv_sec = (time_t)armed.after;
    timer.it_value.tv_usec = (suseconds_t)(1e6 * (armed.after - floor(armed.after))) + 1;
    action.sa_handler = send_signal;
    action.sa_flags = SA_RESTART;
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &timer, NULL);
}

ls_status ls__fault_arm(int rank)
{
    const char *text = getenv(variable);

    ls__fault_armed = false;
    if (!text || !*text)
        return LS_OK;
    LS_TRY(read_text(&armed, text));
    if (rank != armed.rank)
        return LS_OK;
    ls__fault_armed = true;
    ls__log_warning("%s is set: this run is made to fail: %s", variable, text);
    if (armed.at == LS__FAULT_TIME && first_time())
        start_timer();
    return LS_OK;
}

void ls__fault_enter_step(int64_t step)
{
    step_now = step;
}

void ls__fault_strike(ls__fault_place place)
{
    if ((armed.kind == KILL || armed.kind == STOP) && due(place))
        send_signal(0);
}

bool ls__fault_strikes_disk(ls__fault_place place)
{
    if (armed.kind != FULL || !due(place))
        return false;
    errno = ENOSPC;
    return true;
}

/* ---- spoiling ---- */

static float spoilt(float value)
{
    uint32_t bits = 0;

    if (armed.kind == INF)
        return INFINITY;
    if (armed.kind == NOT_A_NUMBER)
        return NAN;
    memcpy(&bits, &value, sizeof bits);
    bits ^= UINT32_C(1) << armed.bit;
    memcpy(&value, &bits, sizeof bits);
    return value;
}

static bool holds_element(int64_t offset, int64_t count)
{
    return armed.element >= offset && armed.element < offset + count;
}

/* Allocates, as no step does otherwise: this one is spoilt anyway. */
const float *ls__fault_spoil_addend(int64_t offset, int64_t count, const float *addend)
{
    static float *copy;

    if (!holds_element(offset, count) || !due(LS__FAULT_GRADIENT))
        return addend;
    float *grown = realloc(copy, (size_t)count * sizeof *copy);
    if (!grown)
        return addend;
    copy = grown;
    memcpy(copy, addend, (size_t)count * sizeof *copy);
    copy[armed.element - offset] = spoilt(addend[armed.element - offset]);
    return copy;
}

void ls__fault_spoil_parameters(float *parameters, int64_t count)
{
    if (holds_element(0, count) && due(LS__FAULT_PARAMETER))
        parameters[armed.element] = spoilt(parameters[armed.element]);
}

static void flip_in_file(int file)
{
    unsigned char byte = 0;

    if (pread(file, &byte, 1, armed.element) == 1) {
        byte = (unsigned char)(byte ^ (1u << armed.bit));
        if (pwrite(file, &byte, 1, armed.element) != 1)
            ls__log_warning("%s: the file could not be damaged", variable);
    }
}

static void cut_file(int file)
{
    struct stat info;

    if (fstat(file, &info) != 0 || ftruncate(file, info.st_size / 2) != 0)
        ls__log_warning("%s: the file could not be cut", variable);
}

void ls__fault_spoil_file(const char *path)
{
    if (!due(LS__FAULT_FILE))
        return;
    int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0)
        return;
    if (armed.kind == SHORT)
        cut_file(file);
    else
        flip_in_file(file);
    close(file);
}
