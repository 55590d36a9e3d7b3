/* A small dataset, of either kind: the attribute `kind`, the first of the list, says which. And
 * all that is done with a dataset once a path is given. */
#ifndef LS_TESTS_FUZZ_DATASET_LIST_H
#define LS_TESTS_FUZZ_DATASET_LIST_H

#include "fuzz/hdf5_maker.h"

enum { LS__DATASET_OBJECTS = 14 };

extern const ls__made ls__text_list[LS__DATASET_OBJECTS];
extern const ls__made ls__images_list[LS__DATASET_OBJECTS];

/* Opens and loads it, takes its digest, its first and last window or image. */
void ls__use_dataset(const char *path);

#endif
