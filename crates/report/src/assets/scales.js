// From numbers to places, and where to put marks.

/** A linear scale. */
function scale(from, to, start, end) {
  const span = to - from || 1;
  const place = (value) => start + ((value - from) / span) * (end - start);
  place.invert = (at) => from + ((at - start) / (end - start || 1)) * span;
  return place;
}

/** Returns round numbers between two, in about `about` steps of 1, 2 or 5 times a power of ten. */
const ticks = (from, to, about) => steps(from, to, decimalStep((to - from) / about));

/** The least round step that is no shorter than `raw`, and no shorter than 1. */
function decimalStep(raw) {
  const least = Math.max(raw, 1);
  const power = 10 ** Math.floor(Math.log10(least));
  return CHART.factors.map((factor) => factor * power).find((step) => step >= least) ?? least;
}

/** Returns round numbers of bytes between two, in about `about` steps of a power of two. */
function byteTicks(from, to, about) {
  const raw = Math.max((to - from) / about, 1);
  return steps(from, to, 2 ** Math.ceil(Math.log2(raw)));
}

function steps(from, to, step) {
  const marks = [];
  for (let at = Math.ceil(from / step) * step; at <= to + step * 1e-9; at += step) marks.push(at);
  return marks;
}
