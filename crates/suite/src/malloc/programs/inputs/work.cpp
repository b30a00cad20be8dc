#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

template <int N> struct Node {
  std::map<int, std::vector<std::string>> places;
  std::unordered_map<std::string, std::shared_ptr<Node<N - 1>>> children;
  void add(const std::string &name, int place) {
    places[place].push_back(name);
    auto &child = children[name];
    if (!child) child = std::make_shared<Node<N - 1>>();
    child->add(name + "x", place + N);
  }
};
template <> struct Node<0> {
  void add(const std::string &, int) {}
};

int main() {
  Node<4> root;
  std::function<void(int)> fill = [&](int depth) {
    root.add(std::to_string(depth), depth);
    if (depth > 0) fill(depth - 1);
  };
  fill(10);
  std::vector<int> order{3, 1, 2};
  std::sort(order.begin(), order.end(), [](int left, int right) { return left > right; });
  return order.front() - 3;
}
