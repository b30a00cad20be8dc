/* Prints what the header says about its types and numbers, a line each, for the test to hold against the library's. */
#include <heapwright.h>

#include <stdio.h>

#define SIZE(type) printf("%s %zu\n", #type, sizeof(type))
#define FIELD(type, field) printf("%s.%s %zu\n", #type, #field, offsetof(type, field))
#define NUMBER(name) printf("%s %d\n", #name, (int)(name))

int main(void) {
    SIZE(hw_options);
    FIELD(hw_options, granule);
    FIELD(hw_options, header);
    FIELD(hw_options, min_remainder);
    FIELD(hw_options, statistics);
    FIELD(hw_options, seed);
    FIELD(hw_options, capacity);
    SIZE(hw_block);
    FIELD(hw_block, address);
    FIELD(hw_block, size);
    FIELD(hw_block, used);
    SIZE(hw_holes);
    FIELD(hw_holes, count);
    FIELD(hw_holes, total);
    FIELD(hw_holes, smallest);
    FIELD(hw_holes, largest);
    FIELD(hw_holes, mean);
    FIELD(hw_holes, deviation);
    FIELD(hw_holes, fragmentation);
    FIELD(hw_holes, by_doubling);
    SIZE(hw_counters);
    FIELD(hw_counters, mallocs);
    FIELD(hw_counters, frees);
    FIELD(hw_counters, reuses);
    FIELD(hw_counters, grows);
    FIELD(hw_counters, splits);
    FIELD(hw_counters, coalesces);
    FIELD(hw_counters, resizes);
    FIELD(hw_counters, blocks);
    FIELD(hw_counters, holes);
    FIELD(hw_counters, requested);
    FIELD(hw_counters, rounded);
    FIELD(hw_counters, released);
    FIELD(hw_counters, unsized_frees);
    FIELD(hw_counters, live);
    FIELD(hw_counters, peak_live);
    FIELD(hw_counters, heap_size);
    FIELD(hw_counters, peak_heap_size);
    SIZE(hw_violation);
    FIELD(hw_violation, offset);
    FIELD(hw_violation, invariant);
    SIZE(hw_status);
    NUMBER(HW_OK);
    NUMBER(HW_NULL_POINTER);
    NUMBER(HW_NOT_A_HEAP);
    NUMBER(HW_UNKNOWN_POLICY);
    NUMBER(HW_BAD_OPTIONS);
    NUMBER(HW_TOO_SHORT);
    NUMBER(HW_FULL);
    NUMBER(HW_BAD_ALIGNMENT);
    NUMBER(HW_NOT_A_BLOCK);
    NUMBER(HW_ALREADY_FREE);
    NUMBER(HW_WRONG_SIZE);
    NUMBER(HW_NO_STATISTICS);
    NUMBER(HW_DAMAGED);
    NUMBER(HW_OUT_OF_MEMORY);
    NUMBER(HW_FIRST);
    NUMBER(HW_NEXT);
    NUMBER(HW_BEST);
    NUMBER(HW_WORST);
    NUMBER(HW_RANDOM);
    NUMBER(HW_BUDDY);
    NUMBER(HW_GOOD);
    return 0;
}
