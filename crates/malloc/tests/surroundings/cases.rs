//! The table of the matrix.

use super::case::Bound::{AtLeast, AtMost, Ends, OfSystem, OverSystem, SameAsSystem};
use super::case::Program::{Compiled, Installed};
use super::case::{Case, FailsToday};
use super::heap::Heap::{Best, Cached, Hardened};
use super::heap::{Heap, OURS};

/// The heap of bars that are the default's: the others keep more by design.
const DEFAULT: &[Heap] = &[Cached];

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// A workspace file that is long enough to be sorted.
const TEXT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.lock");

/// A case whose program verifies everything itself.
const EXERCISE: Case = Case {
    name: "",
    holds: "blocks of all lengths from several threads keep their contents",
    surrounding: &[],
    shim: None,
    program: Compiled("exercise.c", &[]),
    bound: Ends,
    heaps: &OURS,
    seconds: 60,
    today: &[],
};

/// The cases, each with the name of its test.
pub const CASES: &[Case] = &[
    Case {
        name: "data_limit_long_blocks",
        holds: "at least 250 of 256 MiB of RLIMIT_DATA can be had in blocks of 1 MiB and written to",
        surrounding: &["--data=268435456"],
        program: Compiled("fill.c", &["1048576", "1073741824", "all"]),
        bound: AtLeast(250 * MIB),
        today: &[(Hardened, FailsToday("random distances and guards take a part of the limit"))],
        ..EXERCISE
    },
    Case {
        name: "data_limit_short_blocks",
        holds: "blocks of 100 bytes get 97 % of what glibc has of 256 MiB (hardened: 85 %, for guards and canaries)",
        surrounding: &["--data=268435456"],
        program: Compiled("fill.c", &["100", "1073741824", "all"]),
        bound: OfSystem { plain: 0.97, hardened: 0.85 },
        today: &[(Hardened, FailsToday("canaries and the table of their places double blocks of 100 bytes"))],
        ..EXERCISE
    },
    Case {
        name: "address_limit_4_gib",
        holds: "at least 4,000 of 4,096 MiB of RLIMIT_AS can be had in blocks of 1 MiB",
        surrounding: &["--as=4294967296"],
        program: Compiled("fill.c", &["1048576", "1000000000000", "first"]),
        bound: AtLeast(4000 * MIB),
        today: &[(Hardened, FailsToday("random distances take a part of the limit"))],
        ..EXERCISE
    },
    Case {
        name: "other_blocks_after_all_were_freed",
        holds: "what a limit leaves is had again in short blocks after long ones were freed (hardened: half, for leads)",
        surrounding: &["--as=314572800"],
        program: Compiled("refill.c", &["100000", "again", "1000"]),
        bound: OfSystem { plain: 0.9, hardened: 0.35 },
        ..EXERCISE
    },
    Case {
        name: "shorter_blocks_after_all_were_freed",
        holds: "the same in blocks of 100 bytes after blocks of 1000 bytes (hardened: half, for canaries)",
        surrounding: &["--as=314572800"],
        program: Compiled("refill.c", &["1000", "again", "100"]),
        bound: OfSystem { plain: 0.9, hardened: 0.35 },
        ..EXERCISE
    },
    Case {
        name: "data_limit_after_all_were_freed",
        holds: "the same under a limit on data",
        surrounding: &["--data=268435456"],
        program: Compiled("refill.c", &["1000", "again", "100"]),
        bound: OfSystem { plain: 0.9, hardened: 0.35 },
        ..EXERCISE
    },
    Case {
        name: "addresses_are_given_back",
        holds: "a program that has freed all and trimmed can map most of what its limit allows by itself",
        surrounding: &["--as=314572800"],
        program: Compiled("refill.c", &["1000", "map"]),
        bound: OfSystem { plain: 0.9, hardened: 0.75 },
        ..EXERCISE
    },
    Case {
        name: "addresses_of_long_blocks_are_given_back",
        holds: "the same after blocks of 1 MB",
        surrounding: &["--as=314572800"],
        program: Compiled("refill.c", &["1000000", "map"]),
        bound: OfSystem { plain: 0.9, hardened: 0.75 },
        ..EXERCISE
    },
    Case { name: "without_munmap", surrounding: &["--refuse=munmap"], ..EXERCISE },
    Case {
        name: "sort_in_40_mb",
        holds: "sort does its work within 40 MiB of addresses",
        surrounding: &["--as=41943040"],
        program: Installed("sort", &["--parallel=2", TEXT]),
        bound: SameAsSystem,
        today: &[],
        ..EXERCISE
    },
    Case {
        name: "true_in_40_mb",
        holds: "true ends well within 40 MiB of addresses",
        surrounding: &["--as=41943040"],
        program: Installed("true", &[]),
        today: &[],
        ..EXERCISE
    },
    Case {
        name: "ls_in_40_mb",
        holds: "ls lists a long folder within 40 MiB of addresses",
        surrounding: &["--as=41943040"],
        program: Installed("ls", &["-l", "/usr/bin"]),
        bound: SameAsSystem,
        today: &[],
        ..EXERCISE
    },
    Case {
        name: "null_where_nothing_works",
        holds: "under RLIMIT_AS of 2 to 48 MiB malloc returns null with ENOMEM, or a block; nothing aborts",
        surrounding: &["--as-steps=2048-49152/2048"],
        program: Compiled("lowered.c", &["nothing"]),
        today: &[],
        ..EXERCISE
    },
    Case {
        name: "lowered_while_running",
        holds: "after RLIMIT_AS was lowered threads start, libraries load, null comes at the limit, frees work",
        program: Compiled("lowered.c", &[]),
        today: &[],
        ..EXERCISE
    },
    Case {
        name: "locked_memory",
        holds: "after mlockall and one malloc no more than glibc's resident memory and 2 MiB",
        program: Compiled("footprint.c", &["locked"]),
        bound: OverSystem(2 * MIB),
        today: &[],
        ..EXERCISE
    },
    Case {
        name: "locked_memory_within_a_limit",
        holds: "mlockall works under RLIMIT_MEMLOCK of 8 MiB and leaves half of what glibc leaves (hardened: three tenths)",
        surrounding: &["--memlock=8388608", "--drop-rights"],
        program: Compiled("footprint.c", &["within"]),
        bound: OfSystem { plain: 0.5, hardened: 0.3 },
        today: &[],
        ..EXERCISE
    },
    Case {
        name: "core_is_short_and_whole",
        holds: "the core of a process with few blocks has them all and is at most 8 MiB long",
        program: Compiled("footprint.c", &["core"]),
        bound: AtMost(8 * MIB),
        today: &[],
        ..EXERCISE
    },
    Case {
        name: "little_code_used",
        holds: "of the library's code, a program that allocates little uses at most 96 KiB of pages: else run `layout`",
        program: Compiled("footprint.c", &["code"]),
        bound: AtMost(96 * KIB),
        heaps: DEFAULT,
        today: &[],
        ..EXERCISE
    },
    Case {
        name: "few_mappings",
        holds: "a program with a hundred blocks has at most 13 mappings more than with glibc, 4 of our file",
        program: Compiled("footprint.c", &["mappings"]),
        bound: OverSystem(13),
        heaps: DEFAULT,
        today: &[],
        ..EXERCISE
    },
    Case {
        name: "few_page_tables",
        holds: "the page tables of a program with a hundred blocks take at most 40 KiB more than under glibc",
        program: Compiled("footprint.c", &["tables"]),
        bound: OverSystem(40 * KIB),
        heaps: DEFAULT,
        today: &[],
        ..EXERCISE
    },
    Case {
        name: "little_writable_memory",
        holds: "VmData of a program with a hundred blocks is at most 8 MiB",
        program: Compiled("footprint.c", &["data"]),
        bound: AtMost(8 * MIB),
        today: &[(Hardened, FailsToday("each class in use has a slab of 64 KiB and tables"))],
        ..EXERCISE
    },
    Case {
        name: "huge_pages_always",
        holds: "with huge pages wherever they fit, a trivial program takes 2 MiB more than under glibc at most",
        shim: Some("thp"),
        program: Compiled("footprint.c", &["thp"]),
        bound: OverSystem(2 * MIB),
        today: &[],
        ..EXERCISE
    },
    Case { name: "without_populate", shim: Some("populate"), ..EXERCISE },
    Case {
        name: "populate_is_tried_a_few_times",
        holds: "MADV_POPULATE_WRITE that does not exist is not tried for ever: at most four times",
        shim: Some("populate"),
        program: Compiled("exercise.c", &["refused"]),
        bound: AtMost(4),
        today: &[],
        ..EXERCISE
    },
    Case { name: "without_guard", surrounding: &["--refuse=guard"], ..EXERCISE },
    Case {
        name: "guard_is_tried_a_few_times",
        holds: "MADV_GUARD_INSTALL that does not exist is not tried for ever: at most four times",
        shim: Some("guard"),
        program: Compiled("exercise.c", &["refused"]),
        bound: AtMost(4),
        today: &[],
        ..EXERCISE
    },
    Case {
        name: "mappings_are_left",
        holds: "40,000 long blocks without MADV_GUARD_INSTALL leave the program 30,000 of its 65,530 mappings",
        surrounding: &["--refuse=guard"],
        program: Compiled("lowered.c", &["mappings"]),
        bound: AtMost(35_530),
        today: &[],
        ..EXERCISE
    },
    Case {
        name: "advice_without_effect",
        holds: "where madvise does nothing and says that it did, calloc's blocks are zero all the same",
        shim: Some("pretends"),
        ..EXERCISE
    },
    Case {
        name: "guards_without_effect",
        holds: "the same of guards only, as under emulators of other processors",
        shim: Some("pretends_guard"),
        ..EXERCISE
    },
    Case {
        name: "hints_are_not_followed",
        holds: "a mapping at another address than the one asked for is not taken for the one asked for",
        shim: Some("hint"),
        ..EXERCISE
    },
    Case { name: "without_collapse", surrounding: &["--refuse=collapse"], ..EXERCISE },
    Case { name: "without_mremap", surrounding: &["--refuse=mremap"], ..EXERCISE },
    Case { name: "without_getrandom", surrounding: &["--refuse=getrandom"], ..EXERCISE },
    Case { name: "without_membarrier", surrounding: &["--refuse=membarrier"], ..EXERCISE },
    Case { name: "without_rseq", surrounding: &["--refuse=rseq"], ..EXERCISE },
    Case { name: "without_prctl", surrounding: &["--refuse=prctl"], ..EXERCISE },
    Case { name: "madvise_refused", surrounding: &["--refuse=madvise"], ..EXERCISE },
    Case { name: "process_madvise_refused", surrounding: &["--refuse=process-madvise"], ..EXERCISE },
    Case {
        name: "sandbox_of_a_service",
        holds: "a process that is killed when it opens a file after its start, or for system calls that no service \
                needs, can allocate some tens of MB",
        program: Compiled("exercise.c", &["sandbox"]),
        ..EXERCISE
    },
    Case {
        name: "figures_in_a_sandbox",
        holds: "where residency must not be asked, malloc_trim returns what it purged",
        surrounding: &["--refuse=getrandom"],
        program: Compiled("figures.c", &[]),
        heaps: DEFAULT,
        ..EXERCISE
    },
    Case { name: "without_proc", surrounding: &["--no-proc"], ..EXERCISE },
    Case { name: "read_only_sys", surrounding: &["--read-only-sys"], ..EXERCISE },
    Case {
        name: "closed_streams",
        holds: "with descriptors 0, 1 and 2 closed the library opens none in their places",
        surrounding: &["--closed"],
        program: Compiled("exercise.c", &["streams"]),
        ..EXERCISE
    },
    Case { name: "without_environment", surrounding: &["--bare"], ..EXERCISE },
    Case {
        name: "threads_in_a_row",
        holds: "30,000 threads one after the other leave less than 4 MiB",
        program: Compiled("threads.c", &["row", "30000"]),
        bound: AtMost(4 * MIB),
        seconds: 120,
        ..EXERCISE
    },
    Case {
        name: "threads_at_once",
        holds: "300 threads at once have blocks of their own",
        program: Compiled("threads.c", &["crowd", "300"]),
        ..EXERCISE
    },
    Case {
        name: "first_thread_leaves",
        holds: "the first thread ends by pthread_exit, and the others go on",
        program: Compiled("threads.c", &["first-leaves"]),
        ..EXERCISE
    },
    Case {
        name: "small_stacks",
        holds: "threads with stacks of 16 KiB allocate blocks of all lengths",
        program: Compiled("threads.c", &["small-stacks"]),
        ..EXERCISE
    },
    Case {
        name: "little_stack_left",
        holds: "threads with 6 KB of stack left allocate while the heap grows to 100 MB",
        program: Compiled("threads.c", &["little-left"]),
        ..EXERCISE
    },
    Case {
        name: "alternate_stack",
        holds: "a signal handler on a stack of 16 KiB of its own makes its thread's first malloc",
        program: Compiled("threads.c", &["alternate"]),
        ..EXERCISE
    },
    Case {
        name: "freed_for_a_sleeper",
        holds: "of 111 MB that others free for a thread that sleeps at most 5 MiB stay",
        program: Compiled("bars.c", &["sleeper", "kept-bytes"]),
        bound: AtMost(5 * MIB),
        heaps: DEFAULT,
        today: &[],
        ..EXERCISE
    },
    Case {
        name: "freed_for_a_sleeper_and_trimmed",
        holds: "of 111 MB that others free for a thread that sleeps at most 2 MiB stay after malloc_trim by another",
        program: Compiled("bars.c", &["sleeper", "kept-after-trim-bytes"]),
        bound: AtMost(2 * MIB),
        heaps: DEFAULT,
        today: &[],
        ..EXERCISE
    },
    Case {
        name: "batches_on_their_way",
        holds: "with nothing live, batches of remote frees on their way keep at most 4 MiB more than glibc keeps",
        program: Compiled("bars.c", &["batches", "kept-bytes"]),
        bound: OverSystem(4 * MIB),
        heaps: DEFAULT,
        ..EXERCISE
    },
    Case {
        name: "thread_after_thread",
        holds: "of 200 threads, each of which frees 25 MB and ends, most find the pages of the one before: a third of \
                1,220,000 page faults",
        program: Compiled("bars.c", &["successors", "faults"]),
        bound: AtMost(400_000),
        heaps: DEFAULT,
        ..EXERCISE
    },
    Case {
        name: "purging_thread",
        holds: "what a quiet process freed is purged by a thread without signals, in a fork's child too",
        surrounding: &["--set=HEAPWRIGHT_PURGE=thread:50ms"],
        program: Compiled("quiet.c", &["purged"]),
        heaps: DEFAULT,
        ..EXERCISE
    },
    Case {
        name: "purging_thread_is_refused",
        holds: "where the system starts no threads, there is no purging thread, and the process goes on",
        surrounding: &["--refuse=clone3", "--refuse=clone", "--set=HEAPWRIGHT_PURGE=thread:50ms"],
        program: Compiled("quiet.c", &["refused"]),
        heaps: DEFAULT,
        ..EXERCISE
    },
    Case {
        name: "purging_thread_without_proc",
        holds: "where its end could not be decided, there is no purging thread",
        surrounding: &["--no-proc", "--set=HEAPWRIGHT_PURGE=thread:50ms"],
        ..EXERCISE
    },
    Case {
        name: "purging_thread_ends_last",
        holds: "the purging thread does not keep a process alive whose threads have all ended",
        surrounding: &["--set=HEAPWRIGHT_PURGE=thread:50ms"],
        program: Compiled("quiet.c", &["first-leaves"]),
        heaps: DEFAULT,
        ..EXERCISE
    },
    Case {
        name: "purging_never",
        holds: "without decay a quiet process keeps what it freed",
        surrounding: &["--set=HEAPWRIGHT_PURGE=never"],
        program: Compiled("quiet.c", &["kept"]),
        heaps: DEFAULT,
        ..EXERCISE
    },
    Case { name: "purging_at_once", surrounding: &["--set=HEAPWRIGHT_PURGE=0"], ..EXERCISE },
    Case {
        name: "beyond_its_limit",
        holds: "a program with more than HEAPWRIGHT_LIMIT works",
        surrounding: &["--set=HEAPWRIGHT_LIMIT=8MiB"],
        ..EXERCISE
    },
    Case {
        name: "short_blocks_do_not_move",
        holds: "malloc(10), realloc(12), realloc(14) moves in none of 1,000 trials",
        program: Compiled("bars.c", &["moves", "moves"]),
        bound: AtMost(0),
        today: &[],
        ..EXERCISE
    },
    Case {
        name: "long_blocks_grow_where_they_are",
        holds: "a block that grows to 50 MB and shrinks again, in 1,519 steps, is copied at most 40 times",
        program: Compiled("bars.c", &["steps", "moves"]),
        bound: AtMost(40),
        // The default moves pages instead of copying, and other heaps as they do.
        heaps: &[Hardened],
        today: &[],
        ..EXERCISE
    },
    Case {
        name: "vectors_in_turns_by_half",
        holds: "two vectors that grow by half in turns to 290 MB peak at most 4 MiB above glibc",
        program: Compiled("bars.c", &["vectors-1.5", "peak-bytes"]),
        bound: OverSystem(4 * MIB),
        heaps: DEFAULT,
        today: &[],
        ..EXERCISE
    },
    Case {
        name: "vectors_in_turns_doubled",
        holds: "two vectors that double in turns to 290 MB peak at most 4 MiB above glibc",
        program: Compiled("bars.c", &["vectors-2", "peak-bytes"]),
        bound: OverSystem(4 * MIB),
        heaps: DEFAULT,
        today: &[],
        ..EXERCISE
    },
    Case {
        name: "whole_address_space",
        holds: "blocks of 1 GiB that are not touched get 90 % of what glibc gets, up to 64 TiB",
        program: Compiled("fill.c", &["1073741824", "70368744177664", "none"]),
        bound: OfSystem { plain: 0.9, hardened: 0.9 },
        today: &[
            (Hardened, FailsToday("the hardened heap has 3.75 TiB of addresses")),
            (Best, FailsToday("a policy's heap has 8 TiB: there others draw no addresses at random")),
        ],
        ..EXERCISE
    },
    Case {
        name: "chunks_drawn_at_random",
        holds: "a heap grows by 4 GiB where the program has chunks at 30,000 random addresses, as V8 has",
        program: Compiled("drawn.c", &[]),
        ..EXERCISE
    },
];
