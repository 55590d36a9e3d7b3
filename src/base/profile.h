/* Where the time of a step goes, for `lockstep bench step`: a clock that a model moves from one
 * part of the step to the next. Nobody measures but while a benchmark has set ls__profile; else a
 * mark costs a load and a branch. For one thread. */
#ifndef LS_BASE_PROFILE_H
#define LS_BASE_PROFILE_H

typedef enum ls__part {
    LS__PART_EMBEDDING,
    LS__PART_NORM,       /* all layer norms */
    LS__PART_QKV,        /* the projection to queries, keys and values */
    LS__PART_ATTENTION,  /* what it is named after */
    LS__PART_PROJECTION, /* from attention back into the residual stream */
    LS__PART_MLP,
    LS__PART_HEAD,
    LS__PART_CROSS_ENTROPY,
    LS__PART_EXACT_ADD,
    LS__PART_OPTIMIZER,
    LS__PART_DIGEST,
    LS__PART_COUNT
} ls__part;

typedef enum ls__pass { LS__FORWARD, LS__BACKWARD, LS__PASS_COUNT } ls__pass;

typedef struct ls__profile_clock {
    double seconds[LS__PASS_COUNT][LS__PART_COUNT];
    double gemm[LS__PART_COUNT]; /* of those, in matrix products of the library */
    ls__pass pass;               /* whoever runs the step sets it */
    ls__part part;
    double since;
} ls__profile_clock;

extern ls__profile_clock *ls__profile; /* NULL: nobody measures */

/* For marks, where somebody measures. */
void ls__profile_enter(ls__part part);
void ls__profile_product(double began); /* a matrix product that began then has ended */

/* From here on time belongs to `part`. */
static inline void ls__profile_mark(ls__part part)
{
    if (ls__profile)
        ls__profile_enter(part);
}

#endif
