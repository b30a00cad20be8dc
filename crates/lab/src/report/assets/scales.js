// From numbers to places, and where to put marks.

/** A linear scale. */
function scale(from, to, start, end) {
  const span = to - from || 1;
  const place = (value) => start + ((value - from) / span) * (end - start);
  place.invert = (at) => from + ((at - start) / (end - start || 1)) * span;
  return place;
}

/** Round numbers between two, about so many: steps of 1, 2 or 5 times a power of ten. */
function ticks(from, to, about) {
  const raw = Math.max((to - from) / Math.max(1, about), 1e-12);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= raw);
  return steps(from, to, step);
}

/** Round numbers of bytes between two, about so many: steps of powers of two. */
function byteTicks(from, to, about) {
  const raw = Math.max((to - from) / Math.max(1, about), 1);
  return steps(from, to, 2 ** Math.ceil(Math.log2(raw)));
}

function steps(from, to, step) {
  const marks = [];
  for (let at = Math.ceil(from / step) * step; at <= to + step * 1e-9; at += step) marks.push(at);
  return marks;
}
