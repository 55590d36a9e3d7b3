/* Devices that people train on, as their makers describe them.
 *
 * Memory is the data sheet's, in units of 1e9 bytes: what a driver leaves free is less. Peaks are
 * of dense matrix products (data sheets often print twice that, for 2:4 sparsity), f32 without
 * TF32. Links count one direction: NVLink's "600 GB/s" and "900 GB/s" are the sum of both, so 300
 * and 450 here.
 *
 * Sources: NVIDIA's data sheets "V100 Tensor Core GPU" (2020), "A100 Tensor Core GPU" (2021, SXM),
 * "H100 Tensor Core GPU" (2023, SXM), "H200 Tensor Core GPU" (2024, SXM); AMD's "Instinct MI300X"
 * (2023), whose Infinity Fabric gives 64 GB/s to each of 7 peers. */
#ifndef LS_PLAN_DEVICE_H
#define LS_PLAN_DEVICE_H

#include "lockstep/status.h"
#include "plan/format.h"

typedef struct ls__plan_device {
    const char *name;
    double memory;  /* bytes */
    double peak[3]; /* FLOP/s, by ls__plan_format; 0: the device does not have the format */
    double link;    /* bytes a second to the other devices of its node */
} ls__plan_device;

/* LS_BAD_USAGE, naming those that are known, for an unknown one. */
ls_status ls__plan_device_find(const char *name, ls__plan_device *device);

#endif
