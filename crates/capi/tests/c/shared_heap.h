/* Helpers of the tests of shared heaps. */
#ifndef SHARED_HEAP_H
#define SHARED_HEAP_H

#include "segment.h"

#include <heapwright.h>

#include <string.h>

/* The segment under test. */
static const char *name;

#define SAYS(words) (strstr(hw_shared_last_error(), words) != NULL)

static inline hw_shared_settings settings_of(unsigned policy) {
    hw_shared_settings settings;
    memset(&settings, 0, sizeof settings);
    settings.policy = policy;
    settings.size = 64 << 10;
    return settings;
}

static inline hw_shared *created(const hw_shared_settings *settings) {
    hw_shared *heap = NULL;
    CHECK(hw_shared_create(name, settings, &heap) == HW_OK && heap != NULL);
    return heap;
}

static inline void removed(hw_shared *heap) {
    CHECK(hw_shared_check(heap, NULL) == HW_OK);
    CHECK(hw_shared_close(heap) == HW_OK);
    CHECK(hw_shared_unlink(name) == HW_OK);
}

#endif
