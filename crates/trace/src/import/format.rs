//! The supported formats.

/// The format of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// `op,id,size` with an optional alignment and thread: `malloc,1,100`, `calloc,2,40`, `aligned,3,64,32`,
    /// `realloc,1,200`, `free,1`.
    Csv,
    /// The `.rep` files of CS:APP's malloc lab: two to four integers, then `a 0 512`, `r 0 640`, `f 0`.
    Rep,
    /// Android's memory_replay: `1234: malloc 0x7f00 100`.
    MemoryReplay,
    /// Mozilla's logalloc: `1234 1234 malloc(40)=#1`, or with addresses.
    Logalloc,
    /// glibc's mtrace: `@ ./a.out:[0x4005e6] + 0x602460 0x64`.
    Mtrace,
    /// The log of RAPIDS RMM: `Thread,Time,Action,Pointer,Size,Stream`.
    Rmm,
    /// KDE's heaptrack, raw or interpreted. An interpreted file identifies a freed block only by its size and call
    /// site.
    Heaptrack,
    /// A table of memray: `allocator,num_allocations,size,tid,thread_name,stack_trace`. A snapshot.
    Memray,
    /// A heap profile of jemalloc: `heap_v2/524288`. A snapshot.
    Jemalloc,
    /// A snapshot of PyTorch's CUDA memory, a pickle.
    PyTorch,
}

impl Format {
    /// All formats.
    pub const ALL: [Format; 10] = [
        Format::Csv,
        Format::Rep,
        Format::MemoryReplay,
        Format::Logalloc,
        Format::Mtrace,
        Format::Rmm,
        Format::Heaptrack,
        Format::Memray,
        Format::Jemalloc,
        Format::PyTorch,
    ];

    /// Returns the name of the format on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Format::Csv => "csv",
            Format::Rep => "rep",
            Format::MemoryReplay => "memory-replay",
            Format::Logalloc => "logalloc",
            Format::Mtrace => "mtrace",
            Format::Rmm => "rmm",
            Format::Heaptrack => "heaptrack",
            Format::Memray => "memray",
            Format::Jemalloc => "jemalloc",
            Format::PyTorch => "pytorch",
        }
    }

    /// Returns the format of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Format> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }
}
