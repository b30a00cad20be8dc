{ all[$1] = all[$1] " " $2; last[$2] = $3 }
END { for (key in all) sum += length(all[key]); print sum, length(last) }
