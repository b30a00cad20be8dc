// Boost.Interprocess, measured as `heapwright bench shared` measures Heapwright: the same task, the same requests in
// the same order, the same clock read at the same places (see task.rs, worker.rs and load.rs). The bench builds this by
// itself.

#include <boost/interprocess/managed_shared_memory.hpp>
#include <boost/interprocess/mem_algo/rbtree_best_fit.hpp>
#include <boost/interprocess/mem_algo/simple_seq_fit.hpp>
#include <boost/version.hpp>

#include <time.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <vector>

namespace ipc = boost::interprocess;

struct Task {
    std::string allocator, name;
    std::size_t bytes;
    bool creates, steady, mixed, line, touched, timed;
    std::size_t live;
    std::uint64_t seed;
};

// SplitMix64.
struct Numbers {
    std::uint64_t state;

    std::uint64_t next() {
        state += 0x9e3779b97f4a7c15;
        std::uint64_t mixed = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9;
        mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
        return mixed ^ (mixed >> 31);
    }

    std::size_t below(std::size_t bound) {
        return static_cast<std::size_t>((static_cast<unsigned __int128>(next()) * bound) >> 64);
    }
};

static std::uint64_t read_clock(clockid_t clock) {
    timespec time;
    clock_gettime(clock, &time);
    return static_cast<std::uint64_t>(time.tv_sec) * 1000000000 + static_cast<std::uint64_t>(time.tv_nsec);
}

// The counts of durations, as in durations.rs.
struct Durations {
    std::uint64_t counts[64 * 16] = {};

    void count(std::uint64_t nanoseconds) {
        unsigned power = 60 - static_cast<unsigned>(__builtin_clzll(nanoseconds | 16));
        counts[(power - 1) * 16 + (nanoseconds >> (power - 1))] += 1;
    }

    std::uint64_t tail() const {
        std::uint64_t beyond = 0, seen = 0;
        for (std::uint64_t count : counts) {
            beyond += count;
        }
        beyond /= 1000;
        for (std::size_t at = 64 * 16; at-- > 0;) {
            seen += counts[at];
            if (seen > beyond) {
                return at < 32 ? at : (16 + at % 16) << (at / 16 - 1);
            }
        }
        return 0;
    }
};

static void sleep_until(std::uint64_t moment) {
    timespec time;
    time.tv_sec = static_cast<time_t>(moment / 1000000000);
    time.tv_nsec = static_cast<long>(moment % 1000000000);
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, nullptr) != 0) {
    }
}

template <class Segment>
class Load {
    static constexpr std::size_t sizes_count = 1024;
    static constexpr std::size_t pairs_per_look = 32;
    static constexpr std::size_t turnovers = 4;

    Segment &segment;
    const Task &task;
    Numbers numbers;
    std::uint32_t sizes[sizes_count];
    std::vector<void *> blocks;
    Durations durations;

    void *allocate() {
        std::size_t bytes = sizes[numbers.below(sizes_count)];
        void *block = segment.allocate(bytes, std::nothrow);
        if (block == nullptr) {
            throw std::bad_alloc();
        }
        if (task.touched) {
            std::memset(block, 0x5a, bytes);
        }
        return block;
    }

    void pair() {
        if (task.steady) {
            std::size_t slot = numbers.below(blocks.size());
            segment.deallocate(blocks[slot]);
            blocks[slot] = allocate();
        } else {
            segment.deallocate(allocate());
        }
    }

    void *allocate_timed() {
        std::uint64_t start = read_clock(CLOCK_MONOTONIC);
        void *block = allocate();
        durations.count(read_clock(CLOCK_MONOTONIC) - start);
        return block;
    }

    void timed_pair() {
        std::size_t slot = task.steady ? numbers.below(blocks.size()) : 0;
        void *held = task.steady ? blocks[slot] : allocate_timed();
        std::uint64_t start = read_clock(CLOCK_MONOTONIC);
        segment.deallocate(held);
        durations.count(read_clock(CLOCK_MONOTONIC) - start);
        if (task.steady) {
            blocks[slot] = allocate_timed();
        }
    }

public:
    Load(Segment &segment, const Task &task) : segment(segment), task(task), numbers{task.seed} {
        for (std::size_t step = 0; step < sizes_count; ++step) {
            sizes[step] = task.line    ? 64
                          : task.mixed ? static_cast<std::uint32_t>(16.0 * std::exp2(8.0 * step / (sizes_count - 1)))
                                     : static_cast<std::uint32_t>(16 + 240 * step / (sizes_count - 1));
        }
        std::size_t count = task.steady ? task.live : 1;
        for (std::size_t slot = 0; slot < count; ++slot) {
            blocks.push_back(allocate());
        }
        for (std::size_t turn = 0; turn < count * turnovers; ++turn) {
            pair();
        }
    }

    std::uint64_t run_until(std::uint64_t end) {
        std::uint64_t pairs = 0;
        durations = Durations();
        do {
            for (std::size_t at = 0; at < pairs_per_look; ++at) {
                task.timed ? timed_pair() : pair();
            }
            pairs += pairs_per_look;
        } while (read_clock(CLOCK_MONOTONIC) < end);
        return pairs;
    }

    std::uint64_t tail() const { return durations.tail(); }
};

template <class Segment>
static int serve(const Task &task, Segment &segment) {
    Load<Segment> load(segment, task);
    std::puts("\"ready\"");
    std::fflush(stdout);
    unsigned long long start, begin, end;
    while (std::scanf(" {\"start\":%llu,\"begin\":%llu,\"end\":%llu}", &start, &begin, &end) == 3) {
        sleep_until(start);
        load.run_until(begin);
        std::uint64_t busy = read_clock(CLOCK_PROCESS_CPUTIME_ID);
        std::uint64_t pairs = load.run_until(end);
        busy = read_clock(CLOCK_PROCESS_CPUTIME_ID) - busy;
        std::printf("{\"done\":{\"pairs\":%llu,\"busy\":%llu,\"tail\":%llu}}\n",
                    static_cast<unsigned long long>(pairs), static_cast<unsigned long long>(busy),
                    static_cast<unsigned long long>(load.tail()));
        std::fflush(stdout);
    }
    return 0;
}

template <template <class, class> class Algorithm>
static int attach(const Task &task) {
    typedef ipc::basic_managed_shared_memory<char, Algorithm<ipc::mutex_family, ipc::offset_ptr<void>>, ipc::iset_index>
        Segment;
    if (task.creates) {
        Segment segment(ipc::create_only, task.name.c_str(), task.bytes);
        return serve(task, segment);
    }
    Segment segment(ipc::open_only, task.name.c_str());
    return serve(task, segment);
}

template <class Mutex, class Pointer>
using Rbtree = ipc::rbtree_best_fit<Mutex, Pointer>;
template <class Mutex, class Pointer>
using SimpleSeq = ipc::simple_seq_fit<Mutex, Pointer>;

// Reads a task in the form, and with the order of fields, in which task.rs writes it.
static bool read_task(const char *json, Task &task) {
    const char *form = "{\"allocator\":\"%31[^\"]\",\"name\":\"%127[^\"]\",\"bytes\":%llu,\"role\":\"%15[^\"]\","
                       "\"load\":{\"pattern\":\"%15[^\"]\",\"sizes\":\"%15[^\"]\",\"touch\":\"%15[^\"]\","
                       "\"live\":%llu,\"figure\":\"%15[^\"]\"},\"seed\":%llu}";
    char allocator[32], name[128], role[16], pattern[16], sizes[16], touch[16], figure[16];
    unsigned long long bytes, live, seed;
    if (std::sscanf(json, form, allocator, name, &bytes, role, pattern, sizes, touch, &live, figure, &seed) != 10) {
        return false;
    }
    auto is = [](const char *word, const char *expected) { return std::strcmp(word, expected) == 0; };
    task = {allocator,
            name,
            bytes,
            is(role, "create"),
            is(pattern, "steady"),
            is(sizes, "mixed"),
            is(sizes, "line"),
            is(touch, "touched"),
            is(figure, "tail"),
            live,
            seed};
    return true;
}

int main(int count, char **words) {
    if (count == 2 && std::strcmp(words[1], "version") == 0) {
        std::printf("%d.%d.%d\n", BOOST_VERSION / 100000, BOOST_VERSION / 100 % 1000, BOOST_VERSION % 100);
        return 0;
    }
    Task task;
    if (count != 2 || !read_task(words[1], task)) {
        std::fprintf(stderr, "started by `heapwright bench shared` only\n");
        return 2;
    }
    try {
        return task.allocator == "simple_seq" ? attach<SimpleSeq>(task) : attach<Rbtree>(task);
    } catch (const std::exception &error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
