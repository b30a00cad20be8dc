/* sbmem.h - a buddy heap in one segment that up to ten processes share, with the names of a well-known exercise. Part
 * of Heapwright:
 *
 *     cargo build --release -p heapwright-capi
 *     cc -std=c11 program.c -I crates/capi/include target/release/libheapwright_c.a -o program
 *
 * All metadata lies in the segment, and none in front of blocks. Each process maps the segment at an address of its
 * own: a block's address is not valid in another process. Any thread of any process may call any function at any time.
 * A process that is killed, at any moment, does not block the others.
 *
 * Only the user has access to the segment (mode 0600). Its name is heapwright-sbmem-N, where N is the number of the
 * effective user, unless the environment variable HEAPWRIGHT_SBMEM holds another name, or a path, which must be the
 * same in all processes.
 */
#ifndef SBMEM_H
#define SBMEM_H

#ifdef __cplusplus
extern "C" {
#endif

/* Creates the segment with `segment_size` bytes for blocks, a power of two from 32 KiB to 256 KiB. Returns 0, or -1
 * for another size or when the system refuses. Replaces an existing segment: processes that have it open keep it,
 * and sbmem_open opens the new one. */
int sbmem_init(int segment_size);

/* Removes the segment. Returns 0, or -1 when there is none. Processes that have it open keep it; no other can open
 * it. */
int sbmem_remove(void);

/* Opens the segment for this process. Returns 0, or -1 when there is none or ten living processes use it already. A
 * process that has one open keeps that one, and gets 0. The child of a fork counts as a process of its own. */
int sbmem_open(void);

/* Allocates a block of at least `size` bytes, from 128 to 4096. Returns null for any other size, when no hole fits,
 * or when the process has not opened the segment. Blocks are as long as the next power of two, and aligned to 128
 * bytes. */
void *sbmem_alloc(int size);

/* Frees a block that any process has allocated. Null, and an address at which no used block starts, are ignored. */
void sbmem_free(void *block);

/* Closes the segment, whose blocks stay; their addresses become invalid. Returns 0, or -1 when it is not open. */
int sbmem_close(void);

#ifdef __cplusplus
}
#endif

#endif
