local all = {}
for i = 1, 300000 do all[i] = {i, tostring(i) .. ("x"):rep(i % 50), {a = i}} end
for i = 1, 300000, 3 do all[i] = nil end
collectgarbage()
local later = {}
for i = 1, 150000 do later["k" .. i] = {n = i, s = ("y"):rep(i % 120)} end
print(#later["k77"].s, all[2][2])
