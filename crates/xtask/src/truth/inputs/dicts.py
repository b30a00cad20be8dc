index = {}
for number in range(250000):
    index.setdefault(number * 7919 % 10007, []).append(str(number))
for key in list(index)[::2]:
    del index[key]
words = {place: key for key, places in index.items() for place in places}
print(len(index), len(words))
