{
  for (field = 1; field <= NF; field++) {
    count[$field]++
    lines[$field] = lines[$field] "," NR
  }
}
END {
  for (word in count) {
    parts = split(lines[word], places, ",")
    total += parts
    longest = length(lines[word]) > longest ? length(lines[word]) : longest
  }
  print length(count), total, longest
}
