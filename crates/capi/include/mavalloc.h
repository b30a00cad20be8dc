/* mavalloc.h - one region under one of four fits, with the names of a well-known exercise. Made by Heapwright:
 *
 *     cargo build --release -p heapwright-capi
 *     cc -std=c11 program.c -I crates/capi/include target/release/libheapwright_c.a -o program
 *
 * The region is memory of the system's and nothing but blocks is inside it. Sizes are rounded up to 4 bytes, blocks are
 * aligned to 4 bytes, whatever a block does not need is split off, and free neighbours merge at once: a request of the
 * whole region succeeds. A lock makes all of it usable by several threads.
 */
#ifndef MAVALLOC_H
#define MAVALLOC_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum ALGORITHM { BEST_FIT, FIRST_FIT, WORST_FIT, NEXT_FIT };

/* Makes the region: 0, or -1 when `size` is 0, the system refuses the memory or there is no such algorithm. A region that
 * there was is destroyed first. */
int mavalloc_init(size_t size, enum ALGORITHM algorithm);

/* Gives the region back to the system; nothing happens without one. */
void mavalloc_destroy(void);

/* A block of at least `size` bytes (0 is taken as 1); null when nothing fits or there is no region. */
void *mavalloc_alloc(size_t size);

/* Frees a block; null and what is no block are ignored. */
void mavalloc_free(void *block);

/* How many blocks there are, used and free; 0 without a region. */
int mavalloc_size(void);

#ifdef __cplusplus
}
#endif

#endif
