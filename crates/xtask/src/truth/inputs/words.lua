local state, index = 1, {}
for number = 1, 60000 do
  state = (state * 1103515245 + 12345) % 2147483648
  local word = "w" .. math.floor(state / 256) % 4000
  local places = index[word] or {}
  index[word] = places
  places[#places + 1] = { number = number, text = word .. number }
end
local length = 0
for word, places in pairs(index) do
  local texts = {}
  for at, place in ipairs(places) do texts[at] = place.text end
  length = length + #table.concat(texts, ",")
end
print(length)
