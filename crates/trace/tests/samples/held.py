"""Allocates in three functions, for a table of memray."""

kept = []


def leaked():
    kept.append(bytearray(300_000))


def peaked():
    return [bytes(20_000 + i) for i in range(20)]


def main():
    leaked()
    x = peaked()
    return len(x)


main()
