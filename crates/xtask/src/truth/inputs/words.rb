state = 1
places = Hash.new { |hash, word| hash[word] = [] }
60_000.times do |number|
  state = (state * 1103515245 + 12345) & 0x7fffffff
  places["w#{(state >> 8) % 4000}"] << "place #{number}"
end
lines = places.map { |word, list| "#{word} #{list.join(',')}" }
puts lines.sum { |line| line.split(/[ ,]/).length }
