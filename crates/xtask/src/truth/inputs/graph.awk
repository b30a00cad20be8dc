# A graph for dot: every node has edges to two later ones.
BEGIN {
  print "digraph g {"
  for (node = 0; node < 160; node++) {
    printf "n%d [label=\"node %d\"];\n", node, node
    printf "n%d -> n%d; n%d -> n%d;\n", node, node + 1 + node * 7 % 5, node, node + 3 + node * 13 % 11
  }
  print "}"
}
