local state = 1
local function draw(below)
  state = (state * 1103515245 + 12345) % 2147483648
  return math.floor(state / 256) % below
end
local index = {}
for number = 1, 120000 do
  local word = "w" .. draw(4000)
  local places = index[word]
  if not places then
    places = {}
    index[word] = places
  end
  places[#places + 1] = { number = number, text = word .. number }
end
local parts = {}
for word, places in pairs(index) do
  local texts = {}
  for at, place in ipairs(places) do texts[at] = place.text end
  parts[#parts + 1] = table.concat(texts, ",")
end
print(#parts, #table.concat(parts, ";"))
