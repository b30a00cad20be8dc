/* heapwright.h - heaps with the placement policy of your choice: in memory of your own, growing, or shared by processes.
 *
 *     cargo build --release -p heapwright-capi
 *     cc -std=c11 program.c -I crates/capi/include target/release/libheapwright_c.a -o program
 *
 * or, shared, `-L target/release -lheapwright_c`. Do not confuse it with libheapwright.so, which replaces malloc in the
 * programs that are linked with it or started with LD_PRELOAD: this library leaves malloc alone and has another name.
 *
 * A heap may be used by one thread at a time, different heaps by different threads at once; shared heaps by any number of
 * threads and processes. Blocks have no headers (unless the options say so) and never move but by hw_resize. What is no heap
 * or no block is refused and changes nothing. Two things are not detected: a handle whose memory is gone, and writing past
 * the end of a block.
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
    HW_BAD_ALIGNMENT = 7,  /* the alignment is not a power of two, or above 1 GiB (in shared heaps, 4096) */
    HW_NOT_A_BLOCK = 8,    /* no used block starts at the address */
    HW_ALREADY_FREE = 9,   /* the address lies in a hole */
    HW_WRONG_SIZE = 10,    /* the block is too short for the size it is said to have */
    HW_NO_STATISTICS = 11, /* the heap was made without statistics */
    HW_DAMAGED = 12,       /* the heap's own data are damaged */
    HW_OUT_OF_MEMORY = 13, /* the system refused memory, address space or file space */
    /* Of shared heaps only: */
    HW_BAD_NAME = 14,           /* the name cannot be that of a segment */
    HW_EXISTS = 15,             /* something of this name is there already */
    HW_NOT_FOUND = 16,          /* nothing of this name is there */
    HW_NOT_OURS = 17,           /* the segment belongs to a user who is not trusted */
    HW_NOT_A_SEGMENT = 18,      /* what lies there is not a segment of this library */
    HW_OTHER_VERSION = 19,      /* the segment was made by another version of this library */
    HW_WRONG_LENGTH = 20,       /* the segment is not as long as it was made */
    HW_OTHER_NAMESPACE = 21,    /* the segment was made in another namespace of processes */
    HW_TOO_MANY_PROCESSES = 22, /* as many processes are attached as the segment has room for */
    HW_TIMED_OUT = 23,          /* the segment's lock was not free in time: a living process holds it */
    HW_NO_ROOM = 24,            /* the block cannot become that long where it is */
    HW_BEYOND_MAXIMUM = 25,     /* the segment was not made to become that long */
    HW_BAD_ROOT_NAME = 26,      /* a root's name has 1 to 40 bytes of UTF-8 */
    HW_ROOTS_FULL = 27,         /* all roots are set */
    HW_ROOT_DIFFERS = 28,       /* the root is not what was expected */
    HW_REFUSED = 29             /* the system refused a call; hw_shared_last_error says why */
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

/* ---- Heaps that processes share ------------------------------------------------------------------------------------
 *
 * A shared heap lies in a segment: a POSIX shared-memory object, or a file. Every process maps it where it likes; what lies
 * in it refers to other blocks by offsets, which mean the same in all of them, and is found by named roots. Any thread of any
 * process may do anything at any time, but use a handle that is being closed. A process may be killed at any instruction:
 * whoever comes next completes or undoes what was half done. No call waits for a living process longer than its patience.
 *
 * The child of a fork may use its parent's handles and counts as a process of its own from its first call on.
 *
 * Processes that may write to a segment are trusted like threads; a segment that nobody uses is examined before it is
 * believed. Sizes are in bytes. An offset of 0 is no block. Results that are not handles are left alone on failure. */
typedef struct hw_shared hw_shared;

/* What went wrong in this thread's last call of hw_shared_* that failed, in words: what, where and what to do next. Never
 * null; empty before the first failure; valid until this thread asks again. */
const char *hw_shared_last_error(void);

/* What is decided when a segment is made. All zeros is the default, and so is a null pointer. */
typedef struct hw_shared_settings {
    size_t size;        /* blocks at first; 0 stands for 1 MiB; rounded up to granules, or to pages if it may grow */
    size_t max_size;    /* blocks at most; 0: the heap never grows, and its parts are packed tightly */
    uint64_t seed;      /* of random fit */
    uint32_t policy;    /* hw_policy; 0 stands for HW_BEST */
    uint32_t mode;      /* permission bits, whatever the umask; 0 stands for 0600 */
    uint32_t granule;   /* the smallest unit and least alignment: a power of two from 16 to 4096; 0 stands for 64 */
    uint32_t processes; /* how many may be attached at a time: up to 250; 0 stands for 64 */
    uint32_t roots;     /* how many named roots there is room for: up to 65536; 0 stands for 32 */
    uint32_t patience;  /* how long a call waits for the lock, in milliseconds; 0 stands for 10 seconds */
} hw_shared_settings;

enum {
    HW_OWNER_MINE = 0,   /* the effective user's segments and the superuser's */
    HW_OWNER_USER = 1,   /* also those of one user more */
    HW_OWNER_ANYBODY = 2 /* anybody's: who can write to a segment can make its users read and write anything in it */
};

/* How a segment is opened. All zeros is the default, and so is a null pointer. */
typedef struct hw_shared_access {
    uint32_t patience; /* as in hw_shared_settings */
    uint32_t owner;    /* whose segments are opened: HW_OWNER_... */
    uint32_t user;     /* with HW_OWNER_USER, the user's number */
} hw_shared_access;

/* Makes a segment and attaches to it. A name without a slash, or with a leading one only, is that of a shared-memory object;
 * any other is a file's path. It appears under its name when all of it is there, and its memory is taken at once. Stores the
 * heap in *heap, or null on failure; HW_EXISTS when the name is taken. */
hw_status hw_shared_create(const char *name, const hw_shared_settings *settings, hw_shared **heap);

/* Attaches to a segment that is there. */
hw_status hw_shared_open(const char *name, const hw_shared_access *access, hw_shared **heap);

/* Attaches to the segment, or makes it if it is not there. */
hw_status hw_shared_open_or_create(const char *name, const hw_shared_settings *settings, hw_shared **heap);

/* Leaves the segment, whose blocks stay; no other thread may be using the handle, which is gone even on failure. */
hw_status hw_shared_close(hw_shared *heap);

/* Removes the segment's name. Those who are attached keep it, nobody else can open it any more. */
hw_status hw_shared_unlink(const char *name);

enum {
    HW_STRANGERS_RESPECT = 0, /* a segment of another namespace of processes is refused: its processes may live */
    HW_STRANGERS_DISPLACE = 1 /* it is taken over; the caller has made sure that nobody uses it there */
};

/* Puts a segment in order that is refused as damaged, or as one of another namespace. What the segment says of its blocks is
 * believed if it can be true at all; what they hold is not looked at. Nobody is attached by it. */
hw_status hw_shared_repair(const char *name, const hw_shared_access *access, unsigned strangers);

/* By address, as this process sees it: as hw_allocate and its kin do. Alignments are up to 4096. A heap that may grow does
 * when nothing fits. */
void *hw_shared_allocate(hw_shared *heap, size_t size);
void *hw_shared_allocate_aligned(hw_shared *heap, size_t size, size_t alignment);
hw_status hw_shared_try_allocate(hw_shared *heap, size_t size, size_t alignment, void **block);

/* A block that moves keeps its contents; a process that is killed on the way may leave it at both places. */
void *hw_shared_resize(hw_shared *heap, void *block, size_t size);
hw_status hw_shared_try_resize(hw_shared *heap, void **block, size_t size);
hw_status hw_shared_free(hw_shared *heap, void *block);
size_t hw_shared_usable_size(const hw_shared *heap, const void *block);

/* The same by offset. */
hw_status hw_shared_allocate_offset(hw_shared *heap, size_t size, size_t alignment, uint64_t *offset);
hw_status hw_shared_resize_offset(hw_shared *heap, uint64_t *offset, size_t size);
hw_status hw_shared_free_offset(hw_shared *heap, uint64_t offset);
size_t hw_shared_usable_size_offset(const hw_shared *heap, uint64_t offset);

/* Makes a block hold `size` bytes where it is, or fails with HW_NO_ROOM. */
hw_status hw_shared_resize_in_place(hw_shared *heap, uint64_t offset, size_t size);

/* The address of what lies at an offset, and the offset of what lies at an address; null and 0 stand for each other, and for
 * what is not in the segment. Whether there is a block is not looked at. No lock is taken. */
void *hw_shared_pointer_of(const hw_shared *heap, uint64_t offset);
uint64_t hw_shared_offset_of(const hw_shared *heap, const void *pointer);

/* Roots: names for blocks. A name has 1 to 40 bytes of UTF-8. A root that is not set is at 0. */
hw_status hw_shared_get_root(const hw_shared *heap, const char *name, uint64_t *offset);

/* Points the root at a block; unless `old` is null, stores there where it pointed before. */
hw_status hw_shared_set_root(hw_shared *heap, const char *name, uint64_t offset, uint64_t *old);

/* Points the root at `offset` (0: removes it) if it is at `expected` (0: not set), else fails with HW_ROOT_DIFFERS. */
hw_status hw_shared_replace_root(hw_shared *heap, const char *name, uint64_t expected, uint64_t offset);

/* Removes the root, but not its block; unless `old` is null, stores there where it pointed. */
hw_status hw_shared_remove_root(hw_shared *heap, const char *name, uint64_t *old);

/* A root as a walk shows it. */
typedef struct hw_shared_root {
    uint64_t offset;
    char name[48];
} hw_shared_root;

/* Walks of shared heaps show how things were when they began: the visitor may do anything but close the heap. It returns 0
 * to go on, anything else to end the walk. */
hw_status hw_shared_walk_roots(const hw_shared *heap, int (*visit)(const hw_shared_root *root, void *context),
                               void *context);

/* Makes the heap hold at least so many bytes of blocks. It grows by itself; this is for who wants the memory now. */
hw_status hw_shared_grow(hw_shared *heap, size_t bytes);

/* Bytes of blocks now, used and free, and at most; the granule; bytes of the segment that are not for blocks when it is as
 * long as it can become; the policy. 0 on failure. */
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

/* A block as a walk shows it. */
typedef struct hw_shared_block {
    uint64_t offset;
    void *address;  /* in this process */
    size_t size;
    uint32_t used;  /* 1: used; 0: a hole */
    uint32_t pid;   /* who allocated it; 0 for a hole, and when it is not known any more */
    uint32_t state; /* HW_ATTACHED, HW_CLOSED or HW_DEAD; 0 for a hole */
} hw_shared_block;

typedef int (*hw_shared_visitor)(const hw_shared_block *block, void *context);

/* Shows all blocks, used and free, in the order of their offsets. */
hw_status hw_shared_walk(const hw_shared *heap, hw_shared_visitor visit, void *context);

hw_status hw_shared_holes_of(const hw_shared *heap, hw_holes *holes);
hw_status hw_shared_counters_of(const hw_shared *heap, hw_counters *counters);

/* As hw_check; the violation's offset is from the segment's first byte. */
hw_status hw_shared_check(const hw_shared *heap, hw_violation *violation);

/* A process that is attached, or has left blocks; one that opened the segment several times is shown for each. */
typedef struct hw_shared_process {
    uint32_t pid;   /* 0 for those who had to make room for others */
    uint32_t state; /* HW_ATTACHED, HW_CLOSED or HW_DEAD */
    uint64_t blocks;
    uint64_t bytes;
} hw_shared_process;

hw_status hw_shared_walk_processes(const hw_shared *heap,
                                   int (*visit)(const hw_shared_process *process, void *context), void *context);

/* Shows the blocks of processes that died. */
hw_status hw_shared_walk_left_behind(const hw_shared *heap, hw_shared_visitor visit, void *context);

/* Makes this process the owner of a block, which is not reclaimed while it lives. */
hw_status hw_shared_adopt(hw_shared *heap, uint64_t offset);

enum {
    HW_RECLAIM_DEAD = 0,           /* blocks of processes that died */
    HW_RECLAIM_DEAD_AND_CLOSED = 1 /* also of those that closed the segment */
};

/* What was reclaimed. */
typedef struct hw_shared_reclaimed {
    uint64_t blocks; /* freed */
    uint64_t bytes;  /* in them */
    uint64_t kept;   /* blocks kept because a root points at them */
} hw_shared_reclaimed;

/* Frees what those have left who are not attached any more, but for blocks that a root points at. Blocks that are reached
 * from other blocks only are freed as well: adopt them first. `reclaimed` may be null. */
hw_status hw_shared_reclaim(hw_shared *heap, unsigned whose, hw_shared_reclaimed *reclaimed);

/* How often somebody has put the heap in order after a death. */
hw_status hw_shared_recoveries(const hw_shared *heap, uint64_t *recoveries);

#ifdef __cplusplus
}
#endif

#endif
