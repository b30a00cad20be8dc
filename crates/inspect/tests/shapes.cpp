// Blocks whose contents are known: objects, texts, zeroes, pointers, and a long block that is mapped by itself.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>
#include <vector>

namespace shapes {
struct Shape {
    virtual ~Shape() = default;
    virtual double area() const = 0;
};
struct Circle : Shape {
    double radius = 1;
    double area() const override { return 3 * radius * radius; }
};
template <class T> struct Box : Shape {
    T sides[4] = {};
    double area() const override { return sides[0] * sides[1]; }
};
} // namespace shapes

namespace {
struct Hidden : shapes::Shape {
    double area() const override { return 0; }
};
} // namespace

static std::vector<shapes::Shape *> objects;
static std::vector<char *> blocks;

int main(int count, char **arguments) {
    objects.reserve(10000), blocks.reserve(10000);
    for (int index = 0; index < 1000; index++) objects.push_back(new shapes::Circle);
    for (int index = 0; index < 500; index++) objects.push_back(new shapes::Box<double>);
    for (int index = 0; index < 300; index++) objects.push_back(new Hidden);
    for (int index = 0; index < 200; index++) {
        char *text = (char *)calloc(1, 100);
        snprintf(text, 100, "customer %d of this shop, whose name is private", index % 2);
        blocks.push_back(text);
    }
    for (int index = 0; index < 100; index++) blocks.push_back((char *)calloc(1, 200));
    for (int index = 0; index < 50; index++) {
        char **pointer = (char **)calloc(1, 300);
        *pointer = blocks[index];
        blocks.push_back((char *)pointer);
    }
    char *long_text = (char *)calloc(1, 4 << 20);
    strcpy(long_text, "a long text in a mapping of its own");
    puts("ready"), fflush(stdout);
    if (count > 1 && strcmp(arguments[1], "abort") == 0) abort();
    char line[16];
    return read(0, line, sizeof line) < 0 || objects[0]->area() < 0 || long_text == nullptr;
}
