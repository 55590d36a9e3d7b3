#include "plan/device.h"

#include <string.h>

static const ls__plan_device devices[] = {
    {"v100-32g", 32e9, {15.7e12, 0, 125e12}, 150e9},
    {"a100-40g", 40e9, {19.5e12, 312e12, 312e12}, 300e9},
    {"a100-80g", 80e9, {19.5e12, 312e12, 312e12}, 300e9},
    {"h100-80g", 80e9, {67e12, 989.4e12, 989.4e12}, 450e9},
    {"h200-141g", 141e9, {67e12, 989.4e12, 989.4e12}, 450e9},
    {"mi300x-192g", 192e9, {163.4e12, 1307.4e12, 1307.4e12}, 448e9},
};

ls_status ls__plan_device_find(const char *name, ls__plan_device *device)
{
    for (size_t i = 0; i < sizeof devices / sizeof devices[0]; i++)
        if (strcmp(devices[i].name, name) == 0) {
            *device = devices[i];
            return LS_OK;
        }
    return LS_FAIL(LS_BAD_USAGE,
                   "--device: no device is called '%.200s': choose from v100-32g, a100-40g, "
                   "a100-80g, h100-80g, h200-141g, mi300x-192g",
                   name);
}
