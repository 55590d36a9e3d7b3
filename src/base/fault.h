/* Faults on purpose: what the tests of fault tolerance inject, and nothing else uses.
 *
 * The variable LOCKSTEP_FAULT describes one fault of one rank, as KIND:key=value:key=value ...
 *
 *     kill:rank=1:step=5              SIGKILL to itself at the start of step 5
 *     stop:at=collective:rank=2       SIGSTOP, in the step's first collective, its messages posted
 *     kill:at=rename:rank=0:step=4    during the save after step 4
 *     kill:at=time:after=0.3          0.3 s after training began
 *     flip:at=gradient:element=7:bit=3:rank=1
 *
 *     kind        at (the first is the default)               what happens
 *     kill, stop  step, collective, write, seal, rename, time a signal
 *     flip        gradient, parameter, file                   one bit of one element (FP32) or byte
 *     inf, nan    gradient                                    in place of one element
 *     full        write, seal, rename                         the disk has no room: ENOSPC
 *     short       file                                        half of it is lost
 *
 * Places: `step` is its start; `collective` inside one, after its first messages are posted;
 * `gradient` is each addend of the element on its way into the sums, in all micro-batches that the
 * rank computes in the step; `parameter` is the rank's copy after the update, and in `bench
 * allreduce`, where a step is a run, its copy of the sums. In a save, the temporary file has been
 * handed to HDF5 at `write`, is complete but for its seal at `seal`, sealed at `rename`; `file` is
 * the published one.
 *
 *     rank=0 step=0 (0: any)    who and when; a save belongs to the step before it
 *     skip=0                    lets so many chances pass
 *     element=0 bit=0           of the flat array, or of the file's bytes
 *     after=0                   seconds, for at=time
 *     once=FILE                 only where FILE is not there yet; makes it: for runs that restart
 *
 * A fault strikes in one step only. Where none is set each hook costs a branch. */
#ifndef LS_BASE_FAULT_H
#define LS_BASE_FAULT_H

#include <stdbool.h>
#include <stdint.h>

#include "lockstep/status.h"

typedef enum ls__fault_place {
    LS__FAULT_STEP,
    LS__FAULT_COLLECTIVE,
    LS__FAULT_WRITE,
    LS__FAULT_SEAL,
    LS__FAULT_RENAME,
    LS__FAULT_TIME,
    LS__FAULT_GRADIENT,
    LS__FAULT_PARAMETER,
    LS__FAULT_FILE,
} ls__fault_place;

/* Whether this rank has a fault before it. */
extern bool ls__fault_armed;

/* Reads LOCKSTEP_FAULT on the given rank; the one that it names warns. LS_BAD_USAGE. */
ls_status ls__fault_arm(int rank);

/* Steps count from 1. */
void ls__fault_enter_step(int64_t step);

/* Behind the hooks below. */
void ls__fault_strike(ls__fault_place place);
bool ls__fault_strikes_disk(ls__fault_place place);
const float *ls__fault_spoil_addend(int64_t offset, int64_t count, const float *addend);
void ls__fault_spoil_parameters(float *parameters, int64_t count);
void ls__fault_spoil_file(const char *path);

/* ---- hooks ---- */

/* Kills or stops this process where that is due. */
static inline void ls__fault_here(ls__fault_place place)
{
    if (__builtin_expect(ls__fault_armed, 0))
        ls__fault_strike(place);
}

/* Whether a write here shall fail; errno is then ENOSPC. */
static inline bool ls__fault_full(ls__fault_place place)
{
    return __builtin_expect(ls__fault_armed, 0) && ls__fault_strikes_disk(place);
}

/* `addend`, or a spoilt copy that is valid until the next call. */
static inline const float *ls__fault_addend(int64_t offset, int64_t count, const float *addend)
{
    return __builtin_expect(ls__fault_armed, 0) ? ls__fault_spoil_addend(offset, count, addend)
                                                : addend;
}

static inline void ls__fault_parameters(float *parameters, int64_t count)
{
    if (__builtin_expect(ls__fault_armed, 0))
        ls__fault_spoil_parameters(parameters, count);
}

static inline void ls__fault_file(const char *path)
{
    if (__builtin_expect(ls__fault_armed, 0))
        ls__fault_spoil_file(path);
}

#endif
