import random

random.seed(5)
lengths = {i: "x" * random.randrange(20, 300) for i in range(120000)}
for i in range(120000):
    if i % 3:
        del lengths[i]
lists = [[j] * random.randrange(1, 40) for j in range(60000)]
pairs = {str(i): (i, [i] * (i % 9)) for i in range(60000)}
print(len(lengths), len(lists), len(pairs))
