{
  for (field = 1; field <= NF; field++) {
    count[$field]++
    lines[$field] = lines[$field] "," NR
  }
}
END {
  for (word in count) total += split(lines[word], places, ",")
  print total
}
