import json
import random
import re

random.seed(1)
words = ["".join(random.choice("abcdefghijklmnop") for _ in range(random.randint(2, 12))) for _ in range(3000)]
index = {}
for number in range(60000):
    word = words[random.randrange(len(words))]
    index.setdefault(word, []).append((number, str(number)))
records = [{"name": word, "places": [place for place, _ in places], "text": " ".join(text for _, text in places)}
           for word, places in index.items()]
again = json.loads(json.dumps(records))
again.sort(key=lambda record: (len(record["places"]), record["name"]))
tokens = re.findall(r"\w+", " ".join(record["text"] for record in again))
print(len(again), len(tokens), len(set(tokens)))
