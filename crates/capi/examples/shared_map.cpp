/* A map from words to their counts that processes share: each run counts the words of standard input, and prints the map
 * with all words that were ever counted. Uses Boost.Container, whose containers store the allocator's pointers.
 *
 *     cargo build --release -p heapwright-capi
 *     c++ -std=c++17 crates/capi/examples/shared_map.cpp -I crates/capi/include target/release/libheapwright_c.a -o shared_map
 *     echo to be or not to be | ./shared_map words
 *     echo not to worry | ./shared_map words
 *     ./shared_map words --remove
 */
#include <boost/container/map.hpp>
#include <boost/container/string.hpp>
#include <heapwright.hpp>

#include <functional>
#include <iostream>
#include <string>

namespace container = boost::container;
using heapwright::shared_heap;
using text = container::basic_string<char, std::char_traits<char>, heapwright::allocator<char>>;
using entry = std::pair<const text, std::uint64_t>;
using counts = container::map<text, std::uint64_t, std::less<text>, heapwright::allocator<entry>>;

/* What lies in the segment: the mutex is held while the map is used. */
struct word_counts {
    heapwright::robust_mutex mutex;
    counts words;

    explicit word_counts(const heapwright::allocator<entry> &allocator) : words(allocator) {}
};

static void count(shared_heap &heap, word_counts &shared) {
    for (std::string word; std::cin >> word;) {
        heapwright::robust_lock lock(heap, shared.mutex);
        if (lock.previous_holder_died()) throw std::runtime_error("a process died while it changed the map");
        ++shared.words[text(word.c_str(), heap.allocator<char>())];
    }
}

int main(int arguments, char **argument) {
    if (arguments < 2) {
        std::cerr << "usage: shared_map NAME [--remove]\n";
        return 2;
    }
    try {
        if (arguments > 2) {
            shared_heap::unlink(argument[1]);
            return 0;
        }
        hw_shared_settings settings = {};
        settings.max_size = 64 << 20;
        shared_heap heap = shared_heap::open_or_create(argument[1], settings);
        word_counts &shared = *heap.find_or_construct<word_counts>("counts", heap.allocator<entry>());
        count(heap, shared);
        heapwright::robust_lock lock(heap, shared.mutex);
        for (const auto &word : shared.words) std::cout << word.first.c_str() << ' ' << word.second << '\n';
    } catch (const std::exception &failure) {
        std::cerr << "shared_map: " << failure.what() << '\n';
        return 1;
    }
}
