/* heapwright.h - heaps with the placement policy of your choice: in memory of your own, growing, or shared by
 * processes.
 *
 *     cargo build --release -p heapwright-capi
 *     cc -std=c11 program.c -I crates/capi/include target/release/libheapwright_c.a -o program
 *
 * or, shared, `-L target/release -lheapwright_c`. Do not confuse it with libheapwright.so, which replaces malloc in the
 * programs that are linked with it or started with LD_PRELOAD: this library leaves malloc alone and has another name.
 *
 * One thread at a time may use a heap; different threads may use different heaps at once. Any number of threads and
 * processes may use a shared heap. Blocks have no headers (unless the options ask for them) and move only in hw_resize.
 * An invalid handle or block is refused, and nothing changes. Two errors are not detected: a handle whose memory was
 * freed, and a write past the end of a block.
 *
 * Every operation takes bounded time, whatever the number of blocks and holes. The exceptions: hw_walk, hw_holes_of,
 * hw_trim and hw_check take time in proportion to the heap, and hw_allocate_aligned passes over holes that are long
 * enough but not aligned.
 */
#ifndef HEAPWRIGHT_H
#define HEAPWRIGHT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A heap. The handle of a fixed heap lies in the heap's memory; that of a growing heap is allocated by malloc. */
typedef struct hw_heap hw_heap;

/* The outcome of a call. */
typedef enum hw_status {
    HW_OK = 0,             /* done */
    HW_NULL_POINTER = 1,   /* a pointer that must not be null is null */
    HW_NOT_A_HEAP = 2,     /* the handle is not that of a heap, or that heap was destroyed */
    HW_UNKNOWN_POLICY = 3, /* no such policy; the policies are first, next, best, worst, random, buddy, good */
    HW_BAD_OPTIONS = 4,    /* an option or size is out of range, or does not apply to this kind of heap */
    HW_TOO_SHORT = 5,      /* the memory is too short for a heap: see hw_least_bytes and hw_metadata_bytes */
    HW_FULL = 6,           /* no hole fits the request, and the heap cannot grow enough */
    HW_BAD_ALIGNMENT = 7,  /* the alignment is not a power of two, or above 1 GiB (in shared heaps, 4096) */
    HW_NOT_A_BLOCK = 8,    /* no used block starts at the address; for a word: none lies there; for a mutex: none can */
    HW_ALREADY_FREE = 9,   /* the block is already free: the address lies in a hole */
    HW_WRONG_SIZE = 10,    /* the block is shorter than the size that was passed */
    HW_NO_STATISTICS = 11, /* the heap was made without statistics */
    HW_DAMAGED = 12,       /* the heap's metadata is damaged */
    HW_OUT_OF_MEMORY = 13, /* the system refused memory, address space or file space */
    /* Returned for shared heaps only, except HW_OVERLAP: */
    HW_BAD_NAME = 14,             /* the name is not valid for a segment */
    HW_EXISTS = 15,               /* a segment or file of this name exists already */
    HW_NOT_FOUND = 16,            /* no segment of this name exists, or no directory for it */
    HW_NOT_OURS = 17,             /* the segment belongs to a user that is not trusted */
    HW_NOT_A_SEGMENT = 18,        /* the file is not a segment of this library */
    HW_OTHER_VERSION = 19,        /* the segment was created by another version of this library */
    HW_WRONG_LENGTH = 20,         /* the segment's length differs from that in its header */
    HW_OTHER_NAMESPACE = 21,      /* the segment is of another PID namespace, and locks on its file do not work */
    HW_TOO_MANY_PROCESSES = 22,   /* the segment's process table is full */
    HW_TIMED_OUT = 23,            /* waiting for the segment's lock, or a mutex, timed out: a living process holds it */
    HW_NO_ROOM = 24,              /* the block cannot be resized to that size in place */
    HW_BEYOND_MAXIMUM = 25,       /* the size is above the maximum that the segment was created with */
    HW_BAD_ROOT_NAME = 26,        /* a root's name has 1 to 40 bytes of UTF-8, none of them NUL */
    HW_ROOTS_FULL = 27,           /* the table of roots is full */
    HW_ROOT_DIFFERS = 28,         /* the root does not point where it was expected to */
    HW_REFUSED = 29,              /* the system refused a call, or the segment's descriptor was closed: see
                                     hw_shared_last_error */
    HW_HOLDER_UNKNOWN = 30,       /* waiting for the segment's lock, or a mutex, timed out, and whether its holder lives
                                     is unknown: see hw_shared_repair */
    HW_PREVIOUS_HOLDER_DIED = 31, /* the mutex is locked; a process died while it held it: see hw_shared_lock */
    HW_NOT_THE_HOLDER = 32,       /* this process does not hold the mutex */
    HW_OVERLAP = 33,              /* the memory and the metadata of hw_create_beside overlap */
    HW_IN_USE = 34                /* live processes use the segment: see hw_shared_repair */
} hw_status;

/* Returns the status in words: never null, valid for ever. */
const char *hw_status_text(int status);

/* The placement policies: which hole a request takes. */
typedef enum hw_policy {
    HW_FIRST = 1,  /* first fit: the lowest hole that fits */
    HW_NEXT = 2,   /* next fit: the first that fits, from where the last block was placed */
    HW_BEST = 3,   /* best fit: the smallest that fits; the lowest of equals */
    HW_WORST = 4,  /* worst fit: the largest, if it fits, else the free tail; the lowest of equals */
    HW_RANDOM = 5, /* random fit: one of those that fit, all equally likely, by a seeded generator */
    HW_BUDDY = 6,  /* binary buddy */
    HW_GOOD = 7    /* good fit: two-level segregated fit (TLSF), in constant time */
} hw_policy;

/* Returns the policy of the name "first", "next", "best", "worst", "random", "buddy" or "good"; 0 for any other, or
 * null. */
unsigned hw_policy_from_name(const char *name);

/* Returns the name of a policy; null for a number that no policy has. */
const char *hw_policy_name(unsigned policy);

enum {
    HW_STATISTICS_KEPT = 0,
    HW_STATISTICS_OFF = 1 /* saves 136 bytes of metadata; hw_counters_of returns HW_NO_STATISTICS */
};

/* How a growing heap gets longer when no hole fits. */
enum {
    HW_GROWTH_STEPS = 0,  /* by what is missing behind the last hole, in whole steps */
    HW_GROWTH_EXTEND = 1, /* by exactly what is missing behind the last hole */
    HW_GROWTH_APPEND = 2  /* by exactly the block, behind the last hole */
};

/* Options besides the policy: the rules of the heap. All zeros is the default, and so is a null pointer. Sizes are in bytes.
 *
 * A heap has at most 2^36 granules, under best and good fit 2^42: with granules of 16 bytes 1 TiB and 64 TiB. A capacity
 * above that is refused with HW_BAD_OPTIONS. */
typedef struct hw_options {
    uint32_t granule;       /* the smallest unit and the least alignment: a power of two up to 4096; 0 stands for 16 */
    uint32_t header;        /* bytes before every block: a multiple of the granule up to 4096 */
    uint32_t min_remainder; /* a shorter remainder stays with the block; up to 1 MiB */
    uint32_t statistics;    /* HW_STATISTICS_... */
    uint64_t seed;          /* the seed of random fit */
    size_t capacity;        /* the most that a growing heap can grow to, rounded up to whole pages, and halved while the
                               system has no range of addresses that long: see hw_capacity; limits of the process do
                               not count it; 0 stands for 1 TiB, or 2^36 granules if that is less; 0 for fixed heaps */
    uint32_t growth;        /* HW_GROWTH_...; 0 for fixed heaps */
    uint32_t growth_step;   /* the step of HW_GROWTH_STEPS: a multiple of the granule; 0 stands for 64 KiB, and is the
                               only one without steps and for fixed heaps */
} hw_options;

/* Creates a heap in `bytes` bytes of memory at any address, which belong to the heap until it is destroyed: handle,
 * metadata and blocks all lie inside. About 500 bytes are enough under every policy with small granules and without
 * statistics, 1 KB with the default options. Memory beyond the most granules stays unused. Stores the heap in *heap, or
 * null on failure. */
hw_status hw_create_in(void *memory, size_t bytes, unsigned policy, const hw_options *options, hw_heap **heap);

/* Creates a heap of which only the blocks lie in `memory`; the handle and the metadata lie in `metadata`, at any address.
 * If the memory starts at a multiple of the granule and `bytes` is one, hw_capacity returns exactly `bytes`: 1 KiB with
 * granules of 128 bytes is a heap of eight blocks. Buddies leave out what lies before a multiple of the largest power of
 * two that is at most a sixteenth of `bytes` and at most 4096. Both ranges belong to the heap until it is destroyed.
 * Ranges that overlap are refused with HW_OVERLAP, and memory of more than the most granules with HW_BAD_OPTIONS. */
hw_status hw_create_beside(void *memory, size_t bytes, void *metadata, size_t metadata_bytes, unsigned policy,
                           const hw_options *options, hw_heap **heap);

/* Returns the bytes that hw_create_beside needs for the metadata of `bytes` bytes of memory; 0 for invalid options, and for
 * memory that is shorter than a granule or longer than the most granules. */
size_t hw_metadata_bytes(size_t bytes, unsigned policy, const hw_options *options);

/* Returns a number of bytes in which hw_create_in creates a heap of at least one granule, at an address that is a
 * multiple of the granule; 0 for invalid options. */
size_t hw_least_bytes(unsigned policy, const hw_options *options);

/* Creates a heap that takes memory from the system as it grows, and purges pages that lie in holes as a whole: it gives
 * their memory back to the system, as soon as there is more of it than hw_set_kept says. Stores the heap in *heap, or
 * null on failure. */
hw_status hw_create_growing(unsigned policy, const hw_options *options, hw_heap **heap);

enum {
    HW_ZERO_BLOCK = 0, /* a block of 1 byte */
    HW_ZERO_NULL = 1   /* null, which is no failure */
};

/* The rules for the requests of a heap. All zeros is the default, and so is a null pointer. */
typedef struct hw_requests {
    uint32_t align; /* the least alignment of blocks, if it is to be more than the granule's: a power of two up to 4096 */
    uint32_t least; /* a request for fewer bytes is one for this many */
    uint32_t zero;  /* HW_ZERO_...: what a request of 0 bytes gets */
} hw_requests;

/* Sets the rules for the requests of a fixed or growing heap from now on; blocks stay as they are. */
hw_status hw_set_requests(hw_heap *heap, const hw_requests *requests);

/* Sets how many bytes of pages that lie in holes a growing heap keeps in memory, for blocks to come: 32 MiB unless set.
 * It keeps a quarter of the bytes in use if that is more. Where purged pages are used again within 0.1 s, it keeps up
 * to the number of bytes in use for up to 1.6 s. HW_BAD_OPTIONS for a fixed heap. */
hw_status hw_set_kept(hw_heap *heap, size_t bytes);

/* Purges every page of a growing heap that lies in a hole, and returns how many bytes that were; 0 for a fixed heap and
 * an invalid handle. Later blocks lie where they would have lain without it. Takes time in proportion to the pages. */
size_t hw_trim(hw_heap *heap);

/* Destroys a heap with its blocks. The memory of a fixed heap belongs to the caller again. */
hw_status hw_destroy(hw_heap *heap);

/* Allocates a block of at least `size` bytes (0 counts as 1, unless hw_set_requests says otherwise), aligned to the
 * granule. Returns null on failure. */
void *hw_allocate(hw_heap *heap, size_t size);

/* As hw_allocate, at a multiple of `alignment`, a power of two up to 1 GiB. */
void *hw_allocate_aligned(hw_heap *heap, size_t size, size_t alignment);

/* As hw_allocate_aligned, but returns the reason of a failure, which leaves *block unchanged. A request that gets null
 * by the rule HW_ZERO_NULL is none. */
hw_status hw_try_allocate(hw_heap *heap, size_t size, size_t alignment, void **block);

/* Resizes a block to `size` bytes (0 counts as 1), in place where that is possible, and returns its address. Contents
 * are kept. On failure returns null and leaves the block unchanged. A block that moves is aligned as by hw_allocate.
 * Null as the block allocates. */
void *hw_resize(hw_heap *heap, void *block, size_t size);

/* As hw_resize, with the size requested before, which keeps the counters exact. Stores the block's address in
 * *block. */
hw_status hw_try_resize(hw_heap *heap, void **block, size_t old_size, size_t size);

/* Frees a block. Null has no effect. */
hw_status hw_free(hw_heap *heap, void *block);

/* As hw_free, with the size that was requested, which keeps the counters exact. */
hw_status hw_free_sized(hw_heap *heap, void *block, size_t size);

/* Returns the usable bytes of a block, at least those requested; 0 when no used block starts there. */
size_t hw_usable_size(const hw_heap *heap, const void *block);

/* Returns the heap's policy; 0 for an invalid handle. */
unsigned hw_policy_of(const hw_heap *heap);

/* Returns the most bytes that blocks can take; 0 for an invalid handle. For a growing heap, what `capacity` has become. */
size_t hw_capacity(const hw_heap *heap);

/* A block in a walk, header included. */
typedef struct hw_block {
    void *address;
    size_t size;
    int used; /* 1: used; 0: a hole */
} hw_block;

/* The callback of a walk. Returns 0 to continue; any other number ends the walk. */
typedef int (*hw_visitor)(const hw_block *block, void *context);

/* Calls `visit` for all blocks, used and free, in address order. The visitor may allocate and free in the heap,
 * after which blocks may appear merged or split; it must not destroy the heap. */
hw_status hw_walk(const hw_heap *heap, hw_visitor visit, void *context);

/* Statistics of the holes' sizes, in bytes. */
typedef struct hw_holes {
    size_t count;
    size_t total;
    size_t smallest;
    size_t largest;
    double mean;            /* NaN without holes */
    double deviation;       /* standard deviation (population); NaN without holes */
    double fragmentation;   /* 1 - largest / total; NaN without holes */
    size_t by_doubling[48]; /* entry k counts the holes from 2^k to 2^(k+1) - 1 bytes */
} hw_holes;

hw_status hw_holes_of(const hw_heap *heap, hw_holes *holes);

/* Counters of a heap since its creation.
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
    uint64_t requested;      /* bytes requested, summed over all requests and what resizing added */
    uint64_t rounded;        /* the same, each request rounded up to granules */
    uint64_t released;       /* bytes requested for the blocks that hw_free_sized freed */
    uint64_t unsized_frees;  /* blocks freed by hw_free */
    uint64_t live;           /* bytes in used blocks now */
    uint64_t peak_live;      /* the maximum of `live` */
    uint64_t heap_size;      /* bytes from the heap's base to its end now */
    uint64_t peak_heap_size; /* the maximum of `heap_size` */
} hw_counters;

hw_status hw_counters_of(const hw_heap *heap, hw_counters *counters);

/* The first invariant that does not hold. */
typedef struct hw_violation {
    size_t offset;       /* where, in bytes from the heap's base */
    char invariant[120]; /* in a few words */
} hw_violation;

/* Verifies every invariant of the heap. Returns HW_OK, or HW_DAMAGED and stores the violation unless `violation` is
 * null. */
hw_status hw_check(const hw_heap *heap, hw_violation *violation);

/* ---- Heaps that processes share ------------------------------------------------------------------------------------
 *
 * A shared heap lies in a segment: a POSIX shared-memory object, or a file. Each process maps it at an address of its
 * own. Data in it refers to blocks by offsets, which are the same in all processes, and is found by named roots. Any
 * thread of any process may call any function at any time, except with a handle that is being closed. A process may be
 * killed at any instruction: the next operation of another one completes or undoes what it left half done. No call
 * waits longer than its patience for one process to release the lock.
 *
 * The child of a fork may use its parent's handles, and counts as a process of its own from its first call on. One that
 * was forked in a callback under the lock must not return from it. No call is a cancellation point.
 *
 * Processes that may write to a segment are trusted as threads are. A segment that no process is attached to is
 * checked when it is opened. Sizes are in bytes. An offset of 0 is no block. On failure, results other than handles
 * stay unchanged. */
typedef struct hw_shared hw_shared;

/* Describes the last failure of this thread in a function hw_shared_*: what failed, where, and what to do next.
 * Never null; empty before the first failure; valid until this thread's next call of this function. */
const char *hw_shared_last_error(void);

/* Returns the status of the last failure of this thread in a function hw_shared_*, also in one that returns null or 0;
 * HW_OK before the first failure. */
hw_status hw_shared_last_status(void);

enum hw_small_blocks {
    HW_SMALL_PLACED = 0, /* from the policy, like all others */
    HW_SMALL_SLABS = 1   /* from slabs of the calling process, without the lock; the granule is at most 256 bytes */
};

/* Settings of a new segment. All zeros is the default, and so is a null pointer. What is out of range is refused with
 * HW_BAD_OPTIONS, memory that the system does not have with HW_OUT_OF_MEMORY. */
typedef struct hw_shared_settings {
    size_t size;        /* bytes of blocks at first; 0 stands for 1 MiB; rounded up as max_size */
    size_t max_size;    /* bytes of blocks at most, at least `size` and at most 64 TiB, rounded up to whole pages; 0: the
                           heap never grows, its size is rounded up to granules, and its parts are packed tightly */
    uint64_t seed;      /* the seed of random fit */
    uint32_t policy;    /* hw_policy; 0 stands for HW_BEST */
    uint32_t mode;      /* permission bits, whatever the umask; 0 stands for 0600 */
    uint32_t granule;   /* the smallest unit and least alignment: a power of two from 16 to 4096; 0 stands for 64 */
    uint32_t processes; /* number of processes attached at a time: up to 250; 0 stands for 64 */
    uint32_t roots;     /* number of named roots that there is room for: up to 65536; 0 stands for 32 */
    uint32_t patience;  /* the longest time a call waits for the lock, in milliseconds; 0 stands for 10 seconds */
    uint32_t small_blocks; /* hw_small_blocks: where blocks of at most 4 KiB come from */
} hw_shared_settings;

enum {
    HW_OWNER_MINE = 0,   /* segments of the effective user and of the superuser */
    HW_OWNER_USER = 1,   /* also those of one other user */
    HW_OWNER_ANYBODY = 2 /* of every user: one that can write to a segment controls what its processes find in it */
};

/* Settings for opening a segment. All zeros is the default, and so is a null pointer. */
typedef struct hw_shared_access {
    uint32_t patience; /* as in hw_shared_settings */
    uint32_t owner;    /* the owners whose segments are opened: HW_OWNER_... */
    uint32_t user;     /* with HW_OWNER_USER, the user's number */
} hw_shared_access;

/* Creates a segment and attaches to it. A name without a slash, or with a leading one only, names a shared-memory
 * object; any other is a file's path. The segment gets its name when it is complete, and its memory is allocated at
 * once. Stores the heap in *heap, or null on failure. Returns HW_EXISTS when the name is taken. */
hw_status hw_shared_create(const char *name, const hw_shared_settings *settings, hw_shared **heap);

/* Attaches to an existing segment. */
hw_status hw_shared_open(const char *name, const hw_shared_access *access, hw_shared **heap);

/* Attaches to the segment, and creates it if it does not exist. */
hw_status hw_shared_open_or_create(const char *name, const hw_shared_settings *settings, hw_shared **heap);

/* Detaches from the segment, whose blocks stay. No other thread may use the handle, which is invalid even after a
 * failure. */
hw_status hw_shared_close(hw_shared *heap);

/* Removes the segment's name. Attached processes keep the segment; no other process can open it. Returns
 * HW_NOT_A_SEGMENT, and removes nothing, for a file that does not begin like a segment; a file that cannot be read is
 * not removed either. */
hw_status hw_shared_unlink(const char *name);

enum {
    HW_STRANGERS_RESPECT = 0, /* a segment of whose processes it is unknown whether they live is refused */
    HW_STRANGERS_DISPLACE = 1 /* it is taken over; the caller ensures that no process uses it there */
};

/* Repairs a segment that is refused as damaged, or as one of another PID namespace. Records of blocks are kept if
 * they are consistent; the contents of blocks are not read. Does not attach to the segment. A segment that a live
 * process uses is refused with HW_IN_USE: processes that use a segment keep it in order themselves. (HW_TIMED_OUT where
 * one holds the lock for as long as hw_shared_access has patience, because it is stopped.) Where it is unknown
 * which processes live, attached ones count as alive, unless `strangers` is HW_STRANGERS_DISPLACE. */
hw_status hw_shared_repair(const char *name, const hw_shared_access *access, unsigned strangers);

/* By address in this process: as hw_allocate, hw_allocate_aligned and hw_try_allocate. Alignments are up to 4096; in a
 * heap of buddies that cannot grow, only those up to 64 and up to the granule are certain. A heap that may grow does so
 * when no hole fits the request. */
void *hw_shared_allocate(hw_shared *heap, size_t size);
void *hw_shared_allocate_aligned(hw_shared *heap, size_t size, size_t alignment);
hw_status hw_shared_try_allocate(hw_shared *heap, size_t size, size_t alignment, void **block);

/* As hw_resize, hw_free and hw_usable_size. While a block is resized, no other thread of any process frees or resizes
 * it, or writes to it. A process that is killed while a block moves may leave it at both addresses. */
void *hw_shared_resize(hw_shared *heap, void *block, size_t size);
hw_status hw_shared_try_resize(hw_shared *heap, void **block, size_t size);
hw_status hw_shared_free(hw_shared *heap, void *block);
size_t hw_shared_usable_size(const hw_shared *heap, const void *block);

/* The same by offset. */
hw_status hw_shared_allocate_offset(hw_shared *heap, size_t size, size_t alignment, uint64_t *offset);
hw_status hw_shared_resize_offset(hw_shared *heap, uint64_t *offset, size_t size);
hw_status hw_shared_free_offset(hw_shared *heap, uint64_t offset);
size_t hw_shared_usable_size_offset(const hw_shared *heap, uint64_t offset);

/* Resizes a block to `size` bytes in place, or fails with HW_NO_ROOM. */
hw_status hw_shared_resize_in_place(hw_shared *heap, uint64_t offset, size_t size);

/* Blocks that a word of the segment shows. The word is eight bytes of another used block, aligned to eight, and contains
 * the offset of a block or 0. The word changes in the same step as the heap: wherever the process is killed, the
 * survivors find both done or neither, and nothing leaks. Processes change the word only by these calls, and no thread
 * frees or resizes the block in which it lies meanwhile; they may read it at any time, atomically. The callbacks run
 * under the heap's lock: they should be short and must not use the heap, but for hw_shared_pointer_of. Where there is
 * no such word, all return HW_NOT_A_BLOCK. `offset` may be null. */

/* Fills a new block before the word shows it. `old` is what the word contained: the next node of a list, for example. */
typedef void (*hw_shared_filler)(void *block, uint64_t old, void *context);

/* Allocates `size` bytes, has `fill` fill them (null: leaves them as they are) and stores the offset in the word. */
hw_status hw_shared_allocate_into(hw_shared *heap, uint64_t word, size_t size, hw_shared_filler fill, void *context,
                                  uint64_t *offset);

/* Resizes the block that the word shows; it may move, and the word follows it. Contents are copied under the lock;
 * meanwhile, no other thread of any process frees or resizes the block, or writes to it. */
hw_status hw_shared_resize_into(hw_shared *heap, uint64_t word, size_t size, uint64_t *offset);

/* Returns what a word will contain that showed a block which is about to be freed: the link to the next, or 0. */
typedef uint64_t (*hw_shared_successor)(const void *block, void *context);

/* Frees the block that the word shows and stores what `next` returns (null: 0) in the word. `offset` gets where the
 * block was; 0, and nothing happens, when the word contains 0. */
hw_status hw_shared_free_from(hw_shared *heap, uint64_t word, hw_shared_successor next, void *context,
                              uint64_t *offset);

/* Convert an offset to an address in this process, and back. Null and 0 stand for each other, and are returned for
 * what lies outside of the blocks, of a heap that has grown to its maximum. Neither checks whether a block starts there,
 * or whether the heap has grown that far. No lock is taken. */
void *hw_shared_pointer_of(const hw_shared *heap, uint64_t offset);
uint64_t hw_shared_offset_of(const hw_shared *heap, const void *pointer);

/* Returns the address of the segment's first byte in this process; null for an invalid handle. */
void *hw_shared_base(const hw_shared *heap);

/* A mutex for data of your own, in a block of the heap. All zeros is a free mutex: set it to zeros when the block is
 * new. What lies behind the heap's end is refused with HW_NOT_A_BLOCK; whether a block lies there is not checked. It is
 * not reentrant. A thread that ends while it holds a mutex, in a process that lives on, keeps it. */
typedef struct hw_shared_mutex {
    uint64_t word;
    uint64_t doubtful;
} hw_shared_mutex;

/* Locks a mutex. Returns HW_OK or HW_PREVIOUS_HOLDER_DIED when it is locked. In the second case a process died while it
 * held the mutex, and the data may be half changed: later callers get the same status until a holder calls
 * hw_shared_mark_consistent. Any other status is a failure: HW_TIMED_OUT when one holder, which lives, has not unlocked
 * it within the handle's patience, HW_HOLDER_UNKNOWN when that holder may live, but has replaced its program, say. */
hw_status hw_shared_lock(hw_shared *heap, hw_shared_mutex *mutex);

/* Unlocks a mutex that this thread has locked. Returns HW_NOT_THE_HOLDER when this process has not locked it. */
hw_status hw_shared_unlock(hw_shared *heap, hw_shared_mutex *mutex);

/* Declares the data of a mutex, which this thread holds, consistent. */
hw_status hw_shared_mark_consistent(hw_shared *heap, hw_shared_mutex *mutex);

/* Roots are names for blocks. A name has 1 to 40 bytes of UTF-8. The offset of a root that is not set is 0. */
hw_status hw_shared_get_root(const hw_shared *heap, const char *name, uint64_t *offset);

/* Points the root at a block. Stores the offset that it pointed at before in *old, unless `old` is null. This process
 * owns the block there from then on, as after hw_shared_adopt: it is not reclaimed before it can be freed. So it is with
 * the two functions below. */
hw_status hw_shared_set_root(hw_shared *heap, const char *name, uint64_t offset, uint64_t *old);

/* Points the root at `offset` (0: removes it) if it points at `expected` (0: not set), else fails with
 * HW_ROOT_DIFFERS. */
hw_status hw_shared_replace_root(hw_shared *heap, const char *name, uint64_t expected, uint64_t offset);

/* Removes the root, but not its block. Stores the offset that it pointed at in *old, unless `old` is null. */
hw_status hw_shared_remove_root(hw_shared *heap, const char *name, uint64_t *old);

/* A root in a walk. */
typedef struct hw_shared_root {
    uint64_t offset;
    char name[48];
} hw_shared_root;

/* A walk of roots, processes or blocks left behind shows those when the walk began: the visitor may call any function
 * but hw_shared_close. It returns 0 to continue; any other number ends the walk. */
hw_status hw_shared_walk_roots(const hw_shared *heap, int (*visit)(const hw_shared_root *root, void *context),
                               void *context);

/* Grows the heap to at least `bytes` bytes of blocks. Allocations grow it as needed; this takes the memory in
 * advance. A heap whose file descriptor the program closed cannot grow: HW_REFUSED. */
hw_status hw_shared_grow(hw_shared *heap, size_t bytes);

/* Return the bytes of blocks now, used and free, and at most; the granule; the bytes of the segment at its maximum
 * length that are not for blocks; and the policy. 0 on failure. */
size_t hw_shared_size(const hw_shared *heap);
size_t hw_shared_max_size(const hw_shared *heap);
size_t hw_shared_granule(const hw_shared *heap);
size_t hw_shared_overhead(const hw_shared *heap);
unsigned hw_shared_policy_of(const hw_shared *heap);

enum {
    HW_ATTACHED = 1, /* the process lives and has the segment open */
    HW_CLOSED = 2,   /* it has closed the segment */
    HW_DEAD = 3      /* it died with the segment open */
};

/* A block in a walk. */
typedef struct hw_shared_block {
    uint64_t offset;
    void *address;  /* in this process */
    size_t size;
    uint32_t used;  /* 1: used; 0: a hole */
    uint32_t pid;   /* the process that allocated it; 0 for a hole, and when it is no longer known */
    uint32_t state; /* HW_ATTACHED, HW_CLOSED or HW_DEAD; 0 for a hole */
} hw_shared_block;

typedef int (*hw_shared_visitor)(const hw_shared_block *block, void *context);

/* Calls `visit` for all blocks, used and free, in the order of their offsets. The lock is held for a bounded number of
 * blocks at a time, and not during the calls: the visitor may call any function but hw_shared_close, and other threads
 * and processes go on. A block that is there during the whole walk, and keeps its size, is visited once. One that is
 * allocated, freed or resized meanwhile is visited or not, as it was at some moment. No two visited blocks overlap. */
hw_status hw_shared_walk(const hw_shared *heap, hw_shared_visitor visit, void *context);

/* As hw_holes_of: the holes of the policy, without free blocks in slabs. */
hw_status hw_shared_holes_of(const hw_shared *heap, hw_holes *holes);

/* As hw_counters_of. An operation that the death of its process cut short may be counted or not. `mallocs` and `frees` count
 * all blocks. In a heap with HW_SMALL_SLABS, the other counters are about what the policy placed, with each slab as one block
 * of 32 KiB: `mallocs = reuses + grows` does not hold there, and `live` contains the free blocks of slabs. */
hw_status hw_shared_counters_of(const hw_shared *heap, hw_counters *counters);

/* As hw_check; a root that points at no block is a violation, too. The violation's offset is from the segment's first
 * byte. */
hw_status hw_shared_check(const hw_shared *heap, hw_violation *violation);

/* A process that is attached, or whose blocks are left. One that opened the segment several times appears once for
 * each. */
typedef struct hw_shared_process {
    uint32_t pid;   /* 0 for processes whose entries in the process table were reused */
    uint32_t state; /* HW_ATTACHED, HW_CLOSED or HW_DEAD */
    uint64_t blocks;
    uint64_t bytes;
} hw_shared_process;

hw_status hw_shared_walk_processes(const hw_shared *heap,
                                   int (*visit)(const hw_shared_process *process, void *context), void *context);

/* Calls `visit` for the blocks of processes that died. */
hw_status hw_shared_walk_left_behind(const hw_shared *heap, hw_shared_visitor visit, void *context);

/* Makes this process the owner of a block, which is not reclaimed while this process lives. */
hw_status hw_shared_adopt(hw_shared *heap, uint64_t offset);

enum {
    HW_RECLAIM_DEAD = 0,           /* blocks of processes that died */
    HW_RECLAIM_DEAD_AND_CLOSED = 1 /* also of those that closed the segment */
};

/* The result of hw_shared_reclaim. */
typedef struct hw_shared_reclaimed {
    uint64_t blocks; /* number of blocks freed */
    uint64_t bytes;  /* bytes in them */
    uint64_t kept;   /* number of blocks kept because a root points at them */
} hw_shared_reclaimed;

/* Frees the blocks of processes that are not attached any more, except blocks that a root points at. No process may free
 * or adopt such a block meanwhile: it may have been reclaimed before, and be another one. Blocks that are reachable only
 * from other blocks are freed too: adopt them first. `reclaimed` may be null. */
hw_status hw_shared_reclaim(hw_shared *heap, unsigned whose, hw_shared_reclaimed *reclaimed);

/* Reports to the library an offset that a block contains. */
typedef void (*hw_shared_reporter)(uint64_t offset, void *library);

/* Calls `report` for each offset that the block contains; any number that is no offset of a block is ignored. */
typedef void (*hw_shared_tracer)(const void *block, size_t size, hw_shared_reporter report, void *library,
                                 void *context);

/* As hw_shared_reclaim, but keeps every block that a root leads to: `trace` is called once for each of these, under the
 * heap's lock, and must not use the heap. Links that processes store themselves must not change meanwhile. Blocks of
 * attached processes are kept. */
hw_status hw_shared_reclaim_unreachable(hw_shared *heap, unsigned whose, hw_shared_tracer trace, void *context,
                                        hw_shared_reclaimed *reclaimed);

/* Counts the recoveries: how often a process repaired the heap after another one had died in an operation. */
hw_status hw_shared_recoveries(const hw_shared *heap, uint64_t *recoveries);

#ifdef __cplusplus
}
#endif

#endif
