#include "comm/policy.h"

/*      all ranks on one node      direct      two waits in all, and no link that is shared
 *      several on each            hier        the network carries a node's sum once
 *      one on each: long          ring-seg    every link always busy
 *                   short         halving     few rounds, and blocks too short for segments
 */
const ls_algorithm *ls__choose_algorithm(ls_layout layout, int64_t bytes)
{
    if (layout.per_node == layout.ranks)
        return &ls_algorithm_direct;
    if (layout.per_node > 1)
        return &ls_algorithm_hier;
    if (bytes / layout.ranks >= ls_algorithm_ring_seg.reduce->segment)
        return &ls_algorithm_ring_seg;
    return &ls_algorithm_halving;
}
