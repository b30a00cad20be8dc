#include <map>
#include <memory>
#include <string>
#include <vector>

template <int N> struct Node {
  std::map<int, std::vector<std::string>> places;
  std::map<std::string, std::unique_ptr<Node<N - 1>>> children;
  void add(const std::string &name, int place) {
    places[place].push_back(name);
    auto &child = children[name];
    if (!child) child = std::make_unique<Node<N - 1>>();
    child->add(name + "x", place + N);
  }
};
template <> struct Node<0> {
  void add(const std::string &, int) {}
};

int main() {
  Node<2> root;
  for (int number = 0; number < 10; number++) root.add(std::to_string(number), number);
  return 0;
}
