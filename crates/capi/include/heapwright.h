/* heapwright.h - heaps with the placement policy of your choice, in memory of your own or growing.
 *
 *     cargo build --release -p heapwright-capi
 *     cc -std=c11 program.c -I crates/capi/include target/release/libheapwright_c.a -o program
 *
 * or, shared, `-L target/release -lheapwright_c`. Do not confuse it with libheapwright.so, which replaces malloc in the
 * programs that are linked with it or started with LD_PRELOAD: this library leaves malloc alone and has another name.
 *
 * A heap may be used by one thread at a time; different heaps by different threads at once. Blocks have no headers (unless
 * the options say so) and never move but by hw_resize. What is no heap or no block is refused and changes nothing. Two
 * things are not detected: a handle whose memory is gone, and writing past the end of a block.
 *
 * Every operation takes bounded time however many blocks and holes there are; hw_walk, hw_holes_of and hw_check take time
 * in proportion to the heap, and hw_allocate_aligned passes over the holes that are long enough but not aligned.
 */
#ifndef HEAPWRIGHT_H
#define HEAPWRIGHT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A heap. Its handle lies in the memory of a fixed heap; that of a growing one is allocated by malloc. */
typedef struct hw_heap hw_heap;

/* What became of a call. */
typedef enum hw_status {
    HW_OK = 0,
    HW_NULL_POINTER = 1,   /* a pointer that must not be null is null */
    HW_NOT_A_HEAP = 2,     /* the handle is not that of a heap, or of one that was destroyed */
    HW_UNKNOWN_POLICY = 3, /* there is no such policy */
    HW_BAD_OPTIONS = 4,    /* the options make no sense for this kind of heap */
    HW_TOO_SHORT = 5,      /* the memory is too short for a heap */
    HW_FULL = 6,           /* nothing fits, and the heap cannot grow */
    HW_BAD_ALIGNMENT = 7,  /* the alignment is not a power of two, or above 1 GiB */
    HW_NOT_A_BLOCK = 8,    /* no used block starts at the address */
    HW_ALREADY_FREE = 9,   /* the address lies in a hole */
    HW_WRONG_SIZE = 10,    /* the block is too short for the size it is said to have */
    HW_NO_STATISTICS = 11, /* the heap was made without statistics */
    HW_DAMAGED = 12,       /* the heap's own data are damaged */
    HW_OUT_OF_MEMORY = 13  /* the system refused memory or address space */
} hw_status;

/* The status in words; never null, valid for ever. */
const char *hw_status_text(int status);

/* Which hole a request gets. */
typedef enum hw_policy {
    HW_FIRST = 1,  /* the lowest that fits */
    HW_NEXT = 2,   /* the first that fits, from where the last block was placed */
    HW_BEST = 3,   /* the smallest that fits; the lowest of equals */
    HW_WORST = 4,  /* the largest, if it fits; the lowest of equals */
    HW_RANDOM = 5, /* any that fits, all equally likely, from a seeded generator */
    HW_BUDDY = 6,  /* binary buddies */
    HW_GOOD = 7    /* two-level segregated fit, in constant time */
} hw_policy;

/* The policy called "first", "next", "best", "worst", "random", "buddy" or "good"; 0 for any other name or null. */
unsigned hw_policy_from_name(const char *name);

/* The name of a policy; null when there is none of this number. */
const char *hw_policy_name(unsigned policy);

enum {
    HW_STATISTICS_KEPT = 0,
    HW_STATISTICS_OFF = 1 /* hw_counters_of is refused, and 136 bytes of metadata are saved */
};

/* What can be chosen besides the policy. All zeros is the default, and so is a null pointer. Sizes are in bytes. */
typedef struct hw_options {
    uint32_t granule;       /* the smallest unit and the least alignment: a power of two up to 4096; 0 stands for 16,
                               the only one of growing heaps */
    uint32_t header;        /* what every block loses in front: a multiple of the granule up to 4096; fixed heaps only */
    uint32_t min_remainder; /* a shorter remainder stays with the block; up to 1 MiB, fixed heaps only */
    uint32_t statistics;    /* HW_STATISTICS_... */
    uint64_t seed;          /* of random fit */
    size_t capacity;        /* address space of a growing heap; 0 stands for 1 TiB, or less where the system grants less;
                               0 for fixed heaps */
} hw_options;

/* Makes a heap in `bytes` of memory at any address, which are the heap's until it is destroyed: handle, metadata and
 * blocks are all inside. About 500 bytes are enough under every policy with small granules and without statistics, 1 KB
 * with the default options. Stores the heap in *heap, or null on failure. */
hw_status hw_create_in(void *memory, size_t bytes, unsigned policy, const hw_options *options, hw_heap **heap);

/* Makes a heap that takes memory from the system as it grows and gives whole pages back that come to lie in holes. Stores
 * it in *heap, or null on failure. */
hw_status hw_create_growing(unsigned policy, const hw_options *options, hw_heap **heap);

/* Ends a heap; its blocks are gone. The memory of a fixed heap is the caller's again. */
hw_status hw_destroy(hw_heap *heap);

/* A block of at least `size` bytes (0 is taken as 1) that is aligned to the granule; null on failure. */
void *hw_allocate(hw_heap *heap, size_t size);

/* The same at a multiple of `alignment`, a power of two up to 1 GiB. */
void *hw_allocate_aligned(hw_heap *heap, size_t size, size_t alignment);

/* The same with the reason when it fails; *block is left alone then. */
hw_status hw_try_allocate(hw_heap *heap, size_t size, size_t alignment, void **block);

/* Makes a block hold `size` bytes with its contents, where it is if that is possible, and returns where it is now: null
 * on failure, and the block is as before. A block that moves is aligned to the granule only. A null block is allocated. */
void *hw_resize(hw_heap *heap, void *block, size_t size);

/* The same for a caller who knows the size asked for before, which keeps the counters exact; *block follows the block. */
hw_status hw_try_resize(hw_heap *heap, void **block, size_t old_size, size_t size);

/* Frees a block; null is no block and freed without effect. */
hw_status hw_free(hw_heap *heap, void *block);

/* The same for a caller who knows the size asked for, which keeps the counters exact. */
hw_status hw_free_sized(hw_heap *heap, void *block, size_t size);

/* How many bytes the block has, at least as many as were asked for; 0 when no used block starts there. */
size_t hw_usable_size(const hw_heap *heap, const void *block);

/* The heap's policy; 0 when there is no heap. */
unsigned hw_policy_of(const hw_heap *heap);

/* How many bytes there can be for blocks; 0 when there is no heap. */
size_t hw_capacity(const hw_heap *heap);

/* A block as a walk shows it, header included. */
typedef struct hw_block {
    void *address;
    size_t size;
    int used; /* 1: used; 0: a hole */
} hw_block;

/* Returns 0 to go on, anything else to end the walk. */
typedef int (*hw_visitor)(const hw_block *block, void *context);

/* Shows all blocks, used and free, in address order. The visitor may allocate and free in the heap, and then may see
 * parts of it merged; it must not destroy it. */
hw_status hw_walk(const hw_heap *heap, hw_visitor visit, void *context);

/* The sizes of the holes, in bytes. */
typedef struct hw_holes {
    size_t count;
    size_t total;
    size_t smallest;
    size_t largest;
    double mean;            /* NaN without holes */
    double deviation;       /* standard deviation over the whole population; NaN without holes */
    double fragmentation;   /* 1 - largest / total; NaN without holes */
    size_t by_doubling[48]; /* entry k counts the holes from 2^k to 2^(k+1) - 1 bytes */
} hw_holes;

hw_status hw_holes_of(const hw_heap *heap, hw_holes *holes);

/* What has happened in a heap since it was made.
 * mallocs = reuses + grows; blocks = blocks at creation + grows + splits - coalesces. */
typedef struct hw_counters {
    uint64_t mallocs;        /* requests placed */
    uint64_t frees;          /* blocks freed */
    uint64_t reuses;         /* requests placed without growing */
    uint64_t grows;          /* requests for which the heap grew */
    uint64_t splits;         /* blocks cut in two */
    uint64_t coalesces;      /* merges of two free neighbours */
    uint64_t resizes;        /* blocks resized where they were */
    uint64_t blocks;         /* blocks now, used and free */
    uint64_t holes;          /* free blocks now */
    uint64_t requested;      /* bytes asked for, summed over all requests */
    uint64_t rounded;        /* the same, each request rounded up to granules */
    uint64_t released;       /* bytes asked for of the blocks freed by hw_free_sized */
    uint64_t unsized_frees;  /* blocks freed by hw_free */
    uint64_t live;           /* bytes in used blocks now */
    uint64_t peak_live;      /* the most of them */
    uint64_t heap_size;      /* bytes from the heap's base to its end now */
    uint64_t peak_heap_size; /* the most of them */
} hw_counters;

hw_status hw_counters_of(const hw_heap *heap, hw_counters *counters);

/* The first invariant that does not hold. */
typedef struct hw_violation {
    size_t offset;       /* where, in bytes from the heap's base */
    char invariant[120]; /* in a few words */
} hw_violation;

/* Verifies every invariant of the heap: HW_OK, or HW_DAMAGED and (unless `violation` is null) which one fails. */
hw_status hw_check(const hw_heap *heap, hw_violation *violation);

#ifdef __cplusplus
}
#endif

#endif
