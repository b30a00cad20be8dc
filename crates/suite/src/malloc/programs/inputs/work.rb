state = 1
draw = lambda do |below|
  state = (state * 1103515245 + 12345) & 0x7fffffff
  (state >> 8) % below
end
index = Hash.new { |hash, word| hash[word] = [] }
200_000.times { |number| index["w#{draw.call(4000)}"] << "place #{number}" }
lines = index.map { |word, places| "#{word} #{places.join(',')}" }
puts lines.sum { |line| line.split(/[ ,]/).length }
