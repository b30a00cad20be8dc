import hashlib
import threading
import zlib

sums = {}

def work(number):
    kept = []
    for round in range(90):
        data = bytes((number * 31 + at * round) % 251 for at in range(400)) * (20 + round)
        packed = zlib.compress(data, 1)
        kept.append((packed, hashlib.sha256(zlib.decompress(packed)).hexdigest()))
    sums[number] = sum(len(packed) for packed, _ in kept)

threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(sorted(sums.items()))
