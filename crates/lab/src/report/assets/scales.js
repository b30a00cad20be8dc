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

/** The part of the events that all plots over time show. */
class View {
  #listeners = [];

  constructor(events) {
    this.events = Math.max(1, events);
    this.from = 0;
    this.to = this.events;
  }

  onChange(listener) {
    this.#listeners.push(listener);
  }

  show(from, to) {
    const least = Math.min(this.events, Math.max(8, this.events / 2000));
    const width = Math.min(this.events, Math.max(least, to - from));
    const start = Math.max(0, Math.min(this.events - width, (from + to - width) / 2));
    [this.from, this.to] = [start, start + width];
    for (const listener of this.#listeners) listener();
  }

  showAll() {
    this.show(0, this.events);
  }

  get isWhole() {
    return this.to - this.from >= this.events;
  }

  /** Makes the part shown shorter or longer, around an event. */
  zoom(factor, around = (this.from + this.to) / 2) {
    this.show(around - (around - this.from) * factor, around + (this.to - around) * factor);
  }

  move(share) {
    const width = this.to - this.from;
    const start = Math.max(0, Math.min(this.events - width, this.from + share * width));
    this.show(start, start + width);
  }
}
