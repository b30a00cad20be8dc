/* sbmem.h - buddies in one segment that up to ten processes share, with the names of a well-known exercise. Made by
 * Heapwright:
 *
 *     cargo build --release -p heapwright-capi
 *     cc -std=c11 program.c -I crates/capi/include target/release/libheapwright_c.a -o program
 *
 * All book-keeping is in the segment, none of it in front of blocks, and every process maps it where it likes: a block's
 * address means nothing in another process. All functions may be called by any thread of any process at any time. Whoever is
 * killed, at whatever moment, is no obstacle to the others.
 *
 * The segment belongs to the user alone (mode 0600). It is called heapwright-sbmem-N, N being the number of the effective
 * user, unless the environment variable HEAPWRIGHT_SBMEM holds another name, or a path; all processes must agree on it.
 */
#ifndef SBMEM_H
#define SBMEM_H

#ifdef __cplusplus
extern "C" {
#endif

/* Makes the segment with `segment_size` bytes for blocks, a power of two from 32 KiB to 256 KiB: 0, or -1 when it is no such
 * size or the system refuses. Replaces a segment that there is: who has that one open keeps it, who opens gets the new one. */
int sbmem_init(int segment_size);

/* Removes the segment: 0, or -1 when there is none. Who has it open keeps it; nobody can open it any more. */
int sbmem_remove(void);

/* Lets this process use the segment: 0, or -1 when there is none or ten processes use it already, of those that live. A
 * process that has one open keeps that: 0. The child of a fork counts for itself. */
int sbmem_open(void);

/* A block of at least `size` bytes, from 128 to 4096; null for any other size, when nothing fits, or when the process has not
 * opened the segment. Blocks are as long as the next power of two, and aligned to 128 bytes. */
void *sbmem_alloc(int size);

/* Frees a block; null, what is no block and what is free already are ignored. Any process may free what any has allocated. */
void sbmem_free(void *block);

/* Lets go of the segment, whose blocks stay; their addresses mean nothing any more. 0, or -1 when it is not open. */
int sbmem_close(void);

#ifdef __cplusplus
}
#endif

#endif
