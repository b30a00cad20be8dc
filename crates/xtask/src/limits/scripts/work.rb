all = {}
150000.times { |i| all["k#{i}"] = ["v" * (i % 200), i, {a: i}] }
all.delete_if { |_, value| value[1] % 3 != 0 }
later = (0..120000).map { |i| "w" * (i % 300) }
puts all.size, later.size
