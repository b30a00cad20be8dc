/* mavalloc.h - one region under one of four fits, with the names of a well-known exercise. Part of Heapwright:
 *
 *     cargo build --release -p heapwright-capi
 *     cc -std=c11 program.c -I crates/capi/include target/release/libheapwright_c.a -o program
 *
 * The region is mapped memory that holds nothing but blocks. Sizes are rounded up to 4 bytes, and blocks are aligned to
 * 4 bytes. The remainder of a hole is split off, and free neighbours merge at once: a request for the whole region
 * succeeds. Several threads may call the functions at the same time: a lock serializes them.
 */
#ifndef MAVALLOC_H
#define MAVALLOC_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum ALGORITHM { BEST_FIT, FIRST_FIT, WORST_FIT, NEXT_FIT };

/* Creates the region; destroys the one that exists first. Returns 0, or -1 when `size` is 0, the system refuses the
 * memory, or `algorithm` is not one of the four. */
int mavalloc_init(size_t size, enum ALGORITHM algorithm);

/* Gives the region's memory back to the system. Does nothing without a region. */
void mavalloc_destroy(void);

/* Allocates a block of at least `size` bytes (0 counts as 1). Returns null when no hole fits or there is no region. */
void *mavalloc_alloc(size_t size);

/* Frees a block. Null, and an address at which no used block starts, are ignored. */
void mavalloc_free(void *block);

/* Returns the number of blocks, used and free; 0 without a region. */
int mavalloc_size(void);

#ifdef __cplusplus
}
#endif

#endif
