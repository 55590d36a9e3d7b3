#include "comm/shape.h"

#include <assert.h>
#include <string.h>

/*      count 11, blocks 4        | 0 1 2 | 3 4 5 | 6 7 8 | 9 10 |
 *      count  2, blocks 4        | 0 | 1 | | |                                                  */
ls_range ls_block(int64_t count, int64_t blocks, int64_t index)
{
    assert(count >= 0 && 0 <= index && index < blocks);
    int64_t size = count / blocks;
    int64_t larger = count % blocks; /* the first `larger` blocks have one more */

    return (ls_range){
        .offset = index * size + (index < larger ? index : larger),
        .count = size + (index < larger),
    };
}

ls_range ls_span_range(int64_t count, int64_t blocks, ls_span span)
{
    if (span.count == 0)
        return (ls_range){0};
    ls_range first = ls_block(count, blocks, span.first);
    ls_range last = ls_block(count, blocks, span.first + span.count - 1);

    return (ls_range){
        .offset = first.offset,
        .count = last.offset + last.count - first.offset,
    };
}

int64_t ls_schedule_sent_bytes(const ls_schedule *schedule, ls_layout layout, int rank,
                               int64_t count, int64_t element_size)
{
    int64_t rounds = schedule->rounds(layout);
    int64_t blocks = schedule->blocks(layout);
    int64_t elements = 0;

    for (int64_t i = 0; i < rounds; i++)
        elements += ls_span_range(count, blocks, schedule->round(layout, rank, i).send).count;
    return elements * element_size;
}

int64_t ls__one(ls_layout layout)
{
    (void)layout;
    return 1;
}

int64_t ls__one_per_rank(ls_layout layout)
{
    return layout.ranks;
}

int64_t ls__one_per_peer(ls_layout layout)
{
    return layout.ranks - 1;
}

ls_span ls__own_block(ls_layout layout, int rank)
{
    (void)layout;
    return (ls_span){rank, 1};
}

ls_span ls__all_at_rank_0(ls_layout layout, int rank)
{
    (void)layout;
    return (ls_span){0, rank == 0};
}

static const ls_algorithm *const algorithms[] = {
    &ls_algorithm_ring, &ls_algorithm_ring_seg, &ls_algorithm_direct, &ls_algorithm_halving,
    &ls_algorithm_hier, &ls_algorithm_tree,     &ls_algorithm_naive,  &ls_algorithm_mpi,
};

static_assert(sizeof algorithms / sizeof algorithms[0] == LS_ALGORITHM_COUNT,
              "LS_ALGORITHM_NAMES, LS_ALGORITHM_COUNT and this table go together");

/* No schedules: the transport's all_reduce does it all. */
const ls_algorithm ls_algorithm_mpi = {.name = "mpi"};

const ls_algorithm *ls_algorithm_at(int index)
{
    assert(0 <= index && index < LS_ALGORITHM_COUNT);
    return algorithms[index];
}

const ls_algorithm *ls_algorithm_find(const char *name)
{
    for (int i = 0; i < LS_ALGORITHM_COUNT; i++)
        if (strcmp(algorithms[i]->name, name) == 0)
            return algorithms[i];
    return NULL;
}

ls_range ls_algorithm_owned(const ls_algorithm *algorithm, ls_layout layout, int rank,
                            int64_t count)
{
    return ls_span_range(count, algorithm->reduce->blocks(layout), algorithm->owned(layout, rank));
}
