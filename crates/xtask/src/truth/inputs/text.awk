# `lines` lines of pseudo-random words, the same on every machine.
BEGIN {
  state = 1
  for (line = 0; line < lines; line++) {
    text = ""
    for (word = 0; word < 8; word++) {
      state = (state * 16807) % 2147483647
      text = text " w" state % 6007
    }
    print state % 100003 text
  }
}
